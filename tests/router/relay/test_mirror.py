"""Copies of requests for a candidate: they reach it, and the client never notices."""

import asyncio
import gc
import tracemalloc
from typing import Any

import pytest

from pulumi_infercrane.router.counting.traffic import Traffic
from pulumi_infercrane.router.protocol.observer import Outcome
from tests.router.client import Client, chat
from tests.router.conftest import R1, R2, Running, eventually
from tests.router.conftest import revision as entry
from tests.router.upstream import Call, Upstream, answer, delta


@pytest.fixture
async def candidate(start_upstream) -> Upstream:
    return await start_upstream()


async def mirrored(router: Running, upstream: Upstream, candidate: Upstream, **more: Any) -> Traffic:
    revisions = {R1: entry("r1", upstream.url), R2: entry("r2", candidate.url, model="other-name")}
    await router.put(revisions, pins=[R2], mirror={"revision": R2, "percent": 100} | more)
    (copies,) = router.parts.relay.traffic.copies()
    return copies


async def test_a_copy_goes_to_the_candidate_and_its_answer_nowhere(
    router: Running, client: Client, upstream: Upstream, candidate: Upstream
) -> None:
    copies = await mirrored(router, upstream, candidate)

    async def other_answer(call: Call) -> None:
        await call.stream(delta("something else"))
        await call.end_stream()

    candidate.script = other_answer
    for _ in range(5):
        received = await client.ask(chat(True, temperature=0))
        assert received.header("x-infercrane-revision") == R1
        assert b"something else" not in received.body
    await eventually(lambda: copies.outcomes == {Outcome.COMPLETE: 5})
    assert candidate.calls[0].document == upstream.calls[0].document | {"model": "other-name"}
    assert candidate.calls[0].header("x-request-id") == upstream.calls[0].header("x-request-id")
    assert (router.outcomes(R1), router.outcomes(R2)) == ({Outcome.COMPLETE: 5}, {})
    assert router.parts.relay.mirrors.open == set()


async def test_the_share_follows_from_the_request_id(
    router: Running, client: Client, upstream: Upstream, candidate: Upstream
) -> None:
    copies = await mirrored(router, upstream, candidate, percent=30)
    ids = [f"request-{number}" for number in range(100)]
    for name in ids:
        await client.ask(chat(False, f"X-Request-Id: {name}"))
    await eventually(lambda: copies.inflight == 0 and sum(copies.outcomes.values()) > 0)
    assert 20 < candidate.attempts < 40
    copied = {call.header("x-request-id") for call in candidate.calls}
    for name in ids:
        await client.ask(chat(False, f"X-Request-Id: {name}"))
    await eventually(lambda: candidate.attempts == 2 * len(copied))
    assert {call.header("x-request-id") for call in candidate.calls} == copied


@pytest.mark.parametrize("trouble", ["mute", "reset", "gone"])
async def test_a_candidate_in_trouble_slows_nobody(
    router: Running, client: Client, upstream: Upstream, candidate: Upstream, trouble: str
) -> None:
    copies = await mirrored(router, upstream, candidate, max_inflight=2)

    async def mute(call: Call) -> None:
        await call.until_told()

    async def reset(call: Call) -> None:
        call.reset()

    candidate.script = {"mute": mute, "reset": reset, "gone": answer}[trouble]
    if trouble == "gone":
        await candidate.stop()
    async with asyncio.timeout(2):
        for _ in range(20):
            assert (await client.ask(chat())).whole
    expected = {"mute": set(), "reset": {Outcome.UPSTREAM_CLOSED}, "gone": {Outcome.CONNECT_FAILED}}[trouble]
    assert set(copies.outcomes) == expected
    assert copies.inflight <= 2


async def test_N1_a_copy_that_was_sent_is_not_sent_again(
    router: Running, client: Client, upstream: Upstream, candidate: Upstream
) -> None:
    revisions = {R1: entry("r1", upstream.url), R2: entry("r2", candidate.url, f"{candidate.url}/other")}
    await router.put(revisions, mirror={"revision": R2, "percent": 100})
    (copies,) = router.parts.relay.traffic.copies()

    async def hang_up(call: Call) -> None:
        call.writer.close()

    candidate.script = hang_up
    for _ in range(3):
        assert (await client.ask(chat())).whole
    await eventually(lambda: copies.outcomes == {Outcome.UPSTREAM_CLOSED: 3})
    assert candidate.attempts == 3


async def test_beyond_the_limits_no_copy_is_made_and_that_is_counted(
    router: Running, client: Client, upstream: Upstream, candidate: Upstream
) -> None:
    copies = await mirrored(router, upstream, candidate, max_inflight=3, max_bytes=1000)

    async def mute(call: Call) -> None:
        await call.until_told()

    candidate.script = mute
    await client.ask(chat(user="x" * 1000))
    await client.ask(chat(store=True))
    for _ in range(5):
        await client.ask(chat())
    await eventually(lambda: candidate.attempts == 3)
    dropped = router.parts.relay.traffic.dropped_copies
    assert dropped == {("chat", R2, "large"): 1, ("chat", R2, "stored"): 1, ("chat", R2, "busy"): 2}
    assert copies.inflight == 3


async def test_an_answer_beyond_the_limit_is_not_read_to_its_end(
    router: Running, client: Client, upstream: Upstream, candidate: Upstream
) -> None:
    copies = await mirrored(router, upstream, candidate, max_bytes=10_000)

    async def endless(call: Call) -> None:
        await call.stream(delta("x" * 1000))
        for _ in range(1000):
            await call.send(b"3e8\r\n%b\r\n" % (b"y" * 1000))

    candidate.script = endless
    assert (await client.ask(chat())).whole
    await eventually(lambda: copies.inflight == 0 and bool(copies.outcomes))
    assert router.parts.relay.traffic.dropped_copies == {("chat", R2, "large_answer"): 1}
    assert router.parts.relay.mirrors.open == set()


async def test_a_client_that_leaves_ends_its_copy(router: Running, upstream: Upstream, candidate: Upstream) -> None:
    copies = await mirrored(router, upstream, candidate)

    async def mute(call: Call) -> None:
        await call.until_told()

    upstream.script = candidate.script = mute
    async with await router.client() as client:
        await client.send(chat())
        await upstream.call()
        copied = await candidate.call()
    await eventually(lambda: copied.told_at is not None)
    assert copies.outcomes == {Outcome.CLIENT_CANCELLED: 1}


async def test_a_copy_that_outlasts_its_original_goes_on(
    router: Running, client: Client, upstream: Upstream, candidate: Upstream
) -> None:
    copies = await mirrored(router, upstream, candidate)
    gate = asyncio.Event()

    async def late(call: Call) -> None:
        await gate.wait()
        await answer(call)

    candidate.script = late
    assert (await client.ask(chat())).whole
    client.hang_up()
    await candidate.call()
    gate.set()
    await eventually(lambda: copies.outcomes == {Outcome.COMPLETE: 1})


async def test_a_silent_candidate_is_given_up_by_its_timers(
    router: Running, client: Client, upstream: Upstream, candidate: Upstream
) -> None:
    revisions = {R1: entry("r1", upstream.url), R2: entry("r2", candidate.url)}
    mirror = {"revision": R2, "percent": 100}
    await router.put(revisions, mirror=mirror, timers={"first_byte_s": 0.1})

    async def mute(call: Call) -> None:
        await call.until_told()

    candidate.script = mute
    assert (await client.ask(chat())).whole
    (copies,) = router.parts.relay.traffic.copies()
    await eventually(lambda: copies.outcomes == {Outcome.FIRST_BYTE_TIMEOUT: 1})


async def test_what_the_candidate_answers_itself_is_not_copied_to_it(
    router: Running, client: Client, upstream: Upstream, candidate: Upstream
) -> None:
    await mirrored(router, upstream, candidate)
    await client.ask(chat(False, f"X-InferCrane-Revision: {R2}"))
    await router.flip(R2)
    await client.ask(chat(False))
    assert (candidate.attempts, upstream.attempts) == (2, 0)


async def test_copies_keep_no_revision_in_use(
    router: Running, client: Client, upstream: Upstream, candidate: Upstream
) -> None:
    await mirrored(router, upstream, candidate)

    async def mute(call: Call) -> None:
        await call.until_told()

    candidate.script = mute
    await client.ask(chat())
    await candidate.call()
    assert await router.parts.live.inflight(router.parts.live.table("chat")) == {R1: 0, R2: 0}
    await router.put({R1: entry("r1", upstream.url)})
    assert router.parts.relay.traffic.copies() == ()
    router.parts.relay.finish_up()
    assert router.parts.relay.mirrors.open == set()


async def test_a_copy_that_was_sent_holds_no_body(
    router: Running, client: Client, upstream: Upstream, candidate: Upstream
) -> None:
    """Twenty that were not answered held 160 MB."""

    async def mute(call: Call) -> None:
        await call.until_told()

    await mirrored(router, upstream, candidate)
    candidate.script = mute
    tracemalloc.start()
    try:
        await client.ask(chat(False, text="x" * 500_000))
        for call in (await upstream.call(), await candidate.call()):
            call.body = b""
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < 300_000
    finally:
        tracemalloc.stop()
    assert router.parts.relay.mirrors.open
