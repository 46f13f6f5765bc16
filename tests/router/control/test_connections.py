"""Who asks much of the status port, reads nothing of it or says nothing costs the data plane next to nothing."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from time import monotonic

import pytest

from pulumi_infercrane.router.control.connections import MOST_WAITING, Connections, Timers
from pulumi_infercrane.router.control.server import Answer, Status
from pulumi_infercrane.router.protocol.request import Limits, Request
from tests.router.client import Client
from tests.router.conftest import R1, Running, eventually, revision

ASK = b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"
LARGE = 4 * 1024 * 1024


class Counting:
    """Answers with so many bytes."""

    limits = Limits(body=100)

    def __init__(self, size: int = 10) -> None:
        self.asked = 0
        self.running = 0
        self.most_running = 0
        self._size = size

    async def answer(self, _request: Request) -> Answer:
        self.asked += 1
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        await asyncio.sleep(0.001)
        self.running -= 1
        return Answer(200, "x" * self._size)


Listen = Callable[[Connections], Awaitable[Path]]


@pytest.fixture
async def listen(tmp_path: Path) -> AsyncIterator[Listen]:
    """Opens a listener; the path of its socket."""
    started: list[tuple[asyncio.Server, Connections]] = []

    async def start(connections: Connections) -> Path:
        path = tmp_path / "s"
        server = await asyncio.get_running_loop().create_unix_server(connections.new, str(path))
        started.append((server, connections))
        return path

    yield start
    for server, connections in started:
        server.close()
        for connection in tuple(connections.open):
            connection.hang_up()
    await asyncio.sleep(0.01)


async def closed_after(client: Client) -> float:
    began = monotonic()
    await client.until_closed()
    return monotonic() - began


@pytest.mark.parametrize("said", [b"", b"GET /met", b"POST /v1 HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf"])
async def test_a_request_that_does_not_come_or_end_is_not_waited_for(listen: Listen, said: bytes) -> None:
    path = await listen(Connections(Counting(), Timers(head_s=0.1)))
    async with await Client.over_unix(path) as client:
        await client.send(said)
        assert 0.05 < await closed_after(client) < 2


async def test_a_connection_that_is_not_used_any_more_is_closed(listen: Listen) -> None:
    path = await listen(Connections(Counting(), Timers(idle_s=0.1)))
    async with await Client.over_unix(path) as client:
        assert (await client.ask(ASK)).whole
        assert 0.05 < await closed_after(client) < 2


async def test_bytes_that_trickle_do_not_renew_the_time_for_a_request(listen: Listen) -> None:
    path = await listen(Connections(Counting(), Timers(head_s=0.15)))
    async with await Client.over_unix(path) as client:
        began = monotonic()
        await client.send(b"GET /")
        while not client.reader.at_eof() and monotonic() - began < 2:
            client.writer.write(b"a")
            await asyncio.sleep(0.02)
        assert monotonic() - began < 1


async def test_of_too_many_connections_the_one_that_asked_for_nothing_for_longest_goes(listen: Listen) -> None:
    connections = Connections(Counting(), most=2)
    path = await listen(connections)
    async with AsyncExitStack() as stack:
        used, silent = [await stack.enter_async_context(await Client.over_unix(path)) for _ in range(2)]
        assert (await used.ask(ASK)).whole
        late = await stack.enter_async_context(await Client.over_unix(path))
        await silent.until_closed()
        assert (await late.ask(ASK)).whole
        assert (await used.ask(ASK)).whole
        assert len(connections.open) == 2


async def test_who_comes_while_all_others_are_being_answered_is_turned_away(listen: Listen) -> None:
    path = await listen(Connections(Counting(LARGE), most=1))
    reader, writer = await asyncio.open_unix_connection(path, limit=1024)
    writer.write(ASK)
    await reader.readexactly(1)
    async with await Client.over_unix(path) as late:
        assert await late.until_closed() == b""
    writer.transport.abort()


async def test_calls_of_one_connection_run_one_at_a_time(listen: Listen) -> None:
    api = Counting()
    path = await listen(Connections(api))
    async with await Client.over_unix(path) as client:
        await client.send(ASK * MOST_WAITING)
        assert [(await client.answer()).status for _ in range(MOST_WAITING)] == [200] * MOST_WAITING
    assert api.most_running == 1


async def test_more_than_a_few_requests_at_once_are_refused_after_the_answers_before(listen: Listen) -> None:
    api = Counting()
    path = await listen(Connections(api))
    async with await Client.over_unix(path) as client:
        await client.send(ASK * (MOST_WAITING + 100))
        answers = [await client.answer() for _ in range(MOST_WAITING + 1)]
        assert [answer.status for answer in answers] == [200] * MOST_WAITING + [429]
        assert answers[-1].error == "too_many_calls"
        assert await client.until_closed() == b""
    assert api.asked == MOST_WAITING


async def test_who_does_not_read_gets_nothing_more_and_is_hung_up_on(listen: Listen) -> None:
    api = Counting(LARGE)
    connections = Connections(api, Timers(stall_s=0.1))
    path = await listen(connections)
    reader, writer = await asyncio.open_unix_connection(path, limit=1024)
    writer.write(ASK * 3)
    await eventually(lambda: api.asked == 1)
    (connection,) = connections.open
    await eventually(lambda: not connections.open)
    assert api.asked == 1
    assert connection.transport.is_closing()
    assert not reader.at_eof()
    writer.transport.abort()


async def test_a_slow_reader_gets_the_whole_answer(listen: Listen) -> None:
    path = await listen(Connections(Counting(LARGE), Timers(stall_s=0.15)))
    reader, writer = await asyncio.open_unix_connection(path, limit=1024)
    writer.write(ASK.replace(b"Host: a", b"Host: a\r\nConnection: close"))
    began, size = monotonic(), 0
    while piece := await reader.read(256 * 1024):
        size += len(piece)
        await asyncio.sleep(0.001 if monotonic() - began > 0.5 else 0.05)
    assert size > LARGE
    writer.close()


async def test_a_reader_that_trickles_does_not_keep_its_place(listen: Listen) -> None:
    connections = Connections(Counting(LARGE), Timers(stall_s=0.1, answer_s=0.4))
    path = await listen(connections)
    reader, writer = await asyncio.open_unix_connection(path, limit=1024)
    writer.write(ASK)
    await reader.readexactly(1)
    began = monotonic()
    while connections.open and monotonic() - began < 3:
        await reader.read(32 * 1024)
        await asyncio.sleep(0.02)
    assert 0.3 < monotonic() - began < 1.5
    writer.transport.abort()


async def test_a_head_is_answered_without_a_body_and_the_next_request_too(listen: Listen, router: Running) -> None:
    path = await listen(Connections(Status(router.parts.api)))
    async with await Client.over_unix(path) as client:
        await client.send(ASK.replace(b"GET", b"HEAD") + ASK.replace(b"/metrics", b"/livez"))
        head = await client.head()
        assert (head.status, int(head.header("content-length") or 0) > 100) == (200, True)
        assert (await client.answer()).body == b'{"live":true}'


@pytest.mark.parametrize(("path", "allow"), [("/metrics", "GET, HEAD"), ("/v1/keys", None)])
async def test_the_status_port_says_what_a_path_of_its_own_takes(
    listen: Listen, router: Running, path: str, allow: str | None
) -> None:
    async with await Client.over_unix(await listen(Connections(Status(router.parts.api)))) as client:
        answer = await client.ask(f"DELETE {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    assert (answer.status, answer.header("allow")) == (405 if allow else 404, allow)


async def test_the_status_port_takes_no_bodies(listen: Listen, router: Running) -> None:
    path = await listen(Connections(Status(router.parts.api)))
    async with await Client.over_unix(path) as client:
        answer = await client.ask(b"POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n")
    assert (answer.status, answer.error) == (413, "body_too_large")


async def test_a_flood_of_looks_at_the_metrics_does_not_hold_the_loop(listen: Listen, router: Running) -> None:
    for number in range(20):
        await router.put({R1: revision("r1", "http://127.0.0.1:9")}, f"s{number}", aliases=[f"s{number}"])
    path = await listen(Connections(Status(router.parts.api)))
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(await Client.over_unix(path)) for _ in range(20)]
        for client in clients:
            client.writer.write(ASK * 1500)
        longest, began = 0.0, monotonic()
        while monotonic() - began < 0.3:
            before = monotonic()
            await asyncio.sleep(0)
            longest = max(longest, monotonic() - before)
        assert longest < 0.25
        answer = await clients[0].answer()
    assert re.search(rb"infercrane_router_inflight{[^}]*} 0\n", answer.body)
