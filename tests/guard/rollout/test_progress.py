"""Which step a route is in, by the decisions of a ledger."""

from pulumi_infercrane.guard import open_step, route_decision
from tests.guard.rollout.conftest import NEW, OLD, flipped, minutes, opened, pair, step, watched


def found(*records):
    return open_step(records, "chat", "prod")


def test_a_promotion_with_weights_opens_the_first_step():
    first = found(opened())
    assert (first.candidate, first.baseline, first.weight, first.started_at) == (NEW, OLD, 5, minutes(0))
    assert first.is_new


def test_a_held_step_keeps_its_start_and_is_not_new():
    held = found(opened(), step(pair(n=20)).record)
    assert (held.weight, held.started_at, held.is_new) == (5, minutes(0), False)


def test_an_advance_begins_a_new_step():
    second = found(opened(), step(pair()).record)
    assert (second.weight, second.started_at, second.is_new) == (25, minutes(10), True)


def test_what_moved_the_whole_route_or_took_the_share_back_leaves_no_step():
    assert found() is None
    assert found(flipped()) is None
    assert found(opened(), step(pair(failed=80)).record) is None
    assert found(opened(), flipped()) is None


def test_decisions_about_other_services_and_stacks_are_passed_over():
    assert open_step([opened()], "chat", "dev") is None
    assert found(opened(), flipped(service="other")).weight == 5


def test_the_watch_over_the_active_revision_says_nothing_about_a_step():
    assert found(opened(), watched().record).weight == 5
    assert route_decision([flipped(), watched().record], "chat", "prod") == flipped()
    assert route_decision([], "chat", "prod") is None
