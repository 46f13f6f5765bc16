"""Release and Route while a candidate has a share of the traffic, against a real router."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pulumi_infercrane.components.plugin.resource import CreateRequest, Failure, UpdateRequest
from pulumi_infercrane.components.plugin.resources.route import Route
from pulumi_infercrane.guard import Ledger
from pulumi_infercrane.router.control.client import ControlClient, LiveService, Weights
from tests.components.plugin.releasing import URN, Run, route_inputs
from tests.components.plugin.releasing import router as router
from tests.components.plugin.releasing import run as run
from tests.components.plugin.releasing import short as short
from tests.components.plugin.test_release import relay

SETTINGS: dict[str, Any] = {
    "pinning": True,
    "session_header": "x-session",
    "limits": {"max_inflight": 9},
    "timers": {"gap_s": 7},
}


@pytest.fixture
async def opened(run: Run) -> Run:
    """The candidate was measured, and may have 5 %; nobody told the router yet."""
    run.policy = "canary: {steps: [5, 100]}\n"
    await run.create()
    run.evidence.both()
    return run


def shared(run: Run, percent: int = 5) -> dict[str, int]:
    return {run.evidence.candidate: percent, run.evidence.baseline: 100 - percent}


async def live(run: Run) -> LiveService:
    async with ControlClient(run.control) as client:
        return await client.get("chat")


async def advance(run: Run) -> dict[str, Any]:
    inputs = await run.check(candidate=run.evidence.candidate)
    await run.update(inputs)
    return inputs


async def test_a_promotion_under_a_policy_with_steps_gives_a_share_and_moves_nothing(opened: Run) -> None:
    inputs = await opened.check(candidate=opened.evidence.candidate)
    assert {"weights", "decisionId"} <= set(await opened.changed(inputs))
    await opened.update(inputs)
    now = await live(opened)
    assert (now.active, dict(now.weights)) == (opened.evidence.baseline, shared(opened))
    assert now.table["weights_decision_id"] == inputs["decisionId"]
    assert opened.outputs["activeRevision"] == opened.evidence.baseline
    assert opened.outputs["weightsSince"].endswith("Z")
    (*_, last) = Ledger(opened.folder / "ledger.jsonl").entries()
    assert last.decision["decision_id"] == inputs["decisionId"]


async def test_a_preview_of_a_step_touches_nothing(opened: Run) -> None:
    await opened.update(await opened.check(candidate=opened.evidence.candidate), preview=True)
    assert dict((await live(opened)).weights) == {opened.evidence.baseline: 100}


async def test_a_step_that_was_taken_already_is_not_taken_again(opened: Run) -> None:
    before = dict(opened.inputs), dict(opened.outputs)
    inputs = await advance(opened)
    generation = (await live(opened)).generation
    opened.inputs, opened.outputs = before
    await opened.update(inputs)
    assert (await live(opened)).generation == generation


async def test_a_candidate_that_is_given_up_loses_its_share(opened: Run) -> None:
    await advance(opened)
    await opened.refresh()
    await opened.update(await opened.check())
    assert dict((await live(opened)).weights) == {opened.evidence.baseline: 100}


async def test_read_sees_weights_that_were_set_by_hand_and_the_next_run_takes_them_back(opened: Run) -> None:
    await advance(opened)
    async with ControlClient(opened.control) as client:
        await client.set_weights("chat", Weights(opened.evidence.baseline, shared(opened, 50), "by-hand"))
    await opened.refresh()
    assert opened.outputs["weights"] == shared(opened, 50)
    await opened.update(await opened.check(candidate=opened.evidence.candidate))
    assert dict((await live(opened)).weights) == {opened.evidence.baseline: 100}


async def test_weights_that_changed_since_they_were_read_are_not_overwritten(opened: Run) -> None:
    inputs = await opened.check(candidate=opened.evidence.candidate)
    async with ControlClient(opened.control) as client:
        await client.set_weights("chat", Weights(opened.evidence.baseline, shared(opened, 50), "by-hand"))
    with pytest.raises(Failure, match="weights_changed"):
        await opened.update(inputs)


async def test_a_step_whose_answer_was_lost_is_looked_up(opened: Run, short: Path) -> None:
    inputs = await opened.check(candidate=opened.evidence.candidate) | {"route": {"control": str(short / "lossy.sock")}}
    async with relay(opened.control, short / "lossy.sock", lambda request: b"/weights" in request):
        await opened.update(inputs)
    assert dict((await live(opened)).weights) == shared(opened)


async def test_a_step_nobody_answered_fails_and_the_next_run_makes_it_good(opened: Run, short: Path) -> None:
    silent = {"route": {"control": str(short / "lossy.sock")}}
    inputs = await opened.check(candidate=opened.evidence.candidate) | silent
    async with relay(opened.control, short / "lossy.sock", lambda _: True):
        with pytest.raises(Failure, match="weights not set"):
            await opened.update(inputs)
    assert (await advance(opened))["decisionId"] == inputs["decisionId"]
    assert dict((await live(opened)).weights) == shared(opened)


async def told(run: Run, **settings: Any) -> None:
    """Somebody told the router more about the service than a Route declares."""
    async with ControlClient(run.control) as client:
        before = await client.get("chat")
        known = ("aliases", "protocols", "revisions")
        table = {name: before.table[name] for name in known} | settings
        others = {"balance": "least_inflight", "health": {"eject_after": 3}, "answer_as_alias": True}
        table["revisions"][run.evidence.candidate] |= others
        await client.put("chat", table, if_match=before.generation)


async def put(run: Run, *digests: str) -> Mapping[str, Any]:
    """The table after a Route with these revisions was put."""
    inputs = route_inputs(run.control, *digests)
    inputs["revisions"][0]["urls"] = ["http://127.0.0.1:99"]
    await Route().create(CreateRequest(run.context, URN, "chat", inputs, preview=False, timeout_s=0))
    return (await live(run)).table


async def test_a_route_leaves_what_it_does_not_declare_as_it_was(opened: Run) -> None:
    await advance(opened)
    r1, r2 = opened.evidence.baseline, opened.evidence.candidate
    named = {"pins": [r2], "fallback": r2, "mirror": {"revision": r2, "percent": 1}}
    await told(opened, **SETTINGS, **named)
    table = await put(opened, r1, r2)
    assert table["revisions"][r1]["upstreams"][0]["url"] == "http://127.0.0.1:99"
    assert {name: table[name] for name in ("pinning", "session_header", "pins", "fallback")} == {
        "pinning": True,
        "session_header": "x-session",
        "pins": [r2],
        "fallback": r2,
    }
    assert (table["limits"]["max_inflight"], table["timers"]["gap_s"], table["mirror"]["percent"]) == (9, 7, 1)
    kept = table["revisions"][r2]
    assert (kept["balance"], kept["health"]["eject_after"], kept["answer_as_alias"]) == ("least_inflight", 3, True)
    assert table["weights"] == shared(opened)


async def test_a_revision_that_leaves_a_route_takes_along_what_named_it(run: Run) -> None:
    await run.create()
    r1, r2 = run.evidence.baseline, run.evidence.candidate
    await told(run, **SETTINGS, pins=[r1, r2], fallback=r2, mirror={"revision": r2, "percent": 1})
    table = await put(run, r1)
    assert table["pins"] == [r1]
    assert not {"fallback", "mirror"} & table.keys()
    assert table["limits"]["max_inflight"] == 9


async def test_a_revision_with_a_share_cannot_leave_the_route(opened: Run) -> None:
    await advance(opened)
    r1, r2 = opened.evidence.baseline, opened.evidence.candidate
    both, one = route_inputs(opened.control, r1, r2), route_inputs(opened.control, r1)
    with pytest.raises(Failure, match="take it back first"):
        await Route().update(
            UpdateRequest(opened.context, "route/chat", URN, both, both, one, preview=False, timeout_s=0)
        )
