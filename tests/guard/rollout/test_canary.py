"""A canary step: when it advances, flips, holds and goes back."""

import json

import pytest

from pulumi_infercrane.guard import GuardError, Ledger, PolicyError, load_evidence, load_policy
from pulumi_infercrane.guard.report import RECORD_ALONE, find_report, known_reports, text
from pulumi_infercrane.guard.verification import recompute
from tests.guard.rollout.conftest import (
    NEW,
    OLD,
    OTHER,
    POLICY,
    alone,
    binding,
    loaded,
    minutes,
    outcomes,
    pair,
    seconds,
    step,
    watched,
    window,
)

HOUR = {"begin": 0, "end": 60}


def first_reason(*windows, **changes):
    return step(*windows, **changes).record["first_reason"]


# --- where a step goes -------------------------------------------------------------------------------------------


def test_a_good_step_advances_to_the_next_weight():
    decision = step(pair())
    assert (decision.verdict, decision.action) == ("promote", "advance")
    assert decision.record["expected_weights"] == {NEW: 5, OLD: 95}
    assert decision.record["weights"] == {NEW: 25, OLD: 75}
    assert decision.expires_at == minutes(70)


def test_the_last_step_is_the_flip():
    decision = step(pair(weight=25), weight=25)
    assert (decision.verdict, decision.action) == ("promote", "flip")
    assert decision.record["weights"] == {NEW: 100}
    assert decision.record["expected_active"] == OLD


def test_a_bad_step_gives_the_old_revision_all_traffic():
    decision = step(pair(failed=80))
    assert (decision.verdict, decision.action) == ("reject", "rollback")
    assert decision.record["weights"] == {OLD: 100}
    assert decision.record["first_reason"] == "benchmark.error_fraction: limit_exceeded"
    assert decision.expires_at == ""


def test_a_fail_that_does_not_stand_beside_the_other_rules_holds():
    """2 % of 400 against a limit of 1 % happen by chance once in fifty times: with four rules that is often."""
    decision = step(pair(failed=9), policy=POLICY.replace("error_fraction, limit: 0.05", "error_fraction, limit: 0.01"))
    assert decision.record["first_reason"] == "benchmark.error_fraction: fail_unconfirmed"
    assert decision.action == "hold"


def test_a_slow_candidate_goes_back():
    decision = step(pair(n=1000, scale=3.0))
    assert decision.action == "rollback"
    assert outcomes(decision)["benchmark.ttft_p95"] == "fail margin_exceeded"


def test_too_little_traffic_holds():
    decision = step(pair(n=40))
    assert (decision.verdict, decision.action) == ("insufficient_evidence", "hold")
    assert decision.record["weights"] == decision.record["expected_weights"]
    assert "needed" in decision.record["rules"][2]["needs"]


def test_a_restart_of_the_candidate_is_a_hard_event():
    restarted = window(binding(NEW, 5, seconds(400), restarts=1), binding(OLD, 95, seconds(400)))
    assert first_reason(restarted) == "window.restarts: hard_event"
    of_the_baseline = window(binding(NEW, 5, seconds(400)), binding(OLD, 95, seconds(400), restarts=1))
    assert step(of_the_baseline).action == "advance"


@pytest.mark.parametrize("kind", ["http_error", "idle_timeout", "first_byte_timeout", "error_event", "connect_failed"])
def test_whatever_way_a_model_fails_counts(kind):
    failing = binding(NEW, 5, seconds(320), failed_by_class={kind: 80})
    assert step(window(failing, binding(OLD, 95, seconds(400)))).action == "rollback"


def test_cut_streams_are_failures():
    failing = binding(NEW, 5, seconds(320), cut_streams=80)
    assert step(window(failing, binding(OLD, 95, seconds(400)))).action == "rollback"


@pytest.mark.parametrize("status", ["400", "401", "404", "429"])
def test_what_clients_do_wrong_is_no_failure(status):
    faulty = binding(NEW, 5, seconds(400, 2), client_faults={status: 5000})
    decision = step(window(faulty, binding(OLD, 95, seconds(400))))
    assert decision.action == "advance"
    assert decision.record["rules"][0]["notes"][0] == "candidate: 5000 client faults and 0 cancelled of 5400 requests"


def test_a_broken_baseline_is_no_measure():
    """The candidate is judged by its own limit, and nothing relative can pass."""
    broken = binding(OLD, 95, seconds(300), failed=100)
    decision = step(window(binding(NEW, 5, seconds(400, 2)), broken))
    assert decision.action == "hold"
    assert outcomes(decision)["benchmark.error_fraction_difference"] == "unknown baseline_broken"


def test_a_soft_fail_that_is_waived_does_not_hold_a_step():
    slow_end = [round(one + 0.5, 6) for one in seconds(1000, 2)]
    late = binding(NEW, 5, seconds(1000, 2), e2e_s=[3 * one for one in slow_end])
    both = window(late, binding(OLD, 95, seconds(1000)))
    assert step(both).record["first_reason"] == "benchmark.e2e_p95: margin_exceeded"
    waiver = (
        f"{{rule: benchmark.e2e_p95, reason: r, owner: o, expires_at: 2026-11-30T04:30:00Z, revision_digest: {NEW}}}"
    )
    decision = step(both, policy=f"{POLICY}waivers: [{waiver}]\n")
    assert decision.action == "advance"
    assert decision.expires_at == minutes(30)


def test_rules_the_policy_does_not_write_take_their_defaults():
    policy = POLICY.replace("  - {id: benchmark.ttft_p95, margin: 0.5, min_pass: 300}\n", "")
    decision = step(pair(), policy=policy)
    assert decision.action == "hold"
    assert decision.record["first_reason"] == "benchmark.ttft_p95: insufficient_n"


# --- time --------------------------------------------------------------------------------------------------------


def test_nothing_good_is_concluded_before_the_least_time():
    decision = step(pair(n=5000, end=9), as_of=minutes(9))
    assert decision.action == "hold"
    assert decision.record["reasons"] == [
        "window.observed: truncated: 540 of 600 s were watched; windows of 600 s together"
    ]


def test_only_hard_events_and_errors_end_a_step_early():
    assert step(pair(failed=80, end=2), as_of=minutes(2)).action == "rollback"
    assert step(pair(n=1000, scale=3.0, end=2), as_of=minutes(2)).action == "hold"
    restarted = window(binding(NEW, 5, seconds(9), restarts=1), binding(OLD, 95, seconds(9)), end=2)
    assert step(restarted, as_of=minutes(2)).action == "rollback"


def test_a_step_that_stays_undecided_steps_back_or_stays_as_the_policy_says():
    little = pair(n=40, weight=25, **HOUR)
    back = step(little, weight=25, as_of=minutes(60))
    assert (back.action, back.record["weights"]) == ("hold", {NEW: 5, OLD: 95})
    assert back.record["notices"] == ["undecided for 1h: the candidate is back to 5 %"]
    held = step(little, weight=25, as_of=minutes(60), policy=POLICY.replace("step_back", "hold"))
    assert held.record["weights"] == {NEW: 25, OLD: 75}
    assert held.record["notices"] == ["undecided for 1h: the candidate is held at 25 %"]
    assert step(little, weight=25, as_of=minutes(60), started_at=minutes(0)).verdict == "insufficient_evidence"


def test_the_first_step_has_nowhere_to_step_back_to():
    assert step(pair(n=40, **HOUR), as_of=minutes(60)).record["weights"] == {NEW: 5, OLD: 95}


def test_a_late_step_may_still_advance():
    assert step(pair(**HOUR), as_of=minutes(62)).action == "advance"


def test_a_window_that_is_old_proves_nothing_about_now():
    assert first_reason(pair(end=10), as_of=minutes(25)) == "window.observed: stale"


# --- looks -------------------------------------------------------------------------------------------------------


def looked(times):
    """Records of several undecided looks, each at a minute more."""
    records = []
    for n in range(1, times + 1):
        records.append(step(pair(n=40, end=n), as_of=minutes(n), history=records).record)
    return records


def test_every_early_look_makes_the_next_one_stricter():
    assert [record["look"] for record in looked(3)] == [
        {"stage": "early", "number": n, "alpha": alpha} for n, alpha in ((1, 0.05), (2, 0.025), (3, 0.016666667))
    ]


def test_early_looks_cost_the_judgement_nothing():
    windows = [pair(n=40, end=1), pair(n=40, begin=1, end=10)]
    early = step(windows[0], as_of=minutes(1))
    assert step(*windows, history=[early.record]).record["look"] == {"stage": "judgement", "number": 1, "alpha": 0.05}


def test_the_same_windows_again_are_no_new_look():
    windows = [pair(n=40)]
    first = step(*windows)
    assert step(*windows, history=[first.record], as_of=minutes(11)).record["look"]["number"] == 1
    more = step(*windows, pair(n=40, begin=10, end=20), history=[first.record], as_of=minutes(20))
    assert more.record["look"] == {"stage": "judgement", "number": 2, "alpha": 0.025}


def test_looks_at_other_steps_and_candidates_do_not_count():
    other = step(pair(n=40), candidate=OTHER)
    earlier = step(pair(n=40, weight=25), weight=25)
    before = step(pair(n=40, begin=-60, end=-50), started_at=minutes(-60), as_of=minutes(-50))
    decision = step(pair(), history=[other.record, earlier.record, before.record])
    assert decision.record["look"]["number"] == 1
    assert decision.record["history"] == []


def test_windows_an_earlier_look_used_must_still_be_there():
    bad = pair(n=100, failed=6, end=5)
    first = step(bad, as_of=minutes(5))
    hidden = step(pair(n=400, end=15), history=[first.record], as_of=minutes(15))
    assert hidden.record["first_reason"] == "window.observed: evidence_withdrawn"
    assert hidden.action == "hold"


def test_a_step_that_ended_is_not_decided_again():
    ended = step(pair())
    with pytest.raises(GuardError, match=r"this step ended at 2026-11-30T04:10:00Z with 25 % \(decision sha256:"):
        step(pair(), history=[ended.record], as_of=minutes(11))


# --- which windows count -----------------------------------------------------------------------------------------


def test_windows_of_other_times_weights_and_revisions_are_passed_over_and_said():
    others = [
        pair(begin=-10, end=0, failed=300),
        pair(weight=25, failed=300),
        window(binding(OTHER, 5, [], 300), binding(OLD, 95)),
        pair(service="other", failed=300),
        pair(failed=300, begin=60, end=70),
    ]
    decision = step(pair(), *others)
    assert decision.action == "advance"
    reasons = [entry["reasons"][0].partition(":")[0] for entry in decision.record["windows"] if not entry["used"]]
    assert sorted(reasons) == ["binding_mismatch", "binding_mismatch", "binding_mismatch", "clock", "stale"]


def test_a_window_in_which_the_route_changed_is_void():
    moved = pair(generation={"opened": 7, "closed": 8})
    assert first_reason(moved) == "window.observed: no_evidence"
    assert step(moved).record["windows"][0]["reasons"] == [
        "subject_changed: the route was changed while the window was open"
    ]


def test_leaving_out_a_window_in_the_middle_does_not_help():
    decision = step(pair(end=10), pair(begin=15, end=25), as_of=minutes(25))
    assert (
        decision.record["reasons"][0]
        == "window.observed: truncated: the windows cover 1200 of 1500 s; all windows of that time"
    )


@pytest.mark.parametrize("failed", [0, 80])
def test_windows_that_overlap_are_not_added_up(failed):
    windows = [pair(end=10, failed=failed), pair(begin=5, end=15, failed=failed)]
    decision = step(*windows, as_of=minutes(15))
    assert decision.record["first_reason"] == "window.observed: conflict"
    assert decision.record["look"]["stage"] == "early"
    assert decision.action == "hold"


def test_a_restart_stands_in_windows_that_overlap():
    restarted = window(binding(NEW, 5, seconds(9), restarts=1), binding(OLD, 95, seconds(9)), begin=5, end=15)
    assert step(pair(), restarted, as_of=minutes(15)).action == "rollback"


def test_a_file_that_cannot_be_read_keeps_a_step_from_advancing():
    assert first_reason(pair(), pair(begin=20, end=30, bindings=[])) == "window.observed: bad_value"


def test_requests_nobody_observed_keep_a_step_from_advancing():
    unseen = window(binding(NEW, 5, seconds(400, 2), unobserved=1), binding(OLD, 95, seconds(400)))
    assert first_reason(unseen) == "window.observed: truncated"


def test_buckets_hold_no_quantiles():
    histogram = {"edges": [0.5, 2.0], "counts": [400, 0, 0]}
    counted = {"completed": 400, "ttft_s": histogram, "e2e_s": histogram}
    both = [binding(name, weight, **counted) for name, weight in ((NEW, 5), (OLD, 95))]
    decision = step(window(*both))
    assert decision.action == "hold"
    assert outcomes(decision)["benchmark.ttft_p95"] == "unknown summary_only"
    assert outcomes(decision)["benchmark.error_fraction"] == "pass within_margin"


ATTAINED = POLICY.replace("rules:", "slo: {ttft_s: 0.5}\nrules:\n  - {id: benchmark.attainment, limit: 0.9}")


def test_objectives_are_judged_where_a_policy_has_them():
    assert step(pair(), policy=ATTAINED).action == "advance"
    decision = step(pair(scale=8.0), policy=ATTAINED)
    assert outcomes(decision)["benchmark.attainment"] == "fail limit_exceeded"


@pytest.mark.parametrize(("edge", "outcome"), [(0.5, "pass within_margin"), (0.4, "unknown percentile_of_percentiles")])
def test_a_bucket_edge_must_be_the_objective(edge, outcome):
    histogram = {"edges": [edge], "counts": [400, 0]}
    counted = {"completed": 400, "ttft_s": histogram, "e2e_s": histogram}
    both = [binding(name, weight, **counted) for name, weight in ((NEW, 5), (OLD, 95))]
    assert outcomes(step(window(*both), policy=ATTAINED))["benchmark.attainment"] == outcome


# --- what cannot be asked ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"policy": POLICY.partition("canary")[0]}, PolicyError, "has no 'canary'"),
        ({"policy": POLICY.replace("chat", "other")}, PolicyError, "for service 'other'"),
        ({"weight": 10}, PolicyError, "10 % is no step that is judged; those are 5, 25"),
        ({"weight": 100}, PolicyError, "100 % is no step"),
        ({"candidate": OLD}, GuardError, "the same revision"),
        ({"started_at": minutes(20)}, GuardError, "after the time of this decision"),
        ({"as_of": "now"}, GuardError, "as_of"),
    ],
)
def test_what_cannot_be_decided_is_an_error_and_no_verdict(changes, error, message):
    with pytest.raises(error, match=message):
        step(pair(), **changes)


# --- the record --------------------------------------------------------------------------------------------------


def test_a_step_is_computed_again_byte_for_byte(tmp_path):
    history = looked(2)
    windows = [pair(n=40, end=2), pair(begin=2, end=12, n=300), pair(begin=99, end=100)]
    decision = step(*windows, history=history, as_of=minutes(12), previous_decision_id=history[-1]["decision_id"])
    record = json.loads(decision.canonical)
    nothing = load_evidence(tmp_path)
    more = loaded([*reversed(windows), pair(n=7)])
    again = recompute(record, load_policy(POLICY), nothing, history, more)
    assert again.canonical == decision.canonical
    with pytest.raises(GuardError, match=r"window sha256:\w+… is gone or was changed \(3 of them\)"):
        recompute(record, load_policy(POLICY), nothing, history)
    with pytest.raises(GuardError, match="give the ledger"):
        recompute(record, load_policy(POLICY), nothing, (), more)


def test_the_ledger_takes_a_step_and_the_report_explains_it(tmp_path):
    decision = step(pair(n=40, weight=25, **HOUR), pair(service="other"), weight=25, as_of=minutes(60))
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.append(decision.record)
    [entry] = ledger.entries()
    lines = text.render(entry.decision).splitlines()
    assert lines[0] == "HOLD: the candidate gets no more traffic yet"
    assert "step 25 % since 2026-11-30T04:00:00Z · then 5 %" in lines
    assert "judgement · look 1 · alpha 0.05" in lines
    assert "notice: undecided for 1h: the candidate is back to 5 %" in lines
    assert any(line.startswith("  not used  ") and "binding_mismatch" in line for line in lines)


@pytest.mark.parametrize("name", known_reports())
def test_every_report_shows_decisions_on_traffic(name):
    promoted = step(pair(weight=25), weight=25).record
    back = watched(alone(failed=80, begin=10, end=13), promoted=promoted, as_of=minutes(13)).record
    for record in (step().record, back):
        assert find_report(name).render(record, RECORD_ALONE)
