"""Exchanges that end in every way there is: all are counted, once, and nothing stays open (C5, C7)."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from pulumi_infercrane.router.control.client import Flip
from pulumi_infercrane.router.protocol.observer import Outcome
from tests.router.client import Client, chat
from tests.router.conftest import R1, RouterProcess, Running, declared, eventually, revision
from tests.router.upstream import ANSWER, STREAM_HEAD, Call, Upstream, chunk, delta, event, whole

AT_ONCE = 20
MIB = 1024 * 1024


async def closes(call: Call) -> None:
    call.writer.close()


async def resets(call: Call) -> None:
    call.reset()


async def closes_in_its_head(call: Call) -> None:
    await call.send(STREAM_HEAD[:20])
    call.writer.close()


async def speaks_nonsense(call: Call) -> None:
    await call.send(b"nonsense\r\n\r\n")


async def closes_in_its_stream(call: Call) -> None:
    await call.stream(delta())
    call.writer.close()


async def resets_in_its_stream(call: Call) -> None:
    await call.stream(delta())
    call.reset()


async def breaks_its_framing(call: Call) -> None:
    await call.stream(delta())
    await call.send(b"nonsense\r\n")


async def cuts_its_answer(call: Call) -> None:
    await call.send(whole(ANSWER)[:-5])
    call.writer.close()


async def tells_of_an_error(call: Call) -> None:
    await call.stream(delta(), event({"error": {"message": "out of memory"}}))
    await call.end_stream()


async def is_busy(call: Call) -> None:
    await call.send(whole({"error": {}}, "503 Service Unavailable"))


async def begins_and_falls_silent(call: Call) -> None:
    await call.stream(delta())
    await call.until_told()


ENDS: tuple[Callable[[Call], Awaitable[None]], ...] = (
    closes, resets, closes_in_its_head, speaks_nonsense, closes_in_its_stream, resets_in_its_stream, breaks_its_framing,
    cuts_its_answer, tells_of_an_error, is_busy, begins_and_falls_silent, Call.until_told,
)  # fmt: skip


async def leaves(router: Running) -> None:
    """Asks, and leaves when it has waited, or when it has seen how a stream goes on."""
    async with await router.client() as client:
        await client.send(chat())
        await asyncio.wait({asyncio.ensure_future(client.until_closed())}, timeout=0.05)


@pytest.mark.parametrize("count", [120, pytest.param(1000, marks=pytest.mark.processes)])
async def test_C5_after_ends_of_every_kind_all_are_counted_and_nothing_is_open(
    router: Running, client: Client, upstream: Upstream, count: int
) -> None:
    async def ends_somehow(call: Call) -> None:
        await ENDS[upstream.attempts % len(ENDS)](call)

    upstream.script = ends_somehow
    for _ in range(count // AT_ONCE):
        await asyncio.gather(*(leaves(router) for _ in range(AT_ONCE)))
    await eventually(lambda: router.traffic().inflight == 0)
    assert router.traffic().outcomes.total() == count
    assert len(router.outcomes()) >= 6
    await eventually(lambda: len(router.parts.relay.clients) == 1)

    upstream.script = Upstream().script
    for _ in range(count // 10):
        assert (await client.ask(chat())).whole
    assert router.outcomes()[Outcome.COMPLETE] == count // 10
    binding = router.parts.relay.routes.by_service["chat"].bindings[R1]
    assert [endpoint.replica.inflight for endpoint in binding.endpoints] == [0]


def resident(process: RouterProcess, kind: str = "VmRSS") -> int:
    """Bytes of memory it has, or (`VmHWM`) the most it had."""
    status = Path(f"/proc/{process.process.pid}/status").read_text()
    return int(status.partition(f"{kind}:")[2].split()[0]) * 1024


@pytest.mark.processes
async def test_C7_an_answer_that_nobody_reads_costs_the_process_no_memory(
    start_process: Callable[..., RouterProcess], upstream: Upstream
) -> None:
    process = start_process().wait_ready()
    async with process.client() as control:
        table = declared({R1: revision("r1", upstream.url)}, timers={"client_stall_s": 1})
        await control.put("chat", table, if_match=None)
        await control.flip("chat", Flip("", R1, "decision-1"))
    pieces, sent = 200 * MIB // 60_000, 0

    async def flood(call: Call) -> None:
        nonlocal sent
        await call.send(STREAM_HEAD)
        piece = chunk(delta("x" * 60_000))
        for _ in range(pieces):
            await call.send(piece)
            sent += len(piece)
        await call.end_stream()

    upstream.script = flood
    async with await Client.connect(process.port) as reading:
        await reading.send(chat())  # what an answer needs that is read, it may keep
        for _ in range(100):
            await reading.reader.readexactly(60_000)
    await eventually(lambda: upstream.open == 0)
    before, sent = resident(process), 0
    Path(f"/proc/{process.process.pid}/clear_refs").write_text("5")  # the most so far is forgotten
    async with await Client.connect(process.port) as client:
        client.writer.transport.pause_reading()
        await client.send(chat())
        await eventually(lambda: sent > 0 and upstream.open == 0)  # both sides are aborted
    assert sent < 16 * MIB
    assert resident(process, "VmHWM") - before <= 4 * MIB  # 0.3 to 1.1 MB were seen, whatever was sent
