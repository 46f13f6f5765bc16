"""The watch after a promotion: what takes the route back, what is only told, and how it ends."""

import json

import pytest

from pulumi_infercrane.guard import GuardError, Ledger, PolicyError, load_evidence, load_policy
from pulumi_infercrane.guard.printable import short
from pulumi_infercrane.guard.report import text
from pulumi_infercrane.guard.verification import recompute
from tests.guard.rollout.conftest import (
    NEW,
    OLD,
    OTHER,
    POLICY,
    alone,
    binding,
    flipped,
    loaded,
    minutes,
    opened,
    outcomes,
    pair,
    seconds,
    step,
    watched,
    window,
)

NOTICE_ONLY = POLICY.replace("post_promotion: {", "post_promotion: {auto_rollback: false, ")
STRICT = POLICY.replace("post_promotion: {", "post_promotion: {relative_latency: rollback, ")


def hours(count, failed=(), n=400):
    """A window for every hour since the flip; `failed` requests in the last ones."""
    failures = [0] * (count - len(failed)) + list(failed)
    return [alone(n, bad, begin=60 * i, end=60 * i + 60) for i, bad in enumerate(failures)]


# --- how a watch ends --------------------------------------------------------------------------------------------


def test_a_good_window_ends_the_watch():
    decision = watched(alone(end=30))
    assert (decision.verdict, decision.action, decision.record["state"]) == ("promote", "keep", "proven")
    assert "retain" not in decision.record


def test_before_the_window_is_over_nothing_good_is_concluded():
    decision = watched(alone(end=29), as_of=minutes(29))
    assert (decision.verdict, decision.action, decision.record["state"]) == ("insufficient_evidence", "hold", "open")
    assert decision.record["retain"] == OLD
    assert "benchmark.ttft_p95" not in outcomes(decision)


def test_a_router_that_stopped_writing_proves_nothing_about_now():
    decision = watched(alone(end=30), as_of=minutes(41))
    assert decision.record["first_reason"] == "window.observed: stale"
    assert decision.record["state"] == "open"


def test_the_policy_may_let_the_old_capacity_go():
    policy = POLICY.replace("post_promotion: {", "post_promotion: {retain_previous: false, ")
    assert "retain" not in watched(alone(end=29), as_of=minutes(29), policy=policy).record


def test_low_traffic_extends_the_watch_and_never_takes_the_route_back():
    little = alone(n=20, end=720)
    assert watched(little, as_of=minutes(719)).record["state"] == "open"
    decision = watched(little, as_of=minutes(720))
    assert (decision.verdict, decision.action) == ("insufficient_evidence", "keep")
    assert decision.record["state"] == "accepted_unproven"
    assert decision.record["notices"] == ["accepted_unproven: undecided for 12h, the watch ends"]


def test_no_traffic_at_all_ends_the_same_way():
    for windows in ([], [window(binding(NEW, 100), binding(OLD, 0), end=720)]):
        decision = watched(*windows, as_of=minutes(720))
        assert (decision.action, decision.record["state"]) == ("keep", "accepted_unproven")


@pytest.mark.parametrize("minute", [30, 720])
def test_a_watch_that_ended_is_not_decided_again(minute):
    ended = watched(alone(end=minute, n=20 if minute == 720 else 400), as_of=minutes(minute))
    with pytest.raises(GuardError, match=r"this watch ended at .*: (proven|accepted_unproven)"):
        watched(alone(end=minute), as_of=minutes(minute + 1), history=[ended.record])


# --- what takes the route back -----------------------------------------------------------------------------------


def test_errors_beyond_the_limit_take_the_route_back_at_any_time():
    decision = watched(alone(failed=80, end=3), as_of=minutes(3))
    assert (decision.verdict, decision.action, decision.record["state"]) == ("reject", "rollback", "failed")
    assert decision.record["rollback_to"] == OLD


def test_a_restart_is_a_hard_event():
    restarted = window(binding(NEW, 100, seconds(9), restarts=1), binding(OLD, 0), end=3)
    decision = watched(restarted, as_of=minutes(3))
    assert decision.action == "rollback"
    assert decision.record["first_reason"] == "window.restarts: hard_event"


def test_a_sudden_fire_is_seen_although_the_day_was_calm():
    """14.4 times the allowance of an hour, together with 6 times that of six hours."""
    policy = POLICY.replace("error_fraction, limit: 0.05", "error_fraction, limit: 0.01")
    sudden = hours(11, failed=[300], n=400)
    decision = watched(*sudden, as_of=minutes(660), policy=policy)
    assert outcomes(decision)["window.burn_rate"] == "fail limit_exceeded"
    assert decision.action == "rollback"


def test_an_hour_that_burns_alone_is_no_page():
    """80 of 400 in the last hour, yet no more than the allowance in six."""
    policy = POLICY.replace("error_fraction, limit: 0.05", "error_fraction, limit: 0.01")
    decision = watched(*hours(11, failed=[80], n=400), as_of=minutes(660), policy=policy)
    assert outcomes(decision)["window.burn_rate"] != "fail limit_exceeded"
    burn = next(rule for rule in decision.record["rules"] if rule["rule"] == "window.burn_rate")
    assert burn["detail"].startswith("1h share 0.2")


def test_a_slow_burn_is_told_and_takes_nothing_back():
    decision = watched(alone(n=100, failed=6, end=30))
    assert decision.action == "hold"
    assert decision.record["notices"] == ["slow burn: 6 of 100 requests failed within 3d, more than 0.05"]


def test_without_automatic_rollback_a_fail_is_told():
    decision = watched(alone(failed=80, end=30), policy=NOTICE_ONLY)
    assert (decision.verdict, decision.action, decision.record["state"]) == ("reject", "hold", "failed")
    assert "rollback_to" not in decision.record
    assert decision.record["retain"] == OLD
    assert decision.record["notices"][0] == f"auto_rollback is off: somebody has to decide about going back to {OLD}"
    again = watched(
        alone(failed=80, end=30),
        alone(begin=30, end=40),
        policy=NOTICE_ONLY,
        as_of=minutes(40),
        history=[decision.record],
    )
    assert again.record["look"]["number"] == 2


def test_the_first_revision_has_no_way_back():
    first = flipped(decision_type="bootstrap")
    for name in ("baseline", "expected_active"):
        del first[name]
    decision = watched(alone(failed=80, end=30), promoted=first)
    assert (decision.verdict, decision.action) == ("reject", "hold")
    assert decision.record["notices"][0] == "no revision served before this one: there is nothing to go back to"


def test_late_looks_are_stricter():
    records = [watched(alone(n=5, end=1), as_of=minutes(1)).record]
    records.append(watched(alone(n=5, end=2), as_of=minutes(2), history=records).record)
    assert [record["look"]["alpha"] for record in records] == [0.05, 0.025]


# --- the frozen baseline -----------------------------------------------------------------------------------------

LAST_STEP = window(binding(NEW, 25, seconds(900, 2)), binding(OLD, 75, seconds(1200, 1)), begin=-20, end=-10)
PROMOTED = step(LAST_STEP, weight=25, started_at=minutes(-20), as_of=minutes(-10)).record
SLOW = alone(n=1000, scale=3.0, end=30)


def test_latency_is_judged_against_what_the_promoting_decision_saw():
    assert PROMOTED["action"] == "flip"
    decision = watched(alone(n=1000, end=30), LAST_STEP, promoted=PROMOTED, started_at=minutes(0))
    assert outcomes(decision)["benchmark.ttft_p95"] == "pass within_margin"
    ttft = next(rule for rule in decision.record["rules"] if rule["rule"] == "benchmark.ttft_p95")
    assert ttft["n"] == [1200, 1000]
    assert len(decision.record["frozen"]) == 1
    assert len(decision.record["windows"]) == 1


def test_a_slower_revision_is_a_notice():
    decision = watched(SLOW, LAST_STEP, promoted=PROMOTED, started_at=minutes(0))
    assert (decision.verdict, decision.action) == ("promote", "keep")
    assert decision.record["notices"][0].startswith("benchmark.ttft_p95: margin_exceeded: ratio 3")


def test_a_slower_revision_goes_back_where_the_policy_says_so():
    decision = watched(SLOW, LAST_STEP, promoted=PROMOTED, started_at=minutes(0), policy=STRICT)
    assert (decision.verdict, decision.action) == ("reject", "rollback")
    assert decision.record["notices"] == []


def test_the_old_revision_is_never_measured_again():
    """What trickles to the old revision while it drains changes nothing."""
    draining = window(binding(NEW, 100, seconds(1000, 5)), binding(OLD, 0, seconds(5, 9, 100.0)), end=30)
    quiet = window(binding(NEW, 100, seconds(1000, 5)), end=30)
    asked = {"promoted": PROMOTED, "started_at": minutes(0), "policy": STRICT}
    assert watched(draining, LAST_STEP, **asked).record["rules"] == watched(quiet, LAST_STEP, **asked).record["rules"]


def test_without_traffic_behind_the_promotion_there_is_no_baseline():
    decision = watched(SLOW)
    assert outcomes(decision)["benchmark.ttft_p95"] == "unknown no_traffic"
    assert decision.record["state"] == "proven"
    strict = watched(SLOW, policy=STRICT)
    assert (strict.verdict, strict.action) == ("insufficient_evidence", "hold")


# --- what cannot be asked ----------------------------------------------------------------------------------------


def test_only_a_flip_is_watched():
    for record in (flipped(action="keep"), opened(), flipped(decision_type="rollback"), step(pair()).record):
        with pytest.raises(GuardError, match="let no new revision take over"):
            watched(promoted=record)


def test_a_route_that_moved_on_is_not_watched():
    promoted = flipped()
    next_flip = flipped(decision_id="sha256:" + "e" * 64, candidate=OTHER, as_of=minutes(5))
    with pytest.raises(GuardError, match="the route moved on at 2026-11-30T04:05:00Z"):
        watched(promoted=promoted, history=[promoted, next_flip])
    elsewhere = next_flip | {"stack": "dev"}
    assert watched(alone(end=30), promoted=promoted, history=[promoted, elsewhere]).action == "keep"


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"policy": POLICY.replace("chat", "other")}, PolicyError, "for service 'other'"),
        ({"started_at": minutes(-1)}, GuardError, "before the decision to promote"),
        ({"started_at": minutes(40)}, GuardError, "after the time of this decision"),
    ],
)
def test_what_cannot_be_decided_is_an_error_and_no_verdict(changes, error, message):
    with pytest.raises(error, match=message):
        watched(alone(end=30), **changes)


# --- the record --------------------------------------------------------------------------------------------------


def test_a_watch_is_computed_again_byte_for_byte(tmp_path):
    first = watched(alone(n=9, end=5), promoted=PROMOTED, started_at=minutes(0), as_of=minutes(5)).record
    windows = [alone(n=9, end=5), alone(n=900, begin=5, end=30), LAST_STEP]
    history = [PROMOTED, first]
    decision = watched(*windows, promoted=PROMOTED, started_at=minutes(0), history=history, previous_decision_id=OLD)
    record = json.loads(decision.canonical)
    assert record["state"] == "proven"
    assert record["history"] == [one["decision_id"] for one in history]
    nothing, more = load_evidence(tmp_path), loaded([*reversed(windows), pair(n=7)])
    again = recompute(record, load_policy(POLICY), nothing, history, more)
    assert again.canonical == decision.canonical
    with pytest.raises(GuardError, match="is gone or was changed"):
        recompute(record, load_policy(POLICY), nothing, history, loaded(windows[:2]))


def test_the_ledger_takes_a_watch_and_the_report_explains_it(tmp_path):
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.append(watched(alone(failed=80, end=3), as_of=minutes(3)).record)
    [entry] = ledger.entries()
    lines = text.render(entry.decision).splitlines()
    assert lines[0] == "ROLLBACK: the revision that served before takes over again"
    assert lines[2] == f"candidate {NEW[7:19]} · previous {OLD[7:19]}"
    assert "watched since 2026-11-30T04:00:00Z · failed" in lines
    assert f"back to {short(OLD)}" in lines
