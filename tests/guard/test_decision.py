"""One pure function: the same inputs give the same bytes, and only sufficient evidence moves the route."""

import json
import subprocess
import sys
from importlib.metadata import version

import pytest

from pulumi_infercrane.guard import (
    EvidenceSet,
    GuardError,
    PolicyError,
    load_evidence,
    load_policy,
    reference_folder,
)
from pulumi_infercrane.guard.canonical import digest
from pulumi_infercrane.guard.decision import GUARD_VERSION

DIGEST = "sha256:" + "0" * 64
AS_OF = "2026-11-30T05:00:00Z"


def test_good_evidence_promotes(folder):
    decision = folder.both().decide()
    assert (decision.verdict, decision.action, decision.decision_type) == ("promote", "flip", "promotion")
    assert [reason.split(": ")[:2] for reason in decision.reasons] == [
        ["benchmark.error_fraction", "within_margin"],
        ["benchmark.ttft_p95", "within_margin"],
        ["quality.basics", "within_margin"],
    ]


CANARY = "canary: {steps: [2, 50, 100]}\n"


def test_under_a_policy_with_steps_good_evidence_opens_the_first(folder):
    decision = folder.both().decide(policy=folder.policy + CANARY)
    assert (decision.verdict, decision.action, decision.decision_type) == ("promote", "advance", "promotion")
    assert decision.record["expected_weights"] == {folder.baseline: 100}
    assert decision.record["weights"] == {folder.candidate: 2, folder.baseline: 98}


def test_a_candidate_that_may_not_take_over_gets_no_step(folder):
    folder.both().quality("candidate", [0.0] * 40 + [1.0] * 20)
    decision = folder.decide(policy=folder.policy + CANARY)
    assert (decision.verdict, decision.action) == ("reject", "keep")
    assert not {"weights", "expected_weights"} & decision.record.keys()


def test_a_worse_candidate_is_rejected_and_the_deciding_rule_comes_first(folder):
    folder.both().quality("candidate", [0.0] * 40 + [1.0] * 20)
    decision = folder.decide()
    assert (decision.verdict, decision.action) == ("reject", "keep")
    assert decision.reasons == (
        "quality.basics: margin_exceeded: difference -0.645 [-0.749, -0.542] against -0.05, 40 lost / 0 gained of 60",
    )
    assert decision.record["first_reason"] == "quality.basics: margin_exceeded"


def test_too_little_evidence_says_what_would_settle_it(folder):
    decision = folder.both().decide(policy=folder.policy.replace("min_pass: 60", "min_pass: 300"))
    assert (decision.verdict, decision.action) == ("insufficient_evidence", "keep")
    assert decision.reasons == (
        "quality.basics: insufficient_n: 60 of 300 pairs, difference 0 [-0.0265, 0.0265] against -0.05; "
        "about 240 more pairs needed",
    )


def test_an_empty_folder_is_insufficient_and_names_every_missing_kind_once(folder, tmp_path):
    decision = folder.decide(evidence=EvidenceSet(()))
    assert decision.verdict == "insufficient_evidence"
    assert decision.reasons == (
        "benchmark: no_evidence: no admissible candidate measurement",
        "quality: no_evidence: no admissible candidate measurement",
    )
    assert decision.expires_at == ""
    assert decision.record["first_reason"] == "benchmark: no_evidence"


def test_a_failing_rule_of_a_kind_that_is_not_required_rejects(folder):
    folder.both().quality("candidate", [0.0] * 60)
    policy = folder.policy.replace("[benchmark, quality]", "[benchmark]")
    assert folder.decide(policy=policy).verdict == "reject"


def test_an_unknown_rule_of_a_kind_that_is_not_required_blocks_nothing(folder):
    for role in ("baseline", "candidate"):
        folder.benchmark(role, folder.seconds(150, seed=len(role)))
    assert folder.decide(policy=folder.policy.replace("[benchmark, quality]", "[benchmark]")).verdict == "promote"


def test_hard_fails_come_before_soft_ones_and_fails_before_unknowns(folder):
    folder.both().quality("candidate", [0.0] * 60)
    folder.benchmark("candidate", folder.seconds(150), failed=60)
    policy = """\
schema: infercrane.policy/v1
required_kinds: [benchmark, quality]
rules:
  - {id: benchmark.ttft_p95}
  - {id: benchmark.error_fraction, class: S}
  - {id: quality.basics}
"""
    assert [line.split(":")[0] for line in folder.decide(policy=policy).reasons] == [
        "quality.basics",
        "benchmark.error_fraction",
        "benchmark.ttft_p95",
    ]


def test_the_earliest_gate_comes_first(folder):
    folder.both()
    folder.policy = folder.policy.replace("min_pass: 100, ", "")
    raw = folder.root / "quality-candidate.quality.jsonl"
    raw.write_bytes(b"")
    assert [line.split(": ")[:2] for line in folder.decide().reasons] == [
        ["quality", "tampered"],
        ["benchmark.ttft_p95", "insufficient_n"],
    ]


def test_a_doubtful_fail_among_many_rules_is_not_confirmed(folder):
    for role, failed in (("baseline", 0), ("candidate", 13)):
        folder.benchmark(role, folder.seconds(150, seed=len(role)), failed=failed)
        folder.quality(role)
    alone = folder.policy.replace("[benchmark, quality]", "[benchmark]").partition("  - {id: benchmark.ttft")[0]
    assert folder.decide(policy=alone).verdict == "reject"
    beside = alone + "".join(
        f"  - {{id: quality.basics{part}, margin: 0.05}}\n" for part in ("", ".invalid", ".truncated")
    )
    decision = folder.decide(policy=beside)
    assert decision.verdict == "insufficient_evidence"
    assert decision.record["rules"][0]["reasons"] == ["fail_unconfirmed"]


def test_several_looks_split_alpha(folder):
    folder.both()
    narrow = folder.decide().record["rules"][0]["hi"]
    wide = folder.decide(policy=folder.policy + "max_looks: 5\n").record["rules"][0]["hi"]
    assert wide > narrow


# --- kinds that the change needs --------------------------------------------------------------------------------

WAIVER = (
    "waivers:\n  - {{rule: {rule}, reason: known, owner: ann, expires_at: {until}, revision_digest: '{revision}'}}\n"
)
BY_CHANGE = """\
schema: infercrane.policy/v1
required_kinds: by_change
rules:
  - {id: benchmark.error_fraction, limit: 0.05}
  - {id: quality.basics, margin: 0.05, min_pass: 60}
  - {id: replay.new_error_fraction}
  - {id: reliability.error_fraction}
  - {id: cost.per_million_output_tokens}
"""


@pytest.mark.parametrize(
    ("changes", "fields", "classes", "kinds"),
    [
        ({"engine": {"name": "sglang", "version": "0.5", "args_digest": DIGEST}}, ["engine"], ["runtime"], "bqr"),
        ({"quantization": "q4"}, ["quantization"], ["model"], "bqrp"),
        ({"region": "eu"}, ["region"], ["accelerator"], "bcqr"),
        ({"parallelism": {"tp": 2, "pp": 1, "dp": 1, "ep": 1}}, ["parallelism"], ["runtime"], "bqr"),
        ({"region": "eu", "quantization": "q4"}, ["quantization", "region"], ["model", "accelerator"], "bcqrp"),
    ],
)
def test_the_change_says_which_kinds_are_required(folder, subject_of, changes, fields, classes, kinds):
    folder.subjects["candidate"] = subject_of("r1", **changes)
    record = folder.every_kind().decide(policy=BY_CHANGE).record
    assert (record["change"], record["change_classes"]) == (fields, classes)
    names = {"b": "benchmark", "c": "cost", "q": "quality", "r": "reliability", "p": "replay"}
    assert record["required_kinds"] == sorted(names[one] for one in kinds)
    assert record["verdict"] == "promote"


def test_a_change_nobody_knows_needs_every_kind(folder):
    folder.reliability()  # says what the candidate is; nothing says what the active one is
    record = folder.decide(policy=BY_CHANGE).record
    assert (record["change"], record["change_classes"]) == ([], [])
    assert record["required_kinds"] == ["benchmark", "cost", "quality", "reliability", "replay"]
    assert record["verdict"] == "insufficient_evidence"


def test_a_kind_the_change_does_not_need_may_be_missing_but_not_fail(folder):
    folder.both().reliability()
    assert folder.decide(policy=BY_CHANGE).verdict == "promote"
    folder.cost("baseline")
    folder.cost("candidate", price=9)
    assert folder.decide(policy=BY_CHANGE).verdict == "reject"


def test_evidence_that_was_tampered_with_does_not_say_what_changed(folder):
    folder.both().reliability()
    for path in folder.root.glob("*.jsonl"):
        path.write_bytes(path.read_bytes() + b"\n")
    assert len(folder.decide(policy=BY_CHANGE).record["required_kinds"]) == 5


def test_a_subject_under_a_digest_that_is_not_its_own_does_not_say_what_changed(folder):
    def pretend(envelope):
        envelope["subject"] = folder.subjects["baseline"] | {
            "revision_digest": folder.candidate,
            "parallelism": {"tp": 2, "pp": 1, "dp": 1, "ep": 1},
        }

    folder.benchmark("baseline")
    folder.benchmark("candidate", change=pretend)
    record = folder.decide(policy=BY_CHANGE).record
    assert (record["change"], len(record["required_kinds"])) == ([], 5)


@pytest.mark.parametrize(
    ("until", "mine", "state", "verdict"),
    [
        ("2026-12-31T00:00:00Z", True, "applies", "promote"),
        ("2026-11-30T05:00:00Z", True, "expired", "insufficient_evidence"),
        ("2026-12-31T00:00:00Z", False, "other_revision", "insufficient_evidence"),
    ],
)
def test_a_waiver_takes_away_a_kind_of_one_revision_for_a_time(folder, until, mine, state, verdict):
    waiver = WAIVER.format(rule="reliability", until=until, revision=folder.candidate if mine else DIGEST)
    record = folder.both().decide(policy=BY_CHANGE + waiver).record
    assert (record["verdict"], record["waivers"][0]["state"]) == (verdict, state)
    assert record["required_kinds"] == ["benchmark", "quality", "reliability"]


def test_a_decision_ends_with_the_waiver_of_a_kind(folder):
    waiver = WAIVER.format(rule="reliability", until="2026-12-01T00:00:00Z", revision=folder.candidate)
    assert folder.both().decide(policy=BY_CHANGE + waiver).expires_at == "2026-12-01T00:00:00Z"
    second = waiver.replace("2026-12-01", "2026-12-02").removeprefix("waivers:\n")
    for both in (waiver + second, "waivers:\n" + second + waiver.removeprefix("waivers:\n")):
        assert folder.decide(policy=BY_CHANGE + both).expires_at == "2026-12-02T00:00:00Z"
    unneeded = waiver.replace("reliability", "cost")
    folder.reliability()
    assert folder.decide(policy=BY_CHANGE + unneeded).expires_at == "2026-12-07T04:02:00Z"


def test_a_kind_that_need_not_be_there_may_not_fail(folder):
    waiver = WAIVER.format(rule="reliability", until="2026-12-31T00:00:00Z", revision=folder.candidate)
    folder.both().reliability(failed=60)
    assert folder.decide(policy=BY_CHANGE + waiver).verdict == "reject"


def test_every_kind_together_promotes_and_each_can_reject(folder):
    every = BY_CHANGE.replace("by_change", "[benchmark, cost, quality, reliability, replay]")
    assert folder.every_kind().decide(policy=every).verdict == "promote"
    folder.replay("candidate", lines=lambda lines: [line.update(outcome="http_error") for line in lines[:14]])
    decision = folder.decide(policy=every)
    assert (decision.verdict, decision.record["first_reason"]) == (
        "reject",
        "replay.new_error_fraction: margin_exceeded",
    )


# --- the record -------------------------------------------------------------------------------------------------


def test_the_record_is_the_same_bytes_wherever_it_is_made(folder, new_folder):
    first = folder.both().decide()
    elsewhere = new_folder().both()
    assert elsewhere.decide().canonical == first.canonical


def test_the_record_is_the_same_bytes_in_another_process(folder):
    decision = folder.both().decide()
    script = (
        "import sys; from pathlib import Path; from pulumi_infercrane.guard import *\n"
        "p, root, c, b, t = sys.argv[1:]\n"
        "asked = {'service': 'chat', 'stack': 'dev', 'candidate': c, 'baseline': b, 'as_of': t}\n"
        "d = decide(load_policy(p), load_evidence(Path(root)), **asked)\n"
        "sys.stdout.buffer.write(d.canonical)"
    )
    arguments = [folder.policy, str(folder.root), folder.candidate, folder.baseline, AS_OF]
    run = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, check=True)
    assert run.stdout == decision.canonical


def test_the_order_of_envelopes_does_not_matter(folder):
    folder.both()
    evidence = load_evidence(folder.root)
    backwards = EvidenceSet(evidence.items[::-1])
    assert folder.decide(evidence=backwards).canonical == folder.decide(evidence=evidence).canonical


def test_names_of_files_do_not_matter(folder):
    first = folder.both().decide()
    for reference in reference_folder(folder.root):
        path = folder.root / reference.path
        path.rename(path.with_name("renamed-" + path.name))
    assert folder.decide().canonical == first.canonical


def test_the_id_is_the_digest_of_the_rest(folder):
    record = dict(folder.both().decide(previous_decision_id=DIGEST).record)
    assert record.pop("decision_id") == digest(record)
    assert record["prev_decision_id"] == DIGEST


def test_the_record_holds_no_place_and_no_host(folder):
    text = folder.both().decide().canonical.decode()
    assert str(folder.root) not in text
    assert str(folder.root.parent) not in text


def test_the_record_names_what_it_rests_on(folder):
    decision = folder.both().decide()
    record = decision.record
    assert record["schema"] == "infercrane.decision/v1"
    assert (record["candidate"], record["baseline"]) == (folder.candidate, folder.baseline)
    assert record["expected_active"] == folder.baseline
    assert record["policy_digest"] == decision.policy_digest == load_policy(folder.policy).digest
    assert record["evidence_digest"] == decision.evidence_digest == load_evidence(folder.root).digest
    assert record["required_kinds"] == ["benchmark", "quality"]
    assert record["change"] == ["engine"]
    assert all(one["used"] for one in record["evidence"])
    assert len(record["evidence"]) == 4


def test_the_record_of_a_rule(folder):
    """What is not known has no key."""
    policy = folder.policy.replace("limit: 0.05", "limit: 0.01, class: S")
    judged, *_ = folder.both().decide(policy=policy).record["rules"]
    assert judged == {
        "rule": "benchmark.error_fraction",
        "class": "S",
        "required": True,
        "outcome": "unknown",
        "reasons": ["insufficient_n"],
        "detail": "150 of 299 requests, share 0 [0, 0.0198] against 0.01",
        "needs": "about 149 more requests needed",
        "method": "clopper_pearson",
        "n": [150],
        "estimate": 0.0,
        "lo": 0.0,
        "hi": 0.0197734382,
        "limit": 0.01,
        "min_pass": 1,
        "min_compute": 1,
        "evidence": judged["evidence"],
    }
    (folder.root / "quality-candidate.evidence.json").unlink()
    *_, missing = folder.decide(policy=policy).record["rules"]
    assert missing == {
        "rule": "quality.basics",
        "class": "H",
        "required": True,
        "outcome": "unknown",
        "reasons": ["no_evidence"],
        "detail": "no admissible candidate measurement",
        "needs": "a measurement that holds it",
        "min_pass": 60,
        "min_compute": 30,
        "notes": missing["notes"],
    }


def test_the_record_says_what_a_piece_replaces(folder):
    old = folder.both().benchmark("candidate", folder.seconds(150, seed=3), name="old")
    named = [{"evidence_id": json.loads(old.read_text())["evidence_id"], "reason": "the cable was loose"}]
    folder.benchmark("candidate", folder.seconds(150, seed=9), change=lambda e: e.update(supersedes=named))
    pieces = folder.decide().record["evidence"]
    assert [piece["supersedes"] for piece in pieces if "supersedes" in piece] == [named]


def test_lowered_minimums_are_visible(folder):
    record = folder.both().decide(policy=folder.policy + "min_duration_s: 10\n").record
    assert record["notes"] == ["lowered_minimum: min_duration_s 10 instead of 60"]
    assert record["rules"][2]["notes"][0] == "lowered_minimum: min_pass 60 instead of 300"


def test_a_decision_expires_with_the_first_piece_of_evidence_it_used(folder):
    assert folder.both().decide().expires_at == "2026-12-07T04:02:00Z"
    shorter = folder.policy + "max_age: {quality: 2h}\n"
    assert folder.decide(policy=shorter).expires_at == "2026-11-30T06:02:00Z"


def test_numbers_are_stored_at_nine_digits(folder):
    for rule in folder.both().decide().record["rules"]:
        for name in ("estimate", "lo", "hi", "limit"):
            assert rule[name] == float(f"{rule[name]:.9g}")


def test_the_record_survives_json(folder):
    decision = folder.both().decide()
    folder.benchmark("candidate", folder.seconds(150), failed=60)  # infinite quantiles
    for one in (decision, folder.decide()):
        assert json.loads(one.canonical) == one.record


def test_the_guard_version_is_that_of_the_distribution():
    assert version("pulumi-infercrane") == GUARD_VERSION


# --- refused questions ------------------------------------------------------------------------------------------


def test_a_revision_is_not_compared_with_itself(folder):
    with pytest.raises(GuardError, match="nothing to decide"):
        folder.both().decide(candidate=folder.baseline)


def test_a_policy_of_another_service_is_refused(folder):
    with pytest.raises(PolicyError, match="for service 'search', not for 'chat'"):
        folder.both().decide(policy=folder.policy + "service: search\n")


@pytest.mark.parametrize("as_of", ["", "2026-11-30", "2026-11-30T05:00:00+01:00"])
def test_a_time_without_utc_is_refused(folder, as_of):
    with pytest.raises(GuardError, match="as_of"):
        folder.both().decide(as_of=as_of)


def test_what_is_settled_needs_nothing(folder):
    rules = folder.both().decide().record["rules"]
    assert all("needs" not in rule for rule in rules if rule["outcome"] in ("pass", "fail"))


def test_a_rule_that_failed_must_be_answered_even_where_nobody_requires_its_kind(folder):
    """Waiting until the evidence is too old is no answer."""
    policy = folder.policy.replace("[benchmark, quality]", "[quality]") + "max_age: {quality: 30d}\n"
    folder.both()
    folder.benchmark("candidate", failed=90)
    rejected = folder.decide(policy=policy)
    later = {"policy": policy, "history": [rejected.record], "as_of": "2026-12-09T05:00:00Z"}
    decision = folder.decide(**later)
    assert (rejected.verdict, decision.verdict) == ("reject", "insufficient_evidence")
    assert decision.record["first_reason"] == "benchmark: stale"
    assert {rule["rule"]: rule["required"] for rule in decision.record["rules"]} == {
        "benchmark.error_fraction": True,
        "benchmark.ttft_p95": True,
        "quality.basics": True,
    }
