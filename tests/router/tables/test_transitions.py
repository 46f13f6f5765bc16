"""What a control call makes of a table."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from pulumi_infercrane.router.errors import (
    ActiveChanged,
    DecisionConflict,
    DecisionExpired,
    GenerationMismatch,
    RevisionInUse,
    RevisionUnknown,
    TableInvalid,
    WeightsChanged,
)
from pulumi_infercrane.router.tables import transitions
from pulumi_infercrane.router.tables.calls import Flip, Weights
from pulumi_infercrane.router.tables.schema import read_declared
from pulumi_infercrane.router.tables.table import SERVING, RouteTable
from tests.router.conftest import R1, R2, R3, declared, revision

NOW = datetime(2026, 11, 30, 9, tzinfo=UTC)
BOTH = read_declared(declared({R1: revision("r1", "http://a"), R2: revision("r2", "http://b")}))
TABLE = RouteTable("chat", 5, BOTH, active=R1, decision_id="d1")


def test_the_first_put_makes_generation_one_without_an_active_revision() -> None:
    assert transitions.put(None, "chat", BOTH, None) == RouteTable("chat", 1, BOTH)


def test_a_table_that_there_once_was_is_gone_on_from() -> None:
    assert transitions.put(None, "chat", BOTH, None, last_generation=7).generation == 8


def test_a_put_keeps_what_only_a_flip_may_change() -> None:
    less = read_declared(declared({R1: revision("r1", "http://c")}))
    assert transitions.put(TABLE, "chat", less, "5") == replace(TABLE, generation=6, declared=less)


@pytest.mark.parametrize(("table", "expected"), [(None, "1"), (TABLE, None), (TABLE, "4")])
def test_a_put_with_the_wrong_precondition_is_refused(table: RouteTable | None, expected: str | None) -> None:
    with pytest.raises(GenerationMismatch):
        transitions.put(table, "chat", BOTH, expected)


def test_a_put_may_not_drain_the_active_revision() -> None:
    draining = read_declared(declared({R1: revision("r1", "http://a", state="draining")}))
    with pytest.raises(TableInvalid, match="must be serving"):
        transitions.put(TABLE, "chat", draining, "5")


def test_a_flip_moves_active_and_names_its_decision() -> None:
    flipped = transitions.flip(TABLE, Flip(R1, R2, "d2"), NOW)
    assert (flipped.generation, flipped.active, flipped.decision_id) == (6, R2, "d2")
    assert flipped.declared is TABLE.declared


def test_the_same_decision_is_live_already_even_when_expired_meanwhile() -> None:
    flip = Flip(R2, R1, "d1", expires_at="2020-01-01T00:00:00Z", expected_generation="4")
    assert transitions.flip(TABLE, flip, NOW) is TABLE


@pytest.mark.parametrize(
    ("flip", "error"),
    [
        (Flip(R2, R2, "d1"), DecisionConflict),
        (Flip(R1, R2, "d2", expires_at="2026-11-30T09:00:00Z"), DecisionExpired),
        (Flip(R1, R2, "d2", expected_generation="4"), GenerationMismatch),
        (Flip(R2, R2, "d2"), ActiveChanged),
        (Flip("", R2, "d2"), ActiveChanged),
        (Flip(R1, R3, "d2"), RevisionUnknown),
    ],
)
def test_a_flip_that_is_refused(flip: Flip, error: type[Exception]) -> None:
    with pytest.raises(error):
        transitions.flip(TABLE, flip, NOW)


def test_draining_is_written_into_the_table() -> None:
    drained = transitions.drain(TABLE, R2, "2026-11-30T09:10:00Z")
    assert drained.declared.revisions[R2].document()["drain_deadline"] == "2026-11-30T09:10:00Z"
    with pytest.raises(RevisionUnknown):
        transitions.drain(TABLE, R3, "2026-11-30T09:10:00Z")


STEP = transitions.weigh(TABLE, Weights(R1, {R1: 95, R2: 5}, "w1"), NOW)


def test_weights_leave_the_active_revision_and_its_decision_as_they_are() -> None:
    assert replace(TABLE, generation=6, weights={R1: 95, R2: 5}, weights_decision_id="w1") == STEP
    assert transitions.carried(TABLE) == {R1: 100}
    assert transitions.carried(STEP) == {R1: 95, R2: 5}


def test_the_same_weights_decision_is_live_already() -> None:
    again = Weights(R1, {R2: 5, R1: 95, R3: 0}, "w1", expires_at="2020-01-01T00:00:00Z", expected_generation="5")
    assert transitions.weigh(STEP, again, NOW) is STEP


def test_steps_follow_each_other_by_the_weights_they_expect() -> None:
    step = Weights(R1, {R1: 75, R2: 25}, "w2", expected_weights={R1: 95, R2: 5})
    assert transitions.weigh(STEP, step, NOW).weights == {R1: 75, R2: 25}
    with pytest.raises(WeightsChanged, match="the route gives 100 % sha256:1"):
        transitions.weigh(TABLE, step, NOW)


@pytest.mark.parametrize("weights", [{}, {R1: 100}, {R1: 100, R2: 0}])
def test_all_for_the_active_revision_takes_the_share_back(weights: dict[str, int]) -> None:
    """As a step that is rolled back says it."""
    back = transitions.weigh(STEP, Weights(R1, weights, "w2", expected_weights={R1: 95, R2: 5}), NOW)
    assert (back.weights, back.weights_decision_id, back.generation) == ({}, "w2", 7)
    assert transitions.weigh(back, Weights(R1, weights, "w2"), NOW) is back


def test_a_step_that_was_taken_back_is_not_applied_again() -> None:
    """Its answer may have been lost, and its call repeated long after."""
    reset = transitions.flip(STEP, Flip(R1, R1, "d2"), NOW)
    with pytest.raises(DecisionConflict, match="taken back since"):
        transitions.weigh(reset, Weights(R1, {R1: 95, R2: 5}, "w1"), NOW)


@pytest.mark.parametrize("to", [R1, R2])
def test_a_flip_takes_all_weights_back(to: str) -> None:
    flipped = transitions.flip(STEP, Flip(R1, to, "d2", expected_weights={R1: 95, R2: 5}), NOW)
    assert (flipped.active, flipped.weights) == (to, {})


def test_a_flip_may_be_for_certain_weights_only() -> None:
    with pytest.raises(WeightsChanged):
        transitions.flip(STEP, Flip(R1, R2, "d2", expected_weights={R1: 75, R2: 25}), NOW)
    with pytest.raises(WeightsChanged):
        transitions.flip(STEP, Flip(R1, R2, "d2", expected_weights={R1: 100}), NOW)


@pytest.mark.parametrize(
    ("weights", "error"),
    [
        (Weights(R1, {R1: 75, R2: 25}, "w1"), DecisionConflict),
        (Weights(R1, {R1: 75, R2: 25}, "w2", expires_at="2026-11-30T09:00:00Z"), DecisionExpired),
        (Weights(R1, {R1: 75, R2: 25}, "w2", expected_generation="5"), GenerationMismatch),
        (Weights(R2, {R1: 75, R2: 25}, "w2"), ActiveChanged),
        (Weights(R1, {R1: 75, R3: 25}, "w2"), RevisionUnknown),
        (Weights(R1, {R2: 100}, "w2"), TableInvalid),
        (Weights(R1, {R1: 50, R2: 25, R3: 25}, "w2"), TableInvalid),
    ],
)
def test_weights_that_are_refused(weights: Weights, error: type[Exception]) -> None:
    with pytest.raises(error):
        transitions.weigh(STEP, weights, NOW)


def test_without_an_active_revision_there_is_nothing_to_share() -> None:
    with pytest.raises(TableInvalid, match="none"):
        transitions.weigh(RouteTable("chat", 1, BOTH), Weights("", {}, "w1"), NOW)


def test_a_revision_with_weight_stays_in_the_table_and_serves() -> None:
    less = read_declared(declared({R1: revision("r1", "http://a")}))
    with pytest.raises(RevisionInUse, match="has 5 % of the traffic"):
        transitions.put(STEP, "chat", less, "6")
    draining = {R1: revision("r1", "http://a"), R2: revision("r2", "http://b", state="draining")}
    with pytest.raises(TableInvalid, match=f"a revision with weight must be {SERVING}"):
        transitions.put(STEP, "chat", read_declared(declared(draining)), "6")
    with pytest.raises(RevisionInUse, match="take it back first"):
        transitions.drain(STEP, R2, "2026-11-30T09:10:00Z")


def test_a_put_keeps_the_weights() -> None:
    other = read_declared(declared({R1: revision("r1", "http://c"), R2: revision("r2", "http://b")}))
    assert transitions.put(STEP, "chat", other, "6").weights == STEP.weights
