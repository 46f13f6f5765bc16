"""The router as a process: signals, restarts, kills, addresses and locks."""

import asyncio
import random
import signal
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from time import monotonic

import pytest

from pulumi_infercrane.router.control.client import ControlClient, Flip, Grant, RouterUnreachable
from tests.router.client import Answer, Client, chat
from tests.router.conftest import R1, R2, RouterProcess, declared, eventually, revision
from tests.router.upstream import Call, Upstream, delta

Start = Callable[..., RouterProcess]


async def put_and_flip(socket_path: Path, upstream: Upstream) -> None:
    async with ControlClient(socket_path) as control:
        table = declared({R1: revision("r1", upstream.url), R2: revision("r2", upstream.url)})
        await control.put("chat", table, if_match=None)
        await control.flip("chat", Flip("", R1, "decision-1"))


async def ask(port: int) -> Answer:
    async with await Client.connect(port) as client:
        return await client.ask(chat())


async def hundred_streams(
    process: RouterProcess, upstream: Upstream, go_on: asyncio.Event
) -> list[asyncio.Task[Answer]]:
    async def wait(call: Call) -> None:
        await call.stream(delta())
        await go_on.wait()
        await call.end_stream()

    upstream.script = wait
    streams = [asyncio.create_task(ask(process.port)) for _ in range(100)]
    await eventually(lambda: upstream.attempts == 100, timeout_s=10)
    return streams


async def test_R15_sigterm_lets_streams_finish(start_process: Start, upstream: Upstream) -> None:
    process = start_process().wait_ready()
    await put_and_flip(process.control, upstream)
    go_on = asyncio.Event()
    streams = await hundred_streams(process, upstream, go_on)
    process.terminate()
    await eventually(lambda: not accepts(process.port))
    go_on.set()
    assert all(answer.whole for answer in await asyncio.gather(*streams))
    code, errors = await process.ended()
    assert code == 0, errors
    assert not process.control.exists()


def accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


async def test_R15_a_second_signal_ends_at_once(start_process: Start, upstream: Upstream) -> None:
    process = start_process().wait_ready()
    await put_and_flip(process.control, upstream)
    streams = await hundred_streams(process, upstream, asyncio.Event())
    process.terminate()
    await eventually(lambda: not accepts(process.port))
    asked_at = monotonic()
    process.process.send_signal(signal.SIGINT)
    code, _ = await process.ended()
    assert monotonic() - asked_at < 2
    assert code == 0
    assert not any(answer.whole for answer in await asyncio.gather(*streams))


async def test_R15_an_idle_router_ends_at_once(start_process: Start) -> None:
    process = start_process().wait_ready()
    asked_at = monotonic()
    async with await Client.connect(process.port):
        process.terminate()
        assert (await process.ended())[0] == 0
    assert monotonic() - asked_at < 2


async def test_R6_a_restart_serves_the_same_table(start_process: Start, upstream: Upstream) -> None:
    process = start_process().wait_ready()
    await put_and_flip(process.control, upstream)
    async with process.client() as control:
        before = await control.get("chat")
    process.kill()
    again = start_process().wait_ready()
    answer = await ask(again.port)
    assert (answer.whole, answer.header("x-infercrane-revision")) == (True, R1)
    async with again.client() as control:
        assert (await control.get("chat")).table == before.table


async def test_R4_killed_during_flips_the_table_is_old_or_new(start_process: Start, upstream: Upstream) -> None:
    dice = random.Random(7)
    process = start_process().wait_ready()
    await put_and_flip(process.control, upstream)
    generation, active = 2, R1
    for _ in range(4):
        async with process.client() as control:
            flipping = asyncio.create_task(flip_until_it_is_gone(control, generation, active))
            await asyncio.sleep(dice.uniform(0.005, 0.05))
            process.kill()
            acknowledged, served = await flipping
        process = start_process().wait_ready()
        async with process.client() as control:
            live = await control.get("chat")
        generation, active = int(live.generation), live.active
        assert (generation, active) in ((acknowledged, served), (acknowledged + 1, other(served)))
    assert (await ask(process.port)).header("x-infercrane-revision") == active


def other(revision: str) -> str:
    return R2 if revision == R1 else R1


async def flip_until_it_is_gone(control: ControlClient, generation: int, active: str) -> tuple[int, str]:
    """Flip to and fro; the last acknowledged generation and revision."""
    while True:
        try:
            flip = Flip(active, other(active), f"decision-{generation}")
            changed = await control.flip("chat", flip)
        except RouterUnreachable:
            return generation, active
        generation, active = int(changed.generation), changed.active


async def test_a_taken_port_is_named(start_process: Start) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, errors = await start_process(listen=f"127.0.0.1:{port}").ended()
    assert code == 1
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use; choose another --listen" in errors


async def test_a_state_directory_has_one_router(start_process: Start) -> None:
    start_process().wait_ready()
    code, errors = await start_process(control="other.sock").ended()
    assert code == 1
    assert "another router uses the state directory" in errors


async def test_a_control_socket_has_one_router(start_process: Start) -> None:
    start_process().wait_ready()
    code, errors = await start_process(state="other").ended()
    assert code == 1
    assert "another router answers on --control" in errors


async def test_other_machines_are_refused_unless_keys_are_required(start_process: Start) -> None:
    code, errors = await start_process(listen="0.0.0.0:0").ended()
    assert code == 2
    assert "without --require-keys the router listens on loopback only" in errors


async def test_other_machines_are_let_in_with_a_key_only(start_process: Start, upstream: Upstream) -> None:
    process = start_process(listen="0.0.0.0:0", options=("--require-keys",)).wait_ready()
    await put_and_flip(process.control, upstream)
    assert (await ask(process.port)).error == "missing_api_key"
    async with process.client() as control:
        issued = await control.new_key(Grant("ci", ("chat",)))
    async with await Client.connect(process.port) as client:
        assert (await client.ask(chat(True, f"Authorization: Bearer {issued.secret}"))).whole


async def test_K4_a_revoked_key_stays_revoked_over_a_kill_and_a_damaged_file(
    start_process: Start, upstream: Upstream
) -> None:
    process = start_process().wait_ready()
    await put_and_flip(process.control, upstream)
    async with process.client() as control:
        stays, goes = [await control.new_key(Grant(name, ("chat",))) for name in ("stays", "goes")]
        await control.revoke_key("goes")
    process.kill()
    (process.state / "keys" / "keys.json").write_bytes(b"{")
    again = start_process().wait_ready()
    async with await Client.connect(again.port) as client:
        assert (await client.ask(chat(True, f"Authorization: Bearer {stays.secret}"))).whole
        refused = await client.ask(chat(True, f"Authorization: Bearer {goes.secret}"))
        assert refused.error == "invalid_api_key"


async def test_the_control_socket_is_for_its_owner_only(start_process: Start) -> None:
    process = start_process().wait_ready()
    assert stat.S_IMODE(process.control.stat().st_mode) == 0o600
    assert stat.S_IMODE(process.state.stat().st_mode) == 0o700


async def test_K6_the_data_port_answers_no_control_call(start_process: Start) -> None:
    process = start_process().wait_ready()
    async with await Client.connect(process.port) as client:
        for path in ("/livez", "/metrics", "/v1/services", "/v1/services/chat/flip"):
            answer = await client.ask(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
            assert (answer.status, answer.error) == (404, "unsupported_endpoint")


@pytest.mark.parametrize("content", [b"", b"nothing"])
async def test_a_path_that_is_no_socket_is_left_alone(start_process: Start, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "precious").write_bytes(content)
    code, errors = await start_process(control="precious").ended()
    assert code == 1
    assert "exists and is not a socket" in errors
    assert (tmp_path / "precious").read_bytes() == content


async def test_the_size_of_a_body_and_the_time_between_requests_are_options(start_process: Start) -> None:
    process = start_process(options=("--max-body", "1000", "--idle", "0.2")).wait_ready()
    async with await Client.connect(process.port) as client:
        assert (await client.ask(chat(x="x" * 900))).error == "model_not_found"
        assert await client.until_closed() == b""
    async with await Client.connect(process.port) as client:
        assert (await client.ask(chat(x="x" * 1000))).error == "body_too_large"
