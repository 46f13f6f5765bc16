"""Windows in which a process of the router was lost: what they hold is true, and what they lack decides nothing."""

import json

import pytest

from pulumi_infercrane.guard import read_window
from tests.guard.rollout.conftest import NEW, OLD, alone, binding, minutes, outcomes, pair, step, watched, window

OBSERVED = "window.observed"


def lossy(begin, end, whose="worker", **changes):
    """Nobody answered anything in it, as far as is known."""
    return window(binding(NEW, 5), binding(OLD, 95), begin=begin, end=end, lost=whose, **changes)


def observed(decision):
    """Outcome and reason of whether enough was watched."""
    (rule,) = [rule for rule in decision.record["rules"] if rule["rule"] == OBSERVED]
    return rule["outcome"], rule["detail"]


def test_after_a_loss_as_much_is_watched_again_as_a_good_end_needs():
    before, lost = pair(begin=0, end=10), lossy(10, 10.1)
    hold = step(before, lost, pair(begin=10.1, end=20), as_of=minutes(20))
    assert (hold.verdict, hold.action) == ("insufficient_evidence", "hold")
    assert observed(hold) == (
        "unknown",
        f"counts of a worker process were lost until {minutes(10.1)}: 594 of 600 s were watched since",
    )
    good = step(before, lost, pair(begin=10.1, end=20.1), as_of=minutes(20.1))
    assert (good.verdict, good.action) == ("promote", "advance")


def test_a_candidate_that_ends_a_process_now_and_then_never_gets_further():
    """Each loss is short, and what is counted between them is spotless."""
    given = []
    for number in range(9):
        given += [pair(begin=6 * number, end=6 * number + 5.9), lossy(6 * number + 5.9, 6 * number + 6)]
    given.append(pair(begin=54, end=60))
    assert step(*given, as_of=minutes(60)).verdict == "insufficient_evidence"


def test_what_was_counted_beside_the_lost_process_speaks_against_the_candidate():
    failing = pair(n=400, failed=200, begin=0, end=0.1, lost="worker")
    decision = step(failing, pair(begin=0.1, end=10), as_of=minutes(10))
    assert (decision.verdict, decision.action) == ("reject", "rollback")
    assert outcomes(decision)["benchmark.error_fraction"].startswith("fail")


def test_what_was_counted_beside_the_lost_process_does_not_speak_for_the_candidate():
    """What failed may be what was lost: too few requests stay too few."""
    few = step(pair(n=10, begin=0.5, end=11), started_at=minutes(0.5), as_of=minutes(11))
    lost = pair(n=5000, begin=0, end=0.5, lost="worker")
    decision = step(lost, pair(n=10, begin=0.5, end=11), as_of=minutes(11))
    assert decision.verdict == few.verdict == "insufficient_evidence"
    assert outcomes(decision) == outcomes(few)


def test_the_watch_does_not_end_well_on_what_was_counted_beside_the_lost_process():
    lost = window(binding(NEW, 100, [0.1] * 5000), binding(OLD, 0), begin=0, end=0.5, lost="router")
    decision = watched(lost, alone(n=10, begin=0.5, end=31), as_of=minutes(31))
    assert (decision.record["state"], outcomes(decision)["benchmark.error_fraction"]) == (
        "open",
        "unknown insufficient_n",
    )


def test_the_time_of_a_loss_was_not_watched():
    decision = step(pair(begin=0, end=10), lossy(10, 40, "router"), pair(begin=40, end=51), as_of=minutes(51))
    assert decision.verdict == "insufficient_evidence"
    assert observed(decision)[1] == "the windows cover 1260 of 3060 s"


def test_a_loss_while_the_route_changed_counts_though_its_window_does_not():
    lost = lossy(-1, 0.1, generation={"opened": 6, "closed": 7})
    decision = step(lost, pair(begin=0.1, end=10), as_of=minutes(10))
    assert decision.record["windows"][0]["used"] is False
    assert "counts of a worker process were lost" in observed(decision)[1]


@pytest.mark.parametrize(("begin", "end", "service"), [(-2, -1, "chat"), (1, 2, "other")])
def test_a_loss_before_the_step_or_of_another_service_is_none(begin, end, service):
    assert step(lossy(begin, end, service=service), pair(), as_of=minutes(10)).verdict == "promote"


def test_the_watch_looks_as_long_again_too():
    lost = window(binding(NEW, 100), binding(OLD, 0), begin=30, end=30.1, lost="router")
    assert watched(alone(end=30), lost, alone(begin=30.1, end=60), as_of=minutes(60)).record["state"] == "open"
    given = alone(end=30), lost, alone(begin=30.1, end=60.1)
    assert watched(*given, as_of=minutes(60.1)).record["state"] == "proven"


@pytest.mark.parametrize("lost", ["", "somebody", None, 1, True])
def test_who_was_lost_is_one_of_two(lost):
    loaded = read_window(json.dumps(pair(lost=lost)).encode())
    assert loaded.problem
    assert loaded.problem.code == "bad_value"
