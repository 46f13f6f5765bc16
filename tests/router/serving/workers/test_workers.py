"""Several worker processes: one table, one flip; nobody is lost when a worker or the whole program is replaced."""

import asyncio
import os
import re
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

import pytest

from pulumi_infercrane.router.control.client import Flip, Grant
from tests.router.certificates import certificate, trusting_anybody
from tests.router.client import Answer, Client, chat
from tests.router.conftest import R1, R2, RouterProcess, eventually
from tests.router.serving.test_listening import by_systemd, listening
from tests.router.serving.test_server import put_and_flip
from tests.router.upstream import Call, Upstream, delta

pytestmark = pytest.mark.processes

Start = Callable[..., RouterProcess]


@pytest.fixture
def two(start_process: Start) -> RouterProcess:
    return start_process(options=("--workers", "2")).wait_ready()


def workers(process: RouterProcess) -> set[int]:
    """Process ids."""
    children = Path(f"/proc/{process.process.pid}/task/{process.process.pid}/children")
    return set(map(int, children.read_text().split()))


async def metric(process: RouterProcess, name: str) -> float:
    """The sum of a family's samples."""
    reader, writer = await asyncio.open_unix_connection(process.control)
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: router\r\nConnection: close\r\n\r\n")
    text = (await reader.read()).decode()
    writer.close()
    return sum(float(value) for value in re.findall(rf"^infercrane_router_{name}{{.*}} (\S+)$", text, re.MULTILINE))


def answered_by(answers: list[Answer]) -> set[str]:
    """The workers, by what their request ids begin with."""
    return {str(answer.header("x-request-id")).partition("-")[0] for answer in answers}


@dataclass
class Load:
    """Clients that ask one request after the other."""

    connect: Callable[[], Awaitable[Client]]
    answers: list[tuple[float, float, Answer]] = field(default_factory=list)
    """When it was sent, when it was answered, and the answer."""
    ending: bool = False

    async def keep_alive(self) -> None:
        """On one connection as long as it may be kept."""
        while not self.ending:
            async with await self.connect() as client:
                kept = True
                while kept and not self.ending:
                    kept = (await self._ask(client)).header("connection") != "close"

    async def afresh(self) -> None:
        """Each on a connection of its own."""
        while not self.ending:
            async with await self.connect() as client:
                await self._ask(client)

    async def _ask(self, client: Client) -> Answer:
        sent_at = monotonic()
        answer = await client.ask(chat(len(self.answers) % 2 == 0))
        self.answers.append((sent_at, monotonic(), answer))
        return answer

    @property
    def lost(self) -> list[Answer]:
        return [answer for _, _, answer in self.answers if not (answer.whole and answer.status == 200)]


@asynccontextmanager
async def under_load(connect: Callable[[], Awaitable[Client]]) -> AsyncIterator[Load]:
    load = Load(connect)
    clients = [asyncio.create_task(ask()) for ask in (load.keep_alive, load.afresh) for _ in range(4)]
    await eventually(lambda: len(load.answers) > 20)
    yield load
    load.ending = True
    await asyncio.gather(*clients)


async def test_a_request_sent_after_the_acknowledgement_of_a_flip_goes_by_it(
    two: RouterProcess, upstream: Upstream
) -> None:
    await put_and_flip(two.control, upstream)
    flips = [(0.0, 0.0, R1)]
    async with two.client() as control, under_load(lambda: Client.connect(two.port)) as load:
        for number in range(60):
            active, to = (R1, R2) if number % 2 == 0 else (R2, R1)
            began_at = monotonic()
            await control.flip("chat", Flip(active, to, f"flip-{number}"))
            flips.append((began_at, monotonic(), to))
            await asyncio.sleep(0.01)
    assert not load.lost
    assert len(answered_by([answer for _, _, answer in load.answers])) == 2
    ends = [began_at for began_at, _, _ in flips[1:]] + [float("inf")]
    certain = 0
    for sent_at, answered_at, answer in load.answers:
        for (_, acknowledged_at, to), next_began_at in zip(flips, ends, strict=True):
            if acknowledged_at <= sent_at and answered_at <= next_began_at:
                assert answer.header("x-infercrane-revision") == to
                certain += 1
    assert certain > 50


async def test_a_new_program_loses_neither_streams_nor_requests(two: RouterProcess, upstream: Upstream) -> None:
    go_on = asyncio.Event()

    async def wait_if_asked(call: Call) -> None:
        await call.stream(delta())
        if call.document.get("slow"):
            await go_on.wait()
        await call.end_stream()

    async def slow_stream() -> bytes:
        async with await Client.connect(two.port) as client, asyncio.timeout(60):
            await client.send(chat(True, slow=True))
            return await client.reader.readuntil(b"\r\n0\r\n\r\n")

    upstream.script = wait_if_asked
    await put_and_flip(two.control, upstream)
    streams = [asyncio.create_task(slow_stream()) for _ in range(50)]
    async with under_load(lambda: Client.connect(two.port)) as load:
        for _ in range(2):
            before = workers(two)
            two.process.send_signal(signal.SIGHUP)
            await eventually(lambda before=before: len(workers(two) - before) == 2, timeout_s=10)
            await eventually_async(lambda: metric(two, "workers"), lambda count: count >= 4)
        assert sum(not stream.done() for stream in streams) == 50
        async with two.client() as control:
            assert (await control.get("chat")).inflight[R1] >= 50  # also those of workers that leave
            await control.flip("chat", Flip(R1, R2, "decision-2"))
            await control.drain("chat", R1, 30)
            await asyncio.sleep(0.1)
            assert (await control.drain_state("chat", R1)).inflight == 50
            go_on.set()
            await asyncio.gather(*streams)
            assert (await control.drain_state("chat", R1)).done
    assert not load.lost
    asked = len(load.answers) + 50
    await eventually(lambda: len(workers(two)) == 2, timeout_s=15)
    assert await metric(two, "requests_total") == asked  # what workers counted that are gone is counted still


async def eventually_async(
    look: Callable[[], Awaitable[float]], enough: Callable[[float], bool], timeout_s: float = 10
) -> None:
    async with asyncio.timeout(timeout_s):
        while not enough(await look()):
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("by", ["tls", "unix"])
async def test_a_new_program_loses_nobody_by_other_ways(
    start_process: Start, upstream: Upstream, tmp_path: Path, by: str
) -> None:
    chain, key = certificate(tmp_path)
    path = tmp_path / "http.sock"
    tls = ("--tls-cert", str(chain), "--tls-key", str(key)) if by == "tls" else ()
    listen = "127.0.0.1:0" if by == "tls" else f"unix:{path}"
    process = start_process(listen=listen, options=("--workers", "2", *tls)).wait_ready()
    await put_and_flip(process.control, upstream)

    async def connect() -> Client:
        if by == "unix":
            return await Client.over_unix(path)
        return await Client.over("127.0.0.1", process.port, trusting_anybody())

    async with under_load(connect) as load:
        before = workers(process)
        process.process.send_signal(signal.SIGHUP)
        await eventually(lambda: len(workers(process) - before) == 2, timeout_s=10)
        await eventually_async(lambda: metric(process, "workers"), lambda count: count >= 2)
        asked = len(load.answers)
        await eventually(lambda: len(load.answers) > asked + 100, timeout_s=10)
    assert not load.lost


async def test_a_program_that_would_not_start_replaces_nothing(
    start_process: Start, upstream: Upstream, tmp_path: Path
) -> None:
    chain, key = certificate(tmp_path)
    process = start_process(options=("--workers", "1", "--tls-cert", str(chain), "--tls-key", str(key))).wait_ready()
    before = workers(process)
    chain.write_text("nothing")
    process.process.send_signal(signal.SIGHUP)
    await asyncio.sleep(2)
    assert workers(process) == before
    process.terminate()
    _, errors = await process.ended()
    assert "not replaced, everything stays as it is: error: certificate" in errors


async def test_under_systemd_the_sockets_go_from_program_to_program(
    tmp_path: Path, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    with listening("127.0.0.1", tmp_path / "c.sock") as given, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        told.bind(f"{tmp_path}/notify")
        told.settimeout(10)
        monkeypatch.setenv("NOTIFY_SOCKET", f"{tmp_path}/notify")
        with by_systemd(tmp_path, given, "data:control", "--workers", "1") as started:
            assert told.recv(100) == b"READY=1"
            await put_and_flip(tmp_path / "c.sock", upstream)
            os.kill(started.pid, signal.SIGHUP)
            states = [await asyncio.to_thread(told.recv, 100) for _ in range(2)]
            assert states == [b"RELOADING=1", b"READY=1"]
            async with await Client.connect(given[0].getsockname()[1]) as client:
                assert (await client.ask(chat())).whole
        assert told.recv(100) == b"STOPPING=1"
        assert (tmp_path / "c.sock").exists()


async def test_a_killed_worker_is_replaced_and_counted(two: RouterProcess, upstream: Upstream) -> None:
    await put_and_flip(two.control, upstream)
    async with await Client.connect(two.port) as client:
        assert (await client.ask(chat())).whole
    killed = min(workers(two))
    os.kill(killed, signal.SIGKILL)
    await eventually(lambda: len(workers(two) - {killed}) == 2)
    await eventually_async(lambda: metric(two, "workers"), lambda count: count == 2)
    assert await metric(two, "worker_ends_total") == 1
    async with await Client.connect(two.port) as client:
        assert (await client.ask(chat())).whole


async def test_a_worker_that_hangs_is_gone_before_a_flip_is_acknowledged(
    two: RouterProcess, upstream: Upstream
) -> None:
    await put_and_flip(two.control, upstream)
    hanging = min(workers(two))
    os.kill(hanging, signal.SIGSTOP)
    async with two.client() as control:
        await control.flip("chat", Flip(R1, R2, "decision-2"))
    assert not Path(f"/proc/{hanging}").exists()
    async with await Client.connect(two.port) as client:
        assert (await client.ask(chat())).header("x-infercrane-revision") == R2


async def test_a_key_counts_in_every_worker_once_it_is_made(two: RouterProcess, upstream: Upstream) -> None:
    await put_and_flip(two.control, upstream)
    async with two.client() as control:
        issued = await control.new_key(Grant("ci", ("chat",)))
        with_key = f"Authorization: Bearer {issued.secret}"
        for header, status in ((), 401), ((with_key,), 200):
            assert await statuses(two, *header) == {status}
        await control.revoke_key("ci")
        assert await statuses(two, with_key) == {401}


async def statuses(process: RouterProcess, *headers: str) -> set[int]:
    """Of twenty requests at the same time."""

    async def ask() -> int:
        async with await Client.connect(process.port) as client:
            return (await client.ask(chat(True, *headers))).status

    return set(await asyncio.gather(*(ask() for _ in range(20))))


async def test_sigterm_lets_the_streams_of_all_workers_finish(two: RouterProcess, upstream: Upstream) -> None:
    go_on = asyncio.Event()

    async def wait(call: Call) -> None:
        await call.stream(delta())
        await go_on.wait()
        await call.end_stream()

    async def stream() -> Answer:
        async with await Client.connect(two.port) as client:
            return await client.ask(chat())

    upstream.script = wait
    await put_and_flip(two.control, upstream)
    streams = [asyncio.create_task(stream()) for _ in range(20)]
    await eventually(lambda: upstream.attempts == 20)
    two.terminate()
    await asyncio.sleep(0.2)
    with pytest.raises(ConnectionRefusedError):  # it waited until the last stream had ended, for nothing
        await Client.connect(two.port)
    go_on.set()
    answers = await asyncio.gather(*streams)
    assert all(answer.whole for answer in answers)
    assert len(answered_by(answers)) == 2
    code, errors = await two.ended()
    assert (code, two.control.exists()) == (0, False), errors


async def test_a_second_signal_cuts_the_streams_of_all_workers(two: RouterProcess, upstream: Upstream) -> None:
    async def hang(call: Call) -> None:
        await call.stream(delta())
        await call.until_told()

    upstream.script = hang
    await put_and_flip(two.control, upstream)
    async with await Client.connect(two.port) as client:
        await client.send(chat())
        await client.head()
        two.terminate()
        await asyncio.sleep(0.2)
        asked_at = monotonic()
        two.terminate()
        code, errors = await two.ended()
        assert (code, "Traceback" in errors) == (0, False), errors
        assert monotonic() - asked_at < 3


async def test_without_their_supervisor_workers_finish_and_let_nobody_else_in(
    start_process: Start, two: RouterProcess, upstream: Upstream
) -> None:
    go_on = asyncio.Event()

    async def wait(call: Call) -> None:
        await call.stream(delta())
        await go_on.wait()
        await call.end_stream()

    upstream.script = wait
    await put_and_flip(two.control, upstream)
    async with await Client.connect(two.port) as client:
        await client.send(chat())
        await client.head()
        left = workers(two)
        two.process.kill()
        two.process.wait()
        code, errors = await start_process(options=("--workers", "2")).ended()
        assert (code, "another router uses the state directory" in errors) == (1, True)
        go_on.set()
        await client.reader.readuntil(b"0\r\n\r\n")
    await eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in left))
    again = start_process(options=("--workers", "2")).wait_ready()
    async with await Client.connect(again.port) as client:
        assert (await client.ask(chat())).whole


async def test_a_program_whose_workers_do_not_start_says_so(start_process: Start, tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("no folder")
    (tmp_path / "record.yaml").write_text(
        "schema: infercrane.recording/v1\nfolder: kept\nsample: 1.0\nmax_bytes: 8388608\nmax_age: 1d\n"
    )
    code, errors = await start_process(record="record.yaml", options=("--workers", "1")).ended()
    assert code == 1
    assert "a worker process does not start" in errors
