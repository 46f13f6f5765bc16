"""What a control call makes of a table."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from pulumi_infercrane.router import transitions
from pulumi_infercrane.router.calls import Flip
from pulumi_infercrane.router.errors import (
    ActiveChanged,
    DecisionConflict,
    DecisionExpired,
    GenerationMismatch,
    RevisionUnknown,
    TableInvalid,
)
from pulumi_infercrane.router.schema import read_declared
from pulumi_infercrane.router.table import RouteTable
from tests.router.conftest import R1, R2, R3, declared, revision

NOW = datetime(2026, 11, 30, 9, tzinfo=UTC)
BOTH = read_declared(declared({R1: revision("r1", "http://a"), R2: revision("r2", "http://b")}))
TABLE = RouteTable("chat", 5, BOTH, active=R1, decision_id="d1")


def test_the_first_put_makes_generation_one_without_an_active_revision() -> None:
    assert transitions.put(None, "chat", BOTH, None) == RouteTable("chat", 1, BOTH)


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
