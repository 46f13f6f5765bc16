"""Several replicas of a revision, on real sockets: who answers, who is left out, who answers instead."""

import asyncio
from typing import Any

import pytest

from pulumi_infercrane.router.protocol.observer import Outcome
from tests.router.client import Answer, chat
from tests.router.conftest import R1, R2, Running, eventually
from tests.router.conftest import revision as entry
from tests.router.upstream import Call, Upstream, answer, whole

WATCHED = {"eject_after": 2, "eject_s": 0.3, "eject_most_s": 1}


@pytest.fixture
async def other(start_upstream) -> Upstream:
    return await start_upstream()


async def two_replicas(router: Running, one: Upstream, other: Upstream, **more: Any) -> None:
    await router.put({R1: entry("r1", one.url, other.url, **more)})


async def ask(router: Running, count: int = 1, *headers: str, **more: Any) -> list[Answer]:
    async with await router.client() as client:
        return [await client.ask(chat(False, *headers, **more)) for _ in range(count)]


async def overloaded(call: Call) -> None:
    await call.send(whole({"error": {"message": "busy"}}, "503 Service Unavailable"))


def ready(router: Running) -> list[str]:
    route = router.parts.relay.routes.by_service["chat"]
    return [endpoint.id for endpoint in route.bindings[R1].replicas.ready]


def inflight(router: Running, digest: str = R1) -> list[int]:
    route = router.parts.relay.routes.by_service["chat"]
    return [endpoint.replica.inflight for endpoint in route.bindings[digest].endpoints]


async def test_the_least_busy_replica_answers(router: Running, upstream: Upstream, other: Upstream) -> None:
    await two_replicas(router, upstream, other, balance="least_inflight")
    gate = asyncio.Event()

    async def hold(call: Call) -> None:
        await gate.wait()
        await answer(call)

    upstream.script = hold
    held = asyncio.create_task(ask(router))
    await eventually(lambda: sum(inflight(router)) == 1)
    if other.attempts:
        pytest.fail("ties begin with the first replica")
    await ask(router, 5)
    assert (upstream.attempts, other.attempts, inflight(router)) == (1, 5, [1, 0])
    gate.set()
    await held
    assert inflight(router) == [0, 0]


async def test_requests_that_begin_alike_go_to_one_replica(
    router: Running, upstream: Upstream, other: Upstream
) -> None:
    await two_replicas(router, upstream, other, balance="consistent_hash")
    for text in ("one", "two", "three"):
        before = upstream.attempts, other.attempts
        await ask(router, 4, messages=[{"role": "user", "content": text}])
        grown = upstream.attempts - before[0], other.attempts - before[1]
        assert sorted(grown) == [0, 4]


async def test_errors_in_a_row_leave_a_replica_out_and_it_comes_back(
    router: Running, upstream: Upstream, other: Upstream
) -> None:
    await two_replicas(router, upstream, other, health=WATCHED)
    upstream.script = overloaded
    statuses = [one.status for one in await ask(router, 10)]
    assert (statuses.count(503), statuses[4:]) == (2, [200] * 6)
    assert ready(router) == ["r1-1"]
    upstream.script = answer
    await eventually(lambda: len(ready(router)) == 2)
    before = upstream.attempts
    await ask(router, 4)
    assert upstream.attempts - before == 2


async def test_a_replica_that_takes_no_connection_costs_no_request(
    router: Running, upstream: Upstream, other: Upstream
) -> None:
    await two_replicas(router, upstream, other, health=WATCHED)
    await upstream.stop()
    assert [one.status for one in await ask(router, 10)] == [200] * 10
    assert ready(router) == ["r1-1"]
    assert inflight(router) == [0, 0]
    assert router.outcomes() == {Outcome.COMPLETE: 10}
    assert router.traffic().retried == 2, "until it was left out"


async def test_the_last_replica_is_never_left_out(router: Running, upstream: Upstream, other: Upstream) -> None:
    await two_replicas(router, upstream, other, health=WATCHED | {"eject_s": 60, "eject_most_s": 60})
    upstream.script = other.script = overloaded
    assert {one.status for one in await ask(router, 8)} == {503}
    assert len(ready(router)) == 1
    upstream.script = other.script = answer
    assert {one.status for one in await ask(router, 2)} == {200}


async def test_what_was_sent_is_not_sent_to_another_replica(
    router: Running, upstream: Upstream, other: Upstream
) -> None:
    await two_replicas(router, upstream, other, health=WATCHED)

    async def hang_up(call: Call) -> None:
        call.writer.close()

    upstream.script = other.script = hang_up
    assert [one.error for one in await ask(router, 3)] == ["upstream_closed"] * 3
    assert upstream.attempts + other.attempts == 3


async def test_a_client_that_leaves_says_nothing_about_a_replica(router: Running, upstream: Upstream) -> None:
    await router.put({R1: entry("r1", upstream.url, health={"eject_after": 1})})

    async def mute(call: Call) -> None:
        await call.until_told()

    upstream.script = mute
    for number in range(3):
        async with await router.client() as client:
            await client.send(chat())
            await upstream.call(number)
    await eventually(lambda: router.traffic().inflight == 0)
    route = router.parts.relay.routes.by_service["chat"]
    assert (inflight(router), route.bindings[R1].endpoints[0].replica.failed) == ([0], 0)


async def test_a_replica_is_drained_on_its_own(router: Running, upstream: Upstream, other: Upstream) -> None:
    await two_replicas(router, upstream, other)
    gate = asyncio.Event()

    async def hold(call: Call) -> None:
        await gate.wait()
        await answer(call)

    upstream.script = other.script = hold
    held = [asyncio.create_task(ask(router)) for _ in range(2)]
    await eventually(lambda: inflight(router) == [1, 1])
    table = entry("r1", upstream.url, other.url)
    table["upstreams"][0]["state"] = "draining"
    await router.put({R1: table})
    other.script = answer
    await ask(router, 4)
    assert (upstream.attempts, other.attempts, inflight(router)) == (1, 5, [1, 1])
    gate.set()
    assert [one.status for (one,) in await asyncio.gather(*held)] == [200, 200]
    assert inflight(router) == [0, 0]


async def test_C5_counts_are_right_after_every_kind_of_end(
    router: Running, upstream: Upstream, other: Upstream
) -> None:
    await two_replicas(router, upstream, other, balance="least_inflight")

    async def reset(call: Call) -> None:
        call.reset()

    async def half(call: Call) -> None:
        await call.stream(b"data: {}\n\n")
        call.reset()

    for script in (answer, overloaded, reset, half):
        upstream.script = other.script = script
        for _ in range(6):
            await ask(router)
    upstream.script = answer
    await other.stop()
    await ask(router, 6)
    assert inflight(router) == [0, 0]


@pytest.fixture
async def with_fallback(router: Running, upstream: Upstream, other: Upstream) -> Running:
    """R1 active, R2 answers while R1 cannot."""
    watched = entry("r1", upstream.url, health={"eject_after": 2, "eject_s": 0.3})
    await router.put({R1: watched, R2: entry("r2", other.url)}, fallback=R2)
    return router


def revisions(answers: list[Answer]) -> list[str | None]:
    return [one.header("x-infercrane-revision") for one in answers]


async def test_the_fallback_answers_while_every_replica_is_out(
    with_fallback: Running, upstream: Upstream, other: Upstream
) -> None:
    assert revisions(await ask(with_fallback, 2)) == [R1, R1]
    upstream.script = overloaded
    assert [one.status for one in await ask(with_fallback, 6)] == [503, 503, 200, 200, 200, 200]
    assert (other.attempts, with_fallback.traffic().spilled) == (4, {R2: 4})
    upstream.script = answer
    route = with_fallback.parts.relay.routes.by_service["chat"]
    await eventually(lambda: not route.bindings[R1].replicas.exhausted)
    assert revisions(await ask(with_fallback, 2)) == [R1, R1]


async def test_the_fallback_answers_what_nobody_else_takes(
    with_fallback: Running, upstream: Upstream, other: Upstream
) -> None:
    await upstream.stop()
    answers = await ask(with_fallback, 5)
    assert revisions(answers) == [R2] * 5
    assert with_fallback.outcomes(R2) == {Outcome.COMPLETE: 5}
    assert with_fallback.outcomes(R1) == {Outcome.CONNECT_FAILED: 2}


async def test_without_a_declared_fallback_there_is_none(router: Running, upstream: Upstream, other: Upstream) -> None:
    await router.put({R1: entry("r1", upstream.url, health=WATCHED), R2: entry("r2", other.url)})
    await upstream.stop()
    assert [one.error for one in await ask(router, 5)] == ["connect_failed"] * 5
    assert other.attempts == 0


async def test_a_pin_never_falls_back(router: Running, upstream: Upstream, other: Upstream) -> None:
    await router.put({R1: entry("r1", upstream.url), R2: entry("r2", other.url)}, fallback=R2, pinning=True)
    await upstream.stop()
    (refused,) = await ask(router, 1, "X-InferCrane-Revision: r1")
    assert (refused.error, other.attempts) == ("connect_failed", 0)
