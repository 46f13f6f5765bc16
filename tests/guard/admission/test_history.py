"""What earlier decisions ask of the evidence: nothing just disappears, and a rollback asks for a new measurement."""

import json

import pytest

from pulumi_infercrane.guard import rollback
from tests.guard.asking import ERRORS_ONLY, decided, good, supersede

SOFT_ERRORS = ERRORS_ONLY.replace("error_fraction", "error_fraction, class: S")


def test_evidence_an_earlier_decision_used_may_not_disappear(folder):
    bad = folder.benchmark("candidate", folder.seconds(300), failed=50, name="bad")
    rejected = decided(folder)
    bad.unlink()
    (folder.root / "bad.benchmark.jsonl").unlink()
    good(folder)
    decision = decided(folder, history=[rejected.record])
    assert decision.verdict == "insufficient_evidence"
    assert decision.reasons[0].startswith("benchmark: evidence_withdrawn: ")
    assert decision.record["history"] == [rejected.decision_id]


EVENTS_TOO = ERRORS_ONLY.replace("error_fraction}", "error_fraction}, {id: reliability.crashes}")


@pytest.mark.parametrize("wrong", ["gone", "edited"])
def test_nor_may_evidence_that_nobody_required(folder, wrong):
    """What was offered and fails rejects; else leaving it out, or spoiling it, would be the way round it."""
    good(folder)
    assert folder.decide(policy=EVENTS_TOO).verdict == "promote"
    bad = folder.reliability(header={"crashes": 1})
    rejected = folder.decide(policy=EVENTS_TOO)
    assert rejected.verdict == "reject"
    if wrong == "gone":
        bad.unlink()
    else:
        bad.write_text(bad.read_text().replace('"b1"', '"b2"'))
    decision = folder.decide(policy=EVENTS_TOO, history=[rejected.record])
    assert decision.verdict == "insufficient_evidence"
    assert decision.reasons[0].startswith(
        "reliability: evidence_withdrawn" if wrong == "gone" else "reliability: tampered"
    )


def test_evidence_that_was_superseded_may_disappear(folder):
    old = good(folder, name="old")
    earlier = decided(folder)
    supersede(folder, old)
    old.unlink()
    assert decided(folder, history=[earlier.record]).verdict == "promote"


def test_superseded_evidence_that_broke_a_hard_limit_may_not(folder):
    bad = folder.benchmark("candidate", folder.seconds(300), failed=50, name="bad")
    rejected = decided(folder)
    supersede(folder, bad)
    bad.unlink()
    assert decided(folder, history=[rejected.record]).reasons[0].startswith("benchmark: evidence_withdrawn")


def test_superseded_evidence_of_a_crash_may_not_disappear(folder):
    crashed = folder.reliability(header={"crashes": 1}, name="crashed")
    rejected = folder.decide(policy=EVENTS_TOO)
    named = [{"evidence_id": json.loads(crashed.read_text())["evidence_id"], "reason": "new driver"}]
    folder.reliability(name="again", change=lambda envelope: envelope.update(supersedes=named))
    good(folder)
    crashed.unlink()
    reasons = folder.decide(policy=EVENTS_TOO, history=[rejected.record]).reasons
    assert reasons[0].startswith("reliability: evidence_withdrawn")


def test_superseded_evidence_that_broke_a_soft_limit_may_disappear(folder):
    bad = folder.benchmark("candidate", folder.seconds(300), failed=50, name="bad")
    rejected = folder.decide(policy=SOFT_ERRORS)
    supersede(folder, bad)
    bad.unlink()
    assert rejected.verdict == "reject"
    assert folder.decide(policy=SOFT_ERRORS, history=[rejected.record]).verdict == "promote"


def test_evidence_that_never_counted_may_disappear(folder):
    bad = folder.benchmark("candidate", folder.seconds(300), name="bad", lines=lambda lines: lines.clear())
    earlier = decided(folder)
    bad.unlink()
    good(folder)
    assert decided(folder, history=[earlier.record]).verdict == "promote"


def test_decisions_about_other_candidates_do_not_matter(folder, new_folder):
    other = new_folder(candidate="r9")
    good(other)
    good(folder)
    decision = decided(folder, history=[decided(other).record])
    assert decision.verdict == "promote"
    assert decision.record["history"] == []


def test_what_another_candidate_failed_is_not_asked_of_this_one(folder, new_folder):
    other = new_folder(candidate="r9")
    good(other)
    other.reliability(header={"crashes": 1})
    rejected = other.decide(policy=EVENTS_TOO)
    good(folder)
    assert rejected.verdict == "reject"
    assert folder.decide(policy=EVENTS_TOO, history=[rejected.record]).verdict == "promote"


def test_evidence_that_changed_since_is_tampered_not_withdrawn(folder):
    good(folder)
    earlier = decided(folder)
    raw = folder.root / "benchmark-candidate.benchmark.jsonl"
    raw.write_bytes(raw.read_bytes() + b"\n")
    assert decided(folder, history=[earlier.record]).reasons[0].startswith("benchmark: tampered")


def rolled_back(folder, at):
    return rollback(
        service="chat",
        stack="dev",
        target=folder.baseline,
        active=folder.candidate,
        policy_digest="sha256:" + "0" * 64,
        as_of=at,
        reason="users saw garbage",
    ).record


@pytest.mark.parametrize(
    ("at", "verdict"),
    [("2026-11-30T04:30:00Z", "insufficient_evidence"), ("2026-11-30T03:59:00Z", "promote")],
)
def test_after_a_rollback_the_candidate_needs_a_new_measurement(folder, at, verdict):
    good(folder)
    decision = decided(folder, history=[rolled_back(folder, at)])
    assert decision.verdict == verdict
    if verdict != "promote":
        assert (
            decision.reasons[0] == "benchmark: stale: measured before this revision was rolled back; measure it again"
        )


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({}, "insufficient_evidence"),
        ({"candidate": "sha256:" + "9" * 64}, "promote"),
        ({"action": "hold"}, "promote"),
        ({"decision_type": "override"}, "promote"),
    ],
)
def test_so_does_one_whose_share_of_the_traffic_was_taken_back(folder, changes, verdict):
    good(folder)
    taken_back = {
        "decision_type": "canary_step",
        "action": "rollback",
        "candidate": folder.candidate,
        "decision_id": "sha256:" + "1" * 64,
        "as_of": "2026-11-30T04:30:00Z",
    }
    assert decided(folder, history=[taken_back | changes]).verdict == verdict


def test_a_measurement_that_began_with_the_rollback_is_new(folder):
    good(folder)
    assert decided(folder, history=[rolled_back(folder, "2026-11-30T04:00:00Z")]).verdict == "promote"


def test_the_last_of_several_rollbacks_counts_and_one_new_measurement_does(folder):
    good(folder)
    times = ("2026-11-30T03:00:00Z", "2026-11-30T04:30:00Z", "2026-11-30T03:30:00Z")
    history = [rolled_back(folder, at) for at in times]
    assert decided(folder, history=history).verdict == "insufficient_evidence"
    window = {"started_at": "2026-11-30T04:40:00Z", "ended_at": "2026-11-30T04:42:00Z"}
    good(folder, name="again", header=dict(window), change=lambda e: e.update(window=window))
    assert decided(folder, history=history).verdict == "promote"


def test_after_a_rollback_a_kind_that_was_never_measured_is_missing_not_stale(folder):
    folder.quality("candidate")
    decision = decided(folder, history=[rolled_back(folder, "2026-11-30T04:30:00Z")])
    assert decision.record["first_reason"] == "benchmark: no_evidence"


def test_a_rollback_to_the_candidate_says_nothing_against_it(folder):
    good(folder)
    back_to_it = rolled_back(folder, "2026-11-30T04:30:00Z") | {
        "candidate": folder.candidate,
        "baseline": "sha256:" + "9" * 64,
    }
    decision = decided(folder, history=[back_to_it])
    assert (decision.verdict, len(decision.record["history"])) == ("promote", 1)


def test_superseded_evidence_that_was_only_slower_than_the_baseline_may_disappear(folder):
    """A comparison is repeated, a limit is not."""
    policy = (
        "schema: infercrane.policy/v1\nrequired_kinds: [benchmark]\nrules: [{id: benchmark.ttft_p50, min_pass: 300}]\n"
    )
    folder.benchmark("baseline", folder.seconds(300, seed=7))
    slow = folder.benchmark("candidate", folder.seconds(300, seed=7, scale=3.0), name="slow")
    rejected = folder.decide(policy=policy)
    supersede(folder, slow)
    slow.unlink()
    repeated = folder.decide(policy=policy, history=[rejected.record])
    assert (rejected.verdict, repeated.verdict) == ("reject", "promote")


def test_evidence_is_not_replaced_by_a_piece_that_does_not_count(folder):
    old = good(folder, name="old")
    earlier = decided(folder)
    supersede(folder, old, lines=lambda lines: lines.clear())
    old.unlink()
    good(folder)
    assert decided(folder, history=[earlier.record]).reasons[0].startswith("benchmark: evidence_withdrawn")


def test_what_passed_once_is_not_required_from_then_on(folder):
    soak = folder.reliability()
    good(folder)
    earlier = folder.decide(policy=EVENTS_TOO)
    assert earlier.verdict == "promote"
    later = {"started_at": "2026-12-03T04:00:00Z", "ended_at": "2026-12-03T04:02:00Z"}
    good(folder, name="later", header=dict(later), change=lambda envelope: envelope.update(window=later))
    decision = folder.decide(policy=EVENTS_TOO, history=[earlier.record], as_of="2026-12-20T05:00:00Z", stack="dev")
    assert soak.exists()
    assert not next(rule for rule in decision.record["rules"] if rule["rule"] == "reliability.crashes")["required"]


@pytest.mark.parametrize(("changes", "required"), [({}, True), ({"decision_type": "canary_step"}, False)])
def test_what_failed_is_required_from_then_on_but_not_what_failed_on_traffic(folder, changes, required):
    good(folder)
    folder.reliability()
    failed = {"rule": "reliability.crashes", "outcome": "fail", "class": "H", "reasons": ["hard_event"]}
    earlier = {
        "decision_type": "promotion",
        "candidate": folder.candidate,
        "decision_id": "sha256:" + "1" * 64,
        "as_of": "2026-11-30T04:30:00Z",
        "rules": [failed],
    }
    decision = folder.decide(policy=EVENTS_TOO, history=[earlier | changes])
    (rule,) = [one for one in decision.record["rules"] if one["rule"] == "reliability.crashes"]
    assert rule["required"] is required
