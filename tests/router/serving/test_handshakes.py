"""Who connects to the TLS listener and does not finish the handshake holds little, and keeps nobody out."""

import asyncio
import errno
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from pulumi_infercrane.router.serving.handshakes import Handshakes
from pulumi_infercrane.router.serving.tls import Certificate
from tests.router.certificates import certificate, trusting_anybody
from tests.router.client import Client
from tests.router.conftest import Running, StartRouter, eventually

ROOM = 2 * 3
"""As many clients as may be, and as many that are told there are too many."""
MODELS = b"GET /v1/models HTTP/1.1\r\nHost: router\r\n\r\n"


class Listener(socket.socket):
    """Refuses to accept as long as the system has no files left."""

    full = False

    def accept(self) -> tuple[socket.socket, object]:
        if self.full:
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()


@pytest.fixture
async def router(start_router: StartRouter) -> Running:
    return await start_router(max_connections=3)


@pytest.fixture
def listener() -> Listener:
    return Listener(fileno=socket.create_server(("127.0.0.1", 0)).detach())


@pytest.fixture
async def handshakes(router: Running, listener: Listener, tmp_path: Path) -> AsyncIterator[Handshakes]:
    shown = Certificate(*certificate(tmp_path))
    handshakes = Handshakes(router.parts.relay, listener, shown.context)
    yield handshakes
    handshakes.close()


@pytest.fixture
def silent(listener: Listener) -> Iterator[list[socket.socket]]:
    """More connections than there is room for, which say nothing."""
    with ExitStack() as closing:
        address = listener.getsockname()
        yield [closing.enter_context(socket.create_connection(address)) for _ in range(5 * ROOM)]


async def status(listener: Listener) -> int:
    async with await Client.over(*listener.getsockname(), trusting_anybody()) as client:
        return (await client.ask(MODELS)).status


async def test_silent_connections_keep_nobody_out(
    handshakes: Handshakes, listener: Listener, silent: list[socket.socket], router: Running
) -> None:
    assert await status(listener) == 200
    assert len(handshakes._shaking) < ROOM
    assert router.reasons() == {"connections": 4 * ROOM + 1}


async def test_the_oldest_of_them_leave(handshakes: Handshakes, silent: list[socket.socket]) -> None:
    await eventually(lambda: len(handshakes._shaking) == ROOM)
    await asyncio.sleep(0.05)
    for one in silent:
        one.setblocking(False)
    assert [one.recv(1) for one in silent[:-ROOM]] == [b""] * 4 * ROOM
    with pytest.raises(BlockingIOError):
        silent[-ROOM].recv(1)


async def test_what_is_not_tls_leaves_nothing_behind(handshakes: Handshakes, listener: Listener) -> None:
    async with await Client.over(*listener.getsockname()) as client:
        await client.send(MODELS)
        assert b"HTTP" not in await client.until_closed()
    await eventually(lambda: not handshakes._shaking)


async def test_without_files_it_rests_and_goes_on(
    handshakes: Handshakes, listener: Listener, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("pulumi_infercrane.router.serving.handshakes._REST_S", 0.05)
    listener.full = True
    waiting = asyncio.create_task(status(listener))
    await asyncio.sleep(0.12)
    assert 1 <= len(caplog.records) <= 3
    listener.full = False
    assert await waiting == 200
