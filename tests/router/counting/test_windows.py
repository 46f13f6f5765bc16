"""Traffic windows: what the revisions of a route did between two moments, as the guard reads it."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import timedelta

import orjson
import pytest

from pulumi_infercrane.guard import read_window
from pulumi_infercrane.guard.evidence.window import Binding, Window
from pulumi_infercrane.router.counting import windows as limits
from pulumi_infercrane.router.errors import WindowUnknown
from pulumi_infercrane.router.tables.calls import Flip
from tests.router.client import chat
from tests.router.conftest import R1, R2, Running, declared, eventually, revision
from tests.router.upstream import ANSWER, Call, Upstream, chunk, delta, event, whole

HALF = {R1: 50, R2: 50}


@pytest.fixture
async def other(start_upstream) -> Upstream:
    return await start_upstream()


@pytest.fixture
async def shared(router: Running, upstream: Upstream, other: Upstream) -> AsyncIterator[Running]:
    """R1 is active and shares the traffic with R2."""
    await router.put({R1: revision("r1", upstream.url), R2: revision("r2", other.url)}, pinning=True)
    await router.weigh(HALF)
    await asyncio.sleep(0.002)
    yield router


async def ask(router: Running, number: int = 1, *headers: str, stream: bool = False) -> None:
    for _ in range(number):
        async with await router.client() as client:
            await client.send(chat(stream, *headers))
            await client.answer()


async def close(router: Running) -> list[Window]:
    """The windows that are closed by now, read as the guard does, and taken away."""
    await asyncio.sleep(0.002)
    kept, read = router.parts.live.windows.kept, []
    for name in await router.parts.live.close_window("chat"):
        loaded = read_window(orjson.dumps(kept.document("chat", name)))
        assert loaded.problem is None, loaded.problem
        kept.forget("chat", name)
        read.append(loaded.window)
    return [window for window in read if window]


async def one(router: Running, digest: str = R2) -> Binding:
    """What a revision did, once everything has ended."""
    await eventually(lambda: not any(router.traffic(one).inflight for one in (R1, R2)))
    (window,) = await close(router)
    return window.bindings[digest]


def to(digest: str, router: Running) -> list[str]:
    """Request ids that the weights send to a revision."""
    canary = router.parts.live.routes.by_service["chat"].canary
    assert canary
    names = [f"{digest[7]}-{number}" for number in range(100)]
    return [name for name in names if canary.share.takes(name.encode()) is (digest == R2)]


async def ask_as(router: Running, *names: str, stream: bool = False) -> None:
    for name in names:
        await ask(router, 1, f"X-Request-Id: {name}", stream=stream)


async def test_a_window_holds_both_sides_and_the_next_begins_where_it_ends(shared: Running) -> None:
    names = {digest: to(digest, shared)[:count] for digest, count in ((R1, 3), (R2, 2))}
    await ask_as(shared, *names[R1], *names[R2], stream=True)
    (first,) = await close(shared)
    assert {digest: (one.weight, one.completed) for digest, one in first.bindings.items()} == {R1: (50, 3), R2: (50, 2)}
    assert first.generations == (shared.parts.live.table("chat").generation,) * 2
    assert all(0 < time < 1 for name in ("ttft_s", "e2e_s") for time in first.bindings[R1].figures[name])
    (second,) = await close(shared)
    assert second.started == first.ended
    assert {one.attempted for one in second.bindings.values()} == {0}


async def test_without_a_canary_nothing_is_counted_until_somebody_asks(router: Running) -> None:
    await ask(router)
    assert router.traffic().tally is None
    assert await close(router) == []
    await ask(router, 2)
    (window,) = await close(router)
    assert (window.bindings[R1].weight, window.bindings[R1].completed) == (100, 2)


async def test_a_window_names_the_stack_that_declared_its_route(router: Running, upstream: Upstream) -> None:
    await router.put({R1: revision("r1", upstream.url)}, stack="shop/prod")
    await close(router)
    await ask(router)
    assert [window.stack for window in await close(router)] == ["shop/prod"]


async def test_a_change_of_the_route_ends_a_window_and_loses_no_time(shared: Running) -> None:
    await ask_as(shared, to(R2, shared)[0])
    await shared.weigh({R1: 25, R2: 75})
    before, after = await close(shared)
    assert (before.bindings[R2].weight, before.bindings[R2].completed) == (50, 1)
    assert (after.bindings[R2].weight, after.bindings[R2].completed) == (75, 0)
    assert before.ended == after.started


def answering_late(upstream: Upstream) -> asyncio.Event:
    """It answers when this is set."""
    released = asyncio.Event()

    async def late(call: Call) -> None:
        await released.wait()
        await call.send(whole(ANSWER))

    upstream.script = late
    return released


async def test_a_request_from_before_the_route_changed_is_in_no_window(shared: Running, upstream: Upstream) -> None:
    released = answering_late(upstream)
    async with await shared.client() as client:
        await client.send(chat(False, f"X-Request-Id: {to(R1, shared)[0]}"))
        await upstream.call()
        await shared.weigh({R1: 25, R2: 75})
        await close(shared)
        released.set()
        await client.answer()
    assert (await one(shared, R1)).attempted == 0


async def test_a_request_that_ends_in_the_next_window_counts_there(shared: Running, upstream: Upstream) -> None:
    released = answering_late(upstream)
    async with await shared.client() as client:
        await client.send(chat(False, f"X-Request-Id: {to(R1, shared)[0]}"))
        await upstream.call()
        (window,) = await close(shared)
        assert window.bindings[R1].attempted == 0
        released.set()
        await client.answer()
    assert (await one(shared, R1)).completed == 1


async def test_a_pinned_request_is_no_part_of_the_share(shared: Running) -> None:
    await ask(shared, 2, "X-InferCrane-Revision: r2")
    assert (await one(shared)).attempted == 0


@pytest.mark.parametrize(
    ("status", "failed", "faults"),
    [
        ("500 Oops", {"http_error": 1}, {}),
        ("400 No", {}, {"400": 1}),
        ("429 Slow", {}, {"429": 1}),
        ("302 Away", {"upstream_protocol": 1}, {}),
    ],
)
async def test_a_status_is_the_models_fault_or_the_clients(
    shared: Running, other: Upstream, status: str, failed: dict[str, int], faults: dict[str, int]
) -> None:
    async def script(call: Call) -> None:
        await call.send(whole({"error": "no"}, status))

    other.script = script
    await ask_as(shared, to(R2, shared)[0])
    found = await one(shared)
    assert (found.completed, found.failed_by_class, found.client_faults) == (0, failed, faults)


async def test_what_broke_counts_in_its_class(shared: Running, other: Upstream) -> None:
    answers = iter([chunk(event({"error": {"message": "out of memory"}})), chunk(delta("a")), b"what?\r\n\r\n", b""])

    async def script(call: Call) -> None:
        answer = next(answers)
        if answer[:1].isdigit():
            await call.stream()
        await call.send(answer)
        call.writer.close()

    other.script = script
    await ask_as(shared, *to(R2, shared)[:4], stream=True)
    found = await one(shared)
    assert found.failed_by_class == {"error_event": 1, "upstream_protocol": 1, "upstream_closed": 1}
    assert (found.cut_streams, found.attempted) == (1, 4)


async def test_a_candidate_that_takes_no_connection_failed_though_another_answered(
    shared: Running, other: Upstream
) -> None:
    await other.stop()
    await ask_as(shared, to(R2, shared)[0])
    (window,) = await close(shared)
    assert window.bindings[R2].failed_by_class == {"connect_failed": 1}
    assert window.bindings[R1].completed == 1


async def test_a_client_that_left_is_neither_good_nor_bad(shared: Running, other: Upstream) -> None:
    other.script = Call.until_told
    async with await shared.client() as client:
        await client.send(chat(False, f"X-Request-Id: {to(R2, shared)[0]}"))
        await other.call()
    found = await one(shared)
    assert (found.client_cancelled, found.judged, found.attempted) == (1, 0, 1)


async def test_the_pace_of_tokens_is_told_only_where_every_stream_says_how_many(
    shared: Running, other: Upstream
) -> None:
    async def ends(call: Call) -> None:
        await call.stream(delta("a"))
        await asyncio.sleep(0.01)
        await call.send(chunk(delta("b", "stop", usage={"prompt_tokens": 1, "completion_tokens": 11})), b"0\r\n\r\n")

    other.script = ends
    names = to(R2, shared)
    await ask_as(shared, names[0], stream=True)
    (pace,) = (await one(shared)).figures["tpot_s"]
    assert 0.0005 < pace < 0.1
    await ask_as(shared, names[1], stream=True)
    other.script = Upstream().script
    await ask_as(shared, names[2], stream=True)
    assert "tpot_s" not in (await one(shared)).figures


async def test_windows_are_kept_until_they_are_taken_and_the_oldest_goes_first(
    shared: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MAX_KEPT", 2)
    kept = shared.parts.live.windows.kept
    for _ in range(3):
        await asyncio.sleep(0.002)
        names = await shared.parts.live.close_window("chat")
    assert len(names) == 2
    assert list(names) == sorted(names)
    kept.forget("chat", names[0])
    kept.forget("chat", names[0])
    with pytest.raises(WindowUnknown, match="no closed window"):
        kept.document("chat", names[0])


async def test_a_full_window_is_closed_by_itself(shared: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_REQUESTS", 2)
    await ask_as(shared, *to(R1, shared)[:2])
    await eventually(lambda: shared.traffic(R1).inflight == 0)
    await shared.parts.live.windows.look()
    assert len(shared.parts.live.windows.kept.names("chat")) == 1


async def test_a_window_that_took_no_time_goes_on_when_it_is_closed(shared: Running) -> None:
    windows = shared.parts.live.windows.kept
    now = windows._now
    await ask_as(shared, to(R2, shared)[0])
    windows._now = lambda: now() - timedelta(hours=1)
    assert await close(shared) == []
    windows._now = now
    assert (await one(shared)).completed == 1


async def test_a_clock_that_is_set_back_makes_no_windows_overlap(shared: Running) -> None:
    """Overlapping windows would count requests twice: the guard does not judge them."""
    (first,) = await close(shared)
    windows = shared.parts.live.windows.kept
    now = windows._now
    windows._now = lambda: now() - timedelta(hours=1)
    await shared.weigh({R1: 25, R2: 75})
    windows._now = now
    (second,) = await close(shared)
    assert (second.started, second.bindings[R2].weight) == (first.ended, 75)


async def test_the_control_socket_gives_windows_and_lets_go_of_them(start_process, upstream: Upstream) -> None:
    process = start_process().wait_ready()
    async with process.client() as control:
        await control.put("chat", declared({R1: revision("r1", upstream.url)}), if_match=None)
        await control.flip("chat", Flip("", R1, "sha256:" + "a" * 64))
        assert await control.close_window("chat") == ()
        await asyncio.sleep(0.002)
        (name,) = await control.close_window("chat")
        document = await control.window("chat", name)
        assert document["decision_id"] == "sha256:" + "a" * 64
        assert read_window(json.dumps(document).encode()).problem is None
        await control.forget_window("chat", name)
        with pytest.raises(WindowUnknown):
            await control.window("chat", name)
