"""Which revision gets a request: weights, sessions, pins. Probes R9-R12."""

import asyncio
from collections import Counter

import pytest

from pulumi_infercrane.router.protocol.observer import Outcome
from pulumi_infercrane.router.routing.split import Share
from tests.router.client import Answer, chat
from tests.router.conftest import R1, R2, Running
from tests.router.conftest import revision as entry
from tests.router.upstream import Upstream

IDS = [f"request-{number}" for number in range(200)]


@pytest.fixture
async def other(start_upstream) -> Upstream:
    return await start_upstream()


@pytest.fixture
async def both(router: Running, upstream: Upstream, other: Upstream) -> Running:
    """R1 active, R2 beside it."""
    await router.put({R1: entry("r1", upstream.url), R2: entry("r2", other.url)})
    return router


async def sides(router: Running, ids: list[str] = IDS, *headers: str) -> dict[str, str]:
    """Request id → revision that answered."""
    async with await router.client() as client:
        answers = {name: await client.ask(chat(False, f"X-Request-Id: {name}", *headers)) for name in ids}
    assert all(answer.status == 200 for answer in answers.values())
    return {name: answer.header("x-infercrane-revision") or "" for name, answer in answers.items()}


async def ask(router: Running, *headers: str) -> Answer:
    async with await router.client() as client:
        return await client.ask(chat(False, *headers))


async def test_R9_weights_share_the_requests_as_the_hash_of_their_ids_says(both: Running, other: Upstream) -> None:
    assert set((await sides(both)).values()) == {R1}
    await both.weigh({R1: 75, R2: 25})
    share = Share(R2, 25)
    found = await sides(both)
    assert found == {name: R2 if share.takes(name.encode()) else R1 for name in IDS}
    assert Counter(found.values()) == {R1: 143, R2: 57}
    assert other.attempts == both.outcomes(R2)[Outcome.COMPLETE] == 57


async def test_R10_a_request_on_the_candidate_stays_there_as_its_weight_grows(both: Running) -> None:
    before: set[str] = set()
    for percent in (5, 25, 60):
        await both.weigh({R1: 100 - percent, R2: percent})
        now = {name for name, side in (await sides(both)).items() if side == R2}
        assert before < now
        before = now


async def test_a_session_stays_on_its_side_whatever_the_request(
    both: Running, upstream: Upstream, other: Upstream
) -> None:
    revisions = {R1: entry("r1", upstream.url), R2: entry("r2", other.url)}
    await both.put(revisions, session_header="x-session")
    await both.weigh({R1: 50, R2: 50})
    for session in ("alice", "bob", "carol", "dan"):
        found = await sides(both, IDS[:10], f"X-Session: {session}")
        assert set(found.values()) == {R2 if Share(R2, 50).takes(session.encode()) else R1}
    assert len(set((await sides(both, IDS[:10], "X-Session:")).values())) == 2
    assert upstream.calls[0].header("x-session") is not None


async def test_weights_end_with_a_flip_and_with_the_step_that_is_rolled_back(both: Running) -> None:
    await both.weigh({R1: 50, R2: 50})
    await both.weigh({R1: 100}, decision="back")
    assert set((await sides(both, IDS[:20])).values()) == {R1}
    await both.weigh({R1: 50, R2: 50}, decision="again")
    await both.flip(R2)
    assert set((await sides(both, IDS[:20])).values()) == {R2}
    await both.flip(R1, decision="rollback")
    assert set((await sides(both, IDS[:20])).values()) == {R1}


async def test_R9_steps_under_load_fail_nothing_and_count_from_their_acknowledgement(both: Running) -> None:
    stop = asyncio.Event()

    async def keep_asking(name: str) -> list[Answer]:
        answers = []
        async with await both.client() as client:
            while not stop.is_set():
                headers = f"X-Request-Id: {name}-{len(answers)}"
                answers.append(await client.ask(chat(len(answers) % 2 == 0, headers)))
        return answers

    load = [asyncio.create_task(keep_asking(f"load-{number}")) for number in range(8)]
    for percent in (5, 25, 50):
        await both.weigh({R1: 100 - percent, R2: percent})
        assert await sides(both, IDS[:30]) == {
            name: R2 if Share(R2, percent).takes(name.encode()) else R1 for name in IDS[:30]
        }
    await both.flip(R2)
    assert set((await sides(both, IDS[:30])).values()) == {R2}
    stop.set()
    answers = [answer for found in await asyncio.gather(*load) for answer in found]
    assert all(answer.whole and answer.status == 200 for answer in answers)
    assert {answer.header("x-infercrane-revision") for answer in answers} == {R1, R2}


async def test_weights_outlive_a_restart(both: Running, start_router) -> None:
    await both.weigh({R1: 75, R2: 25})
    restarted = await start_router()
    assert await sides(restarted, IDS[:50]) == await sides(both, IDS[:50])


async def test_R12_a_candidate_that_takes_no_connection_costs_no_request_but_is_blamed(
    both: Running, upstream: Upstream, other: Upstream
) -> None:
    await other.stop()
    await both.weigh({R1: 75, R2: 25})
    assert set((await sides(both)).values()) == {R1}
    assert both.outcomes(R2) == {Outcome.CONNECT_FAILED: 57}
    assert both.outcomes(R1) == {Outcome.COMPLETE: 200}
    assert both.traffic(R2).spilled == {R1: 57}
    assert (both.traffic(R1).inflight, both.traffic(R2).inflight, upstream.attempts) == (0, 0, 200)


async def test_R12_what_was_sent_to_the_candidate_is_never_sent_to_the_active_one(
    both: Running, upstream: Upstream, other: Upstream
) -> None:
    async def hang_up(call) -> None:
        call.writer.close()

    other.script = hang_up
    await both.weigh({R1: 1, R2: 99})
    assert (await ask(both, "X-Request-Id: request-0")).error == "upstream_closed"
    assert (upstream.attempts, other.attempts) == (0, 1)


async def test_N15_a_spill_never_goes_from_the_active_one_to_the_candidate(
    both: Running, upstream: Upstream, other: Upstream
) -> None:
    await both.weigh({R1: 99, R2: 1})
    await upstream.stop()
    assert (await ask(both, "X-Request-Id: request-0")).error == "connect_failed"
    assert other.attempts == 0


@pytest.mark.parametrize("name", [R2, "r2"])
async def test_a_pin_by_digest_or_label_where_the_table_allows_pinning(
    both: Running, upstream: Upstream, other: Upstream, name: str
) -> None:
    assert (await ask(both, f"X-InferCrane-Revision: {name}")).error == "pin_not_allowed"
    await both.put({R1: entry("r1", upstream.url), R2: entry("r2", other.url)}, pinning=True)
    answer = await ask(both, f"X-InferCrane-Revision: {name}")
    assert answer.header("x-infercrane-revision") == R2
    assert (upstream.attempts, other.calls[0].header("x-infercrane-revision")) == (0, None)
    await other.stop()
    assert (await ask(both, f"X-InferCrane-Revision: {name}")).error == "connect_failed"
    assert upstream.attempts == 0


async def test_a_pin_leads_past_the_weights(both: Running, upstream: Upstream, other: Upstream) -> None:
    await both.put({R1: entry("r1", upstream.url), R2: entry("r2", other.url)}, pinning=True)
    await both.weigh({R1: 1, R2: 99})
    found = await sides(both, IDS[:20], "X-InferCrane-Revision: r1")
    assert set(found.values()) == {R1}
