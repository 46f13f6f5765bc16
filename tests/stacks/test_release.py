"""The plan lint: what serves, or is kept for a rollback, is neither replaced nor deleted."""

from dataclasses import replace
from pathlib import Path

import pytest

from pulumi_infercrane.components.deciding import Outcome
from pulumi_infercrane.stacks.engine import Preview, Step
from pulumi_infercrane.stacks.errors import PlanRefused
from pulumi_infercrane.stacks.release import _lint, _Planned

ACTIVE, PREVIOUS, OTHER = ("sha256:" + digit * 64 for digit in "123")


def planned(active: str = ACTIVE, declared: tuple[str, ...] = (ACTIVE, PREVIOUS, OTHER)) -> _Planned:
    fields = {"service": "chat", "revisions": list(declared)}
    return _Planned(fields, {"activeRevision": active, "previousRevision": PREVIOUS}, Outcome())


def plan(op: str, name: str) -> Preview:
    return Preview((Step(op, f"urn:pulumi:dev::lab::t::{name}", "t"),), Path("plan.json"))


@pytest.mark.parametrize("op", ["delete", "replace", "create-replacement", "delete-replaced"])
@pytest.mark.parametrize("name", ["r1-11111111", "r0-22222222", "chat-router"])
def test_an_interruption_is_refused(op: str, name: str) -> None:
    with pytest.raises(PlanRefused, match=f"would {op} {name}"):
        _lint(plan(op, name), planned())


@pytest.mark.parametrize("op", ["same", "update", "create", "refresh"])
def test_what_does_not_interrupt_passes(op: str) -> None:
    _lint(plan(op, "r1-11111111"), planned())


def test_a_revision_with_a_share_is_not_interrupted() -> None:
    sharing = replace(planned(), old={"activeRevision": ACTIVE, "weights": {ACTIVE: 95, OTHER: 5}})
    with pytest.raises(PlanRefused, match="would replace r3-33333333"):
        _lint(plan("replace", "r3-33333333"), sharing)


def test_other_revisions_may_go() -> None:
    _lint(plan("delete", "r3-33333333"), planned())


def test_the_previous_revision_may_go_once_it_is_no_longer_declared() -> None:
    _lint(plan("delete", "r0-22222222"), planned(declared=(ACTIVE,)))


def test_nothing_is_protected_before_anything_serves() -> None:
    _lint(plan("replace", "chat-router"), planned(active=""))


def test_a_revision_that_was_only_renamed_is_told_so() -> None:
    steps = (Step("create", "urn::r9-11111111", "t"), Step("delete", "urn::r1-11111111", "t"))
    with pytest.raises(PlanRefused, match="under another name: call it 'r1' again"):
        _lint(Preview(steps, Path("plan.json")), planned())


def test_the_way_out_of_a_restart_of_the_router_is_named() -> None:
    with pytest.raises(PlanRefused, match=r"What the router is started with has changed.*plain `pulumi up`"):
        _lint(plan("replace", "chat-router"), planned())
