"""Faults that users of other canary controllers reported; each is a thing this guard must not do."""

import json

import pytest

from pulumi_infercrane.guard import EvidenceSet, PolicyError, load_policy, load_windows, read_window
from pulumi_infercrane.guard.rollout.canary import canary_step
from pulumi_infercrane.guard.verification import recompute
from tests.guard.rollout.conftest import (
    NEW,
    OLD,
    POLICY,
    alone,
    binding,
    flipped,
    loaded,
    minutes,
    pair,
    seconds,
    step,
    watched,
    window,
)

R1, R2, R3, R4 = ("sha256:" + digit * 64 for digit in "abcd")


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"status": "success", "data": {"result": []}}'])
def test_an_empty_answer_is_no_success(data):
    """argoproj/argo-rollouts#1466, #363, #1905: empty vector, array, no data."""
    asked = {"service": "chat", "stack": "prod", "candidate": NEW, "baseline": OLD, "weight": 5}
    times = {"started_at": minutes(0), "as_of": minutes(10)}
    decision = canary_step(load_policy(POLICY), [read_window(data)], **asked, **times)
    assert (decision.verdict, decision.action) == ("insufficient_evidence", "hold")


def test_traffic_that_stops_during_a_step_holds_it():
    """fluxcd/flagger#1011: traffic stops mid-analysis, still advances."""
    before = pair(n=2000, end=9)
    assert step(before, pair(n=100, begin=9, end=10)).action == "advance"
    nothing = window(binding(NEW, 5), binding(OLD, 95), begin=9, end=10)
    stopped = step(before, nothing)
    assert stopped.action == "hold"
    assert stopped.record["reasons"][0] == (
        "window.observed: no_traffic: the candidate answered no request in the newest window"
    )
    silent = step(before, pair(n=100, begin=9, end=10), as_of=minutes(40))
    assert silent.action == "hold"
    assert silent.record["first_reason"] == "window.observed: stale"


NO_TRAFFIC = {
    "no_evidence": [],
    "no_traffic": [window(binding(NEW, 5), binding(OLD, 95))],
    "non_finite": [window(binding(NEW, 5, completed=1, ttft_s=[float("nan")], e2e_s=[1.0]), binding(OLD, 95, [0.1]))],
    "bad_value": [window(binding(NEW, 5) | {"completed": None}, binding(OLD, 95))],
}


@pytest.mark.parametrize("reason", NO_TRAFFIC)
def test_zero_null_nan_and_nothing_are_told_apart_and_all_hold(reason):
    """fluxcd/flagger#1098, #1035, #1689: is no traffic zero, null or NaN?"""
    decision = step(*NO_TRAFFIC[reason])
    assert decision.record["first_reason"] == f"window.observed: {reason}"
    assert decision.action == "hold"
    after = watched(*NO_TRAFFIC[reason], as_of=minutes(720))
    assert after.action == "keep"


def test_only_client_faults_are_no_traffic():
    """The same, where a client with a wrong key is all there is."""
    faults = {"client_faults": {"401": 800, "429": 30}, "client_cancelled": 4}
    decision = step(window(binding(NEW, 5, **faults), binding(OLD, 95, **faults)))
    assert "(830 client faults, 4 cancelled)" in decision.record["reasons"][0]
    assert decision.action == "hold"


def test_a_rollback_leads_to_the_revision_that_was_active_before():
    """kserve/kserve#2130, #2097: the canary falls back to the wrong previous revision.

    r2 took over from r1; r3 was only tried; r4 took over from r2 and fails: back to r2, neither r1 nor r3.
    """
    first = flipped(candidate=R2, baseline=R1, expected_active=R1, decision_id="sha256:" + "1" * 64)
    tried = step(
        window(binding(R3, 5, seconds(320), 80), binding(R2, 95, seconds(400))), candidate=R3, baseline=R2
    ).record
    promoted = flipped(candidate=R4, baseline=R2, expected_active=R2, as_of=minutes(20))
    failing = window(binding(R4, 100, seconds(300), 100), binding(R2, 0), begin=20, end=25)
    decision = watched(failing, promoted=promoted, history=[first, tried, promoted], as_of=minutes(25))
    assert decision.action == "rollback"
    assert decision.record["rollback_to"] == R2


def test_a_candidate_that_only_runs_is_not_promoted():
    """kserve/kserve#3085: promotion on readiness alone."""
    ready = [window(binding(NEW, 25), binding(OLD, 75, seconds(500)), begin=10 * i, end=10 * i + 10) for i in range(6)]
    decision = step(*ready, weight=25, as_of=minutes(60))
    assert decision.verdict == "insufficient_evidence"
    assert decision.action == "hold"


def test_low_traffic_after_a_promotion_is_no_rollback_at_the_deadline():
    """A good release at low traffic was taken back when the observation ended undecided."""
    decision = watched(alone(n=3, end=720), as_of=minutes(721))
    assert (decision.action, decision.record["state"]) == ("keep", "accepted_unproven")


def test_a_candidate_a_canary_rejected_needs_new_evidence(folder):
    """It must not come back on the files that opened its canary."""
    rejected = step(
        window(binding(folder.candidate, 5, seconds(320), 80), binding(folder.baseline, 95, seconds(400))),
        candidate=folder.candidate,
        baseline=folder.baseline,
        as_of=minutes(10),
    )
    assert rejected.action == "rollback"
    decision = folder.both().decide(history=[rejected.record])
    assert decision.verdict == "insufficient_evidence"
    assert decision.record["first_reason"] == "benchmark: stale"


def test_windows_of_a_canary_are_not_missed_by_a_decision_on_files(folder):
    """Only what a decision on files used can be withdrawn from one."""
    held = step(
        window(binding(folder.candidate, 5, seconds(40)), binding(folder.baseline, 95, seconds(40))),
        candidate=folder.candidate,
        baseline=folder.baseline,
    )
    assert held.action == "hold"
    assert folder.both().decide(history=[held.record]).verdict == "promote"


def test_an_unreadable_window_is_named_and_the_decision_can_be_computed_again(tmp_path):
    """The step held, and nobody could tell because of which file."""
    (tmp_path / "chat.0.window.json").write_text(json.dumps(pair()))
    (tmp_path / "chat.1.window.json").write_text("{")
    decision = decide_step(load_windows([tmp_path]))
    assert decision.action == "hold"
    assert decision.reasons[0].startswith("window.observed: not_json: chat.1.window.json: ")
    assert [entry.get("file") for entry in decision.record["windows"]] == ["chat.1.window.json", None]
    (tmp_path / "chat.1.window.json").rename(tmp_path / "2.window.json")
    again = recompute(decision.record, load_policy(POLICY), EvidenceSet(()), windows=load_windows([tmp_path]))
    assert again.canonical == decision.canonical


@pytest.mark.parametrize(("weight", "way_out"), [(10, ": put 10 back into canary.steps"), (100, "")])
def test_a_weight_the_policy_has_no_step_for_says_the_way_out(weight, way_out):
    """The steps of the policy were changed while the candidate had a share."""
    with pytest.raises(PolicyError, match=f"{weight} % is no step that is judged; those are 5, 25{way_out}"):
        step(weight=weight)


def decide_step(windows):
    """On a step that began ten minutes ago."""
    sides = {"candidate": NEW, "baseline": OLD, "weight": 5}
    asked = {"service": "chat", "stack": "prod", "started_at": minutes(0), "as_of": minutes(10)}
    return canary_step(load_policy(POLICY), windows, **sides, **asked)


def test_an_unreadable_window_does_not_hide_a_failure():
    """A file that cannot be read keeps a step from going on, not from going back."""
    [broken] = [read_window(b"{")]
    assert decide_step([broken, *loaded([pair(failed=80)])]).action == "rollback"
