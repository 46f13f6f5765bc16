"""What a Release decides while a candidate takes over in steps, run by run.

The world's state is what the router gives, as Read leaves it; `at(n)` is n minutes after the promotion.
"""

import json
from datetime import timedelta
from typing import Any

import pytest

from pulumi_infercrane.guard.times import format_time, parse_time
from tests.components.world import World, problem
from tests.guard.rollout.conftest import binding, seconds

PROMOTED = "2026-11-30T05:00:00Z"
CANARY = """\
canary: {steps: [5, 25, 100], min_step: 10m, max_step: 60m}
"""


def at(minutes: float) -> str:
    return format_time(parse_time(PROMOTED) + timedelta(minutes=minutes))


class Steps(World):
    """r1 serves, r2 was measured, and the policy asks for steps."""

    def __init__(self, world: World) -> None:
        vars(self).update(vars(world.serving_r1()))
        self.policy += CANARY
        self.evidence.both()

    def shares(self, weight: int) -> dict[str, int]:
        return {self.r2: weight, self.r1: 100 - weight}

    def step(self, minutes: float, **changes: Any) -> dict[str, Any]:
        """One run with the candidate, so many minutes after the promotion."""
        return self.up(**{"candidate": self.r2, "as_of": at(minutes)} | changes).fields

    def saw(self, weight: int, begin: float, end: float, failed: int = 0) -> None:
        """The router counted 4,000 requests of either side between two minutes."""
        candidate = binding(self.r2, weight, seconds(4000 - failed, 2), failed)
        document = {
            "schema": "infercrane.window/v1",
            "tool_version": "0.1",
            "service": "chat",
            "generation": {"opened": 7, "closed": 7},
            "started_at": at(begin),
            "ended_at": at(end),
            "bindings": [candidate, binding(self.r1, 100 - weight, seconds(4000, 1))],
        }
        self.windows.mkdir(exist_ok=True)
        (self.windows / f"chat.{begin:03}.window.json").write_text(json.dumps(document))

    def decisions(self) -> list[tuple[str, str]]:
        records = [entry.decision for entry in self.ledger.entries()]
        return [(record["decision_type"], record["action"]) for record in records]


@pytest.fixture
def steps(world: World) -> Steps:
    return Steps(world)


def test_good_evidence_opens_the_first_step_and_the_active_revision_stays(steps: Steps) -> None:
    fields = steps.step(0)
    assert (fields["verdict"], fields["action"]) == ("promote", "advance")
    assert (fields["activeRevision"], fields["weights"]) == (steps.r1, steps.shares(5))


def test_a_candidate_goes_all_the_way_on_what_the_router_counted(steps: Steps) -> None:
    steps.step(0)
    steps.saw(5, 0, 10)
    assert steps.step(10)["weights"] == steps.shares(25)
    steps.saw(25, 10, 20)
    last = steps.step(20)
    assert (last["action"], last["activeRevision"], last["previousRevision"]) == ("flip", steps.r2, steps.r1)
    assert last["weights"] == {}
    assert steps.decisions()[1:] == [("promotion", "advance"), ("canary_step", "advance"), ("canary_step", "flip")]
    assert steps.preview(candidate=steps.r2).decision is None


def test_without_traffic_a_step_holds_and_asking_again_is_no_new_decision(steps: Steps) -> None:
    steps.step(0)
    held = steps.step(1)
    assert (held["verdict"], held["action"]) == ("insufficient_evidence", "hold")
    assert held["weights"] == steps.shares(5)
    assert steps.preview(candidate=steps.r2, as_of=at(2)).decision is None
    steps.saw(5, 0, 3)
    assert steps.preview(candidate=steps.r2, as_of=at(3)).decision


def test_a_bad_candidate_loses_its_share_and_comes_again_only_by_new_evidence(steps: Steps) -> None:
    steps.step(0)
    steps.saw(5, 0, 10, failed=400)
    fields = steps.step(10)
    assert (fields["verdict"], fields["action"]) == ("reject", "rollback")
    assert (fields["activeRevision"], fields["weights"]) == (steps.r1, {})
    again = steps.step(11)
    assert (again["verdict"], again["weights"]) == ("insufficient_evidence", {})
    assert "rolled back" in " ".join(again["reasons"])


def test_a_step_is_counted_from_when_the_router_gave_the_share_not_from_the_decision(steps: Steps) -> None:
    steps.step(0)
    steps.state["weightsSince"] = at(2)
    steps.saw(5, 2, 12)
    assert steps.step(12)["weights"] == steps.shares(25)


@pytest.mark.parametrize("candidate", ["", "r1"])
def test_a_candidate_that_is_given_up_loses_its_share(steps: Steps, candidate: str) -> None:
    steps.step(0)
    fields = steps.step(5, candidate=getattr(steps, candidate, ""))
    assert (fields["activeRevision"], fields["weights"]) == (steps.r1, {})
    assert "no longer the candidate" in fields["reasons"][0]
    assert "rolled back" in " ".join(steps.step(6)["reasons"])


def test_a_share_that_was_changed_by_hand_is_taken_back(steps: Steps) -> None:
    steps.step(0)
    steps.state["weights"] = steps.shares(50)
    assert steps.step(5)["weights"] == {}
    assert "by hand" in steps.state["reasons"][0]


def test_a_share_that_was_taken_back_by_hand_stays_so(steps: Steps) -> None:
    steps.step(0)
    steps.state["weights"] = {}
    assert steps.step(5)["weights"] == {}
    assert steps.step(6)["verdict"] == "insufficient_evidence"


def test_a_share_nobody_decided_on_is_taken_back(steps: Steps) -> None:
    steps.state["weights"] = steps.shares(5)
    assert steps.step(0)["weights"] == {}
    assert "no decision gives it one" in steps.state["reasons"][0]


def killed(steps: Steps, minutes: float, *, before_router: bool) -> dict[str, Any]:
    """A run whose command died after the ledger was written, before or after the router was told."""
    state = dict(steps.state)
    fields = steps.step(minutes)
    steps.state = state | ({} if before_router else {"weights": fields["weights"]})
    return fields


def test_a_run_that_was_killed_before_the_router_was_told_is_made_good(steps: Steps) -> None:
    fields = killed(steps, 0, before_router=True)
    again = steps.preview(candidate=steps.r2, as_of=at(1))
    assert (again.fields["decisionId"], again.fields["weights"]) == (fields["decisionId"], steps.shares(5))
    assert again.decision is None


def test_a_run_that_was_killed_after_the_router_was_told_goes_on(steps: Steps) -> None:
    killed(steps, 0, before_router=False)
    steps.saw(5, 0, 10)
    assert steps.step(10)["weights"] == steps.shares(25)


def test_a_last_step_that_was_killed_before_the_flip_is_made_good(steps: Steps) -> None:
    steps.step(0)
    steps.saw(5, 0, 10)
    steps.step(10)
    steps.saw(25, 10, 20)
    flip = killed(steps, 20, before_router=True)
    again = steps.preview(candidate=steps.r2, as_of=at(21))
    assert (again.fields["decisionId"], again.decision) == (flip["decisionId"], None)
    assert (again.fields["activeRevision"], again.fields["previousRevision"]) == (steps.r2, steps.r1)


def test_a_flip_that_was_killed_is_not_made_good_when_the_traffic_since_fails(steps: Steps) -> None:
    steps.step(0)
    steps.saw(5, 0, 10)
    steps.step(10)
    steps.saw(25, 10, 20)
    killed(steps, 20, before_router=True)
    steps.saw(25, 20, 30, failed=2000)
    fields = steps.step(30)
    assert (fields["verdict"], fields["activeRevision"], fields["weights"]) == ("reject", steps.r1, {})


def test_a_promotion_that_was_killed_is_decided_anew_when_there_is_other_evidence(steps: Steps) -> None:
    killed(steps, 0, before_router=True)
    steps.evidence.benchmark("candidate", failed=90, name="worse")
    assert (steps.step(1)["verdict"], steps.state["weights"]) == ("reject", {})


def test_a_promotion_that_was_killed_is_decided_anew_under_another_policy(steps: Steps) -> None:
    killed(steps, 0, before_router=True)
    steps.policy = steps.policy.replace("[5, 25, 100]", "[1, 100]")
    assert steps.step(1)["weights"] == steps.shares(1)


def test_a_step_that_was_killed_is_judged_anew_under_another_policy(steps: Steps) -> None:
    """What the old policy allowed is no reason to give the candidate more under the new one."""
    steps.step(0)
    steps.saw(5, 0, 10)
    advanced = killed(steps, 10, before_router=True)
    steps.policy = steps.policy.replace("min_step: 10m", "min_step: 20m")
    held = steps.step(15)
    assert (held["action"], held["weights"]) == ("hold", steps.shares(5))
    assert held["decisionId"] != advanced["decisionId"]
    steps.saw(5, 10, 29)
    assert steps.step(29)["weights"] == steps.shares(5)
    steps.saw(5, 29, 30)
    assert steps.step(30)["weights"] == steps.shares(25)


def test_a_flip_that_was_killed_is_judged_anew_under_another_policy(steps: Steps) -> None:
    steps.step(0)
    steps.saw(5, 0, 10)
    steps.step(10)
    steps.saw(25, 10, 20)
    killed(steps, 20, before_router=True)
    steps.policy = steps.policy.replace("[5, 25, 100]", "[5, 25, 50, 100]")
    steps.saw(25, 20, 30)
    assert steps.step(30)["weights"] == steps.shares(50)


def test_what_takes_traffic_away_is_made_good_under_any_policy(steps: Steps) -> None:
    steps.step(0)
    steps.saw(5, 0, 10, failed=400)
    rejected = killed(steps, 10, before_router=True)
    steps.policy = steps.policy.replace("min_step: 10m", "min_step: 20m")
    assert steps.step(11)["decisionId"] == rejected["decisionId"]
    assert steps.state["weights"] == {}


def test_a_share_the_policy_has_no_step_for_is_refused_with_the_way_out(steps: Steps) -> None:
    steps.step(0)
    steps.policy = steps.policy.replace("[5, 25, 100]", "[10, 100]")
    where, why = problem(steps.preview(candidate=steps.r2, as_of=at(5)))
    assert (where, "put 5 back into canary.steps" in why) == ("policy", True)
    back = steps.step(5, rollback_to="previous", rollback_reason="other steps")
    assert back["weights"] == {}


@pytest.mark.parametrize("failed", [0, 400])
def test_without_a_canary_in_the_policy_a_share_does_not_become_everything(steps: Steps, failed: int) -> None:
    steps.step(0)
    steps.saw(5, 0, 10, failed)
    steps.policy = steps.policy.replace(CANARY, "")
    fields = steps.step(10)
    assert (fields["activeRevision"], fields["weights"]) == (steps.r1, {})
    assert "no canary any more" in fields["reasons"][0]


def test_a_share_whose_end_was_decided_is_taken_back_by_the_next_run(steps: Steps) -> None:
    steps.step(0)
    steps.saw(5, 0, 10, failed=400)
    rejected = killed(steps, 10, before_router=True)
    again = steps.preview(candidate=steps.r2, as_of=at(11))
    assert (again.fields["decisionId"], again.fields["weights"]) == (rejected["decisionId"], {})


def test_what_was_decided_too_long_ago_is_not_made_good(steps: Steps) -> None:
    killed(steps, 0, before_router=True)
    fields = steps.step(60 * 24 * 40)
    assert fields["weights"] == {}
    assert "too long ago" in fields["reasons"][0]


def test_who_has_a_share_must_stay_declared(steps: Steps) -> None:
    steps.step(0)
    where, why = problem(steps.preview(revisions=(steps.r1,), candidate=steps.r1))
    assert where == "revisions"
    assert "5 % of the traffic" in why


@pytest.mark.parametrize("to", ["previous", "r1"])
def test_a_rollback_on_the_way_takes_the_share_back_whatever_the_policy_says(steps: Steps, to: str) -> None:
    steps.step(0)
    steps.policy = "broken"
    fields = steps.step(5, rollback_to=getattr(steps, to, to), rollback_reason="slow")
    assert (fields["activeRevision"], fields["weights"], fields["decisionType"]) == (steps.r1, {}, "rollback")
    assert fields["reasons"][0].endswith("is taken back: slow")


def test_windows_from_before_the_step_are_not_even_in_the_record(steps: Steps) -> None:
    steps.saw(5, -10, 0)
    steps.step(0)
    steps.saw(5, 0, 10)
    steps.step(10)
    record = list(steps.ledger.entries())[-1].decision
    assert [window["used"] for window in record["windows"]] == [True]
