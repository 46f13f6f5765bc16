"""A connection that is to end: who still takes an answer gets all of it, who takes nothing is cut."""

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from time import monotonic

import pytest

from pulumi_infercrane.router.protocol.observer import Outcome
from pulumi_infercrane.router.serving.front import open_front
from pulumi_infercrane.router.serving.tls import Certificate
from tests.router.certificates import certificate, trusting_anybody
from tests.router.client import Client, chat
from tests.router.conftest import R1, Running, StartRouter, eventually, revision
from tests.router.upstream import ANSWER, Call, Upstream, whole

SIZE = 60_000
LINGER_S = 0.1


@pytest.fixture(params=["http", "https"])
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def ending(start_router: StartRouter, upstream: Upstream) -> Running:
    """Its answers fit into its buffer, and it waits little for those who take nothing."""
    router = await start_router(linger_s=LINGER_S)
    await router.put({R1: revision("r1", upstream.url)}, timers={"client_stall_s": 0.8})
    await router.flip(R1)

    async def large(call: Call) -> None:
        await call.send(whole({**ANSWER, "padding": "x" * SIZE}))

    upstream.script = large
    return router


@pytest.fixture
async def listener(ending: Running, scheme: str, tmp_path: Path) -> AsyncIterator[tuple[str, int]]:
    """Sends little ahead, as a system does on a slow path."""
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
    shown = Certificate(*certificate(tmp_path)) if scheme == "https" else None
    front = await open_front(ending.parts.relay, listening, shown)
    yield listening.getsockname()
    front.stop_accepting()
    front.close()


@pytest.fixture
async def slow(listener: tuple[str, int], scheme: str) -> AsyncIterator[Client]:
    """A client that has little room for what it does not read."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, listener)
    tls, name = (trusting_anybody(), "localhost") if scheme == "https" else (None, None)
    async with Client(*await asyncio.open_connection(sock=sock, ssl=tls, server_hostname=name, limit=4096)) as client:
        if tls is not None:
            client.writer.transport.set_read_buffer_limits(4096)  # type: ignore[attr-defined] - of TLS only
        yield client


async def test_a_slow_client_gets_all_of_the_last_answer(ending: Running, slow: Client) -> None:
    await slow.send(chat(False, "Connection: close"))
    await eventually(lambda: bool(ending.outcomes()))
    answered, got = monotonic(), 0
    while piece := await slow.reader.read(2048):
        got += len(piece)
        await asyncio.sleep(0.015)
    assert got > SIZE
    assert monotonic() - answered > 3 * LINGER_S


async def test_a_client_that_takes_nothing_of_it_is_cut(ending: Running, slow: Client) -> None:
    slow.writer.transport.pause_reading()
    await slow.send(chat(False, "Connection: close"))
    await eventually(lambda: ending.outcomes() == {Outcome.COMPLETE: 1})
    await asyncio.sleep(2 * LINGER_S)
    assert ending.parts.relay.clients
    await eventually(lambda: not ending.parts.relay.clients)
