"""Decisions that need no evidence: the first revision of a service, and the way back."""

import json

import pytest

from pulumi_infercrane.guard import (
    EvidenceSet,
    GuardError,
    PolicyError,
    bootstrap,
    load_evidence,
    load_policy,
    rollback,
)
from pulumi_infercrane.guard.decision import GUARD_VERSION
from pulumi_infercrane.guard.verification import recompute
from tests.guard.trust.conftest import entry, key_of, sign

DIGEST = "sha256:" + "0" * 64
AS_OF = "2026-11-30T05:00:00Z"


def test_the_first_revision_needs_the_policys_permission(folder):
    arguments = {"service": "chat", "stack": "dev", "candidate": DIGEST, "as_of": AS_OF}
    with pytest.raises(PolicyError, match="needs 'bootstrap: true'"):
        bootstrap(load_policy(folder.policy), **arguments)
    decision = bootstrap(load_policy(folder.policy + "bootstrap: true\n"), **arguments)
    assert (decision.decision_type, decision.verdict, decision.action) == ("bootstrap", "promote", "flip")
    assert {rule["outcome"] for rule in decision.record["rules"]} == {"not_applicable"}
    assert (decision.expires_at, decision.evidence_digest) == ("", "")


def test_a_rollback_needs_no_evidence_but_a_reason():
    arguments = {"service": "chat", "stack": "dev", "active": DIGEST, "policy_digest": DIGEST, "as_of": AS_OF}
    target = "sha256:" + "1" * 64
    decision = rollback(target=target, reason="users saw garbage ", **arguments)
    assert (decision.decision_type, decision.verdict, decision.action) == ("rollback", "promote", "flip")
    assert decision.reasons == ("rollback: users saw garbage",)
    assert (decision.record["candidate"], decision.record["expected_active"]) == (target, DIGEST)
    with pytest.raises(GuardError, match="needs a reason"):
        rollback(target=target, reason=" ", **arguments)
    with pytest.raises(GuardError, match="already serves"):
        rollback(target=DIGEST, reason="x", **arguments)


def test_the_record_of_a_first_revision(folder):
    policy = load_policy(folder.policy.replace("quality.basics,", "quality.basics, class: S,") + "bootstrap: true\n")
    decision = bootstrap(
        policy, service="chat", stack="dev", candidate=folder.candidate, as_of=AS_OF, previous_decision_id=DIGEST
    )
    reason = "bootstrap: first revision of service 'chat', nothing to compare it with; the policy allows it"
    assert decision.record == {
        "schema": "infercrane.decision/v1",
        "guard_version": GUARD_VERSION,
        "decision_type": "bootstrap",
        "verdict": "promote",
        "action": "flip",
        "service": "chat",
        "stack": "dev",
        "as_of": AS_OF,
        "candidate": folder.candidate,
        "policy_digest": policy.digest,
        "prev_decision_id": DIGEST,
        "required_kinds": [],
        "rules": [
            {"rule": rule, "class": weight, "outcome": "not_applicable", "reasons": ["bootstrap"]}
            for rule, weight in (
                ("benchmark.error_fraction", "H"),
                ("benchmark.ttft_p95", "H"),
                ("quality.basics", "S"),
            )
        ],
        "evidence": [],
        "reasons": [reason],
        "first_reason": "bootstrap",
        "decision_id": decision.decision_id,
    }


FIRST = """\
schema: infercrane.policy/v1
bootstrap: BOOTSTRAP
required_kinds: [benchmark]
rules:
  - {id: benchmark.error_fraction, limit: 0.05}
  - {id: benchmark.ttft_p95, margin: 1.0}
  - {id: reliability.error_fraction, class: S}
  - {id: reliability.crashes}
"""
ALLOWED = FIRST.replace("BOOTSTRAP", "true")
SOAKED = FIRST.replace("BOOTSTRAP", "{required_kinds: [reliability]}")


def first(folder, policy=ALLOWED, **changes):
    """The decision on the first revision, with what the folder holds about it."""
    folder.root.mkdir(exist_ok=True)
    asked = {"service": "chat", "stack": "dev", "candidate": folder.candidate, "as_of": AS_OF}
    return bootstrap(load_policy(policy), load_evidence(folder.root), **(asked | changes))


def outcomes(decision):
    return {rule["rule"]: f"{rule['outcome']} {rule['reasons'][0]}" for rule in decision.record["rules"]}


def test_limits_are_judged_on_whatever_evidence_there_is(folder):
    folder.benchmark("candidate")
    decision = first(folder)
    assert (decision.verdict, decision.action) == ("promote", "flip")
    assert outcomes(decision) == {
        "benchmark.error_fraction": "pass within_margin",
        "benchmark.ttft_p95": "not_applicable bootstrap",
        "reliability.error_fraction": "not_applicable bootstrap",
        "reliability.crashes": "not_applicable bootstrap",
    }
    assert (decision.record["first_reason"], decision.expires_at) == ("bootstrap", "2026-12-07T04:02:00Z")
    assert decision.reasons[1].startswith("benchmark.error_fraction: within_margin")


def test_a_first_revision_that_breaks_a_limit_does_not_serve(folder):
    folder.benchmark("candidate", failed=60)
    decision = first(folder)
    assert (decision.verdict, decision.action, decision.decision_type) == ("reject", "keep", "bootstrap")
    assert decision.record["first_reason"] == "benchmark.error_fraction: limit_exceeded"
    assert len(decision.reasons) == 1


def test_evidence_that_settles_nothing_is_no_bar_unless_it_is_required(folder):
    folder.reliability(n=20)
    assert (first(folder).verdict, first(folder, SOAKED).verdict) == ("promote", "insufficient_evidence")


def test_what_the_policy_requires_of_a_first_revision_must_be_there(folder):
    decision = first(folder, SOAKED)
    assert (decision.verdict, decision.action) == ("insufficient_evidence", "keep")
    assert decision.reasons == ("reliability: no_evidence: no admissible candidate measurement",)
    assert decision.record["required_kinds"] == ["reliability"]
    folder.reliability(n=900)
    assert first(folder, SOAKED).verdict == "promote"
    folder.reliability(n=900, header={"crashes": 1})
    assert first(folder, SOAKED).verdict == "reject"


def test_evidence_about_another_revision_is_listed_and_says_nothing(folder):
    folder.benchmark("baseline", failed=60)
    decision = first(folder)
    assert decision.verdict == "promote"
    (entry,) = decision.record["evidence"]
    assert "compared with nothing" in entry["reasons"][0]


def test_a_kind_may_be_waived_for_a_first_revision_and_the_decision_ends_with_the_waiver(folder):
    waiver = {"reason": "cluster of one", "owner": "ann", "expires_at": "2026-12-01T00:00:00Z"}
    named = waiver | {"rule": "reliability", "revision_digest": folder.candidate}
    decision = first(folder, f"{SOAKED}waivers: [{json.dumps(named)}]\n")
    assert (decision.verdict, decision.expires_at) == ("promote", "2026-12-01T00:00:00Z")


def test_the_record_names_its_evidence_and_what_the_policy_added(folder):
    folder.reliability(n=900)
    waiver = {"reason": "cluster of one", "owner": "ann", "expires_at": "2026-12-01T00:00:00Z"}
    named = waiver | {"rule": "reliability.crashes", "revision_digest": folder.candidate}
    lowered = ALLOWED + "min_duration_s: 30\n"
    record = first(folder, f"{lowered}waivers: [{json.dumps(named)}]\n").record
    assert record["evidence_digest"] == load_evidence(folder.root).digest
    assert [one["rule"] for one in record["waivers"]] == ["reliability.crashes"]
    assert record["notes"] == list(load_policy(lowered).notes) != []
    assert "signers" not in record


def test_whose_signature_counted_is_in_the_record_of_a_first_revision(folder):
    bench = key_of("bench")
    sign(folder.benchmark("candidate"), bench)
    trust = json.dumps({"keys": [entry(bench)]})
    assert first(folder, f"{ALLOWED}trust: {trust}\n").record["signers"] == [bench.id]


def test_only_earlier_decisions_on_this_revision_count(folder, new_folder):
    other = new_folder(candidate="r9")
    other.benchmark("candidate", failed=60)
    folder.benchmark("candidate")
    decision = first(folder, history=[first(other).record])
    assert (decision.verdict, "history" in decision.record) == ("promote", False)


def test_evidence_of_a_kind_about_another_revision_asks_for_none_of_it(folder):
    folder.reliability("candidate")
    other = folder.subjects["candidate"]
    folder.subjects["candidate"] = folder.subjects["baseline"]
    decision = first(folder)
    assert other != folder.subjects["candidate"]
    assert outcomes(decision)["reliability.crashes"] == "not_applicable bootstrap"


def test_a_file_that_is_no_envelope_is_listed_and_stops_nothing(folder):
    folder.benchmark("candidate")
    (folder.root / "broken.evidence.json").write_text("{")
    decision = first(folder)
    assert decision.verdict == "promote"
    assert "not_json" in str(decision.record["evidence"])


def test_what_rejected_a_first_revision_may_not_disappear(folder):
    path = folder.benchmark("candidate", failed=60)
    rejected = first(folder)
    path.unlink()
    decision = first(folder, history=[rejected.record])
    assert decision.verdict == "insufficient_evidence"
    assert decision.record["first_reason"] == "benchmark: evidence_withdrawn"
    assert decision.record["history"] == [rejected.decision_id]


def test_what_rejected_a_first_revision_is_not_forgotten_when_it_is_too_old(folder):
    folder.benchmark("candidate", failed=60)
    rejected = first(folder)
    decision = first(folder, history=[rejected.record], as_of="2026-12-09T05:00:00Z")
    assert (decision.verdict, decision.record["first_reason"]) == ("insufficient_evidence", "benchmark: stale")


def test_what_rejected_a_first_revision_is_asked_for_when_evidence_of_another_kind_replaced_it(folder):
    """No piece of its kind is left to remind of it, and none is required."""
    soak = folder.reliability(failed=60)
    rejected = first(folder)
    named = [{"evidence_id": json.loads(soak.read_text())["evidence_id"], "reason": "wrong data set"}]
    soak.unlink()
    folder.benchmark("candidate", change=lambda envelope: envelope.update(supersedes=named))
    decision = first(folder, history=[rejected.record])
    assert (rejected.verdict, decision.verdict) == ("reject", "insufficient_evidence")
    assert outcomes(decision)["reliability.error_fraction"] == "unknown no_evidence"
    assert first(folder).verdict == "promote"


def test_what_would_reject_a_first_revision_is_not_spoilt_by_offering_it_for_another(folder):
    folder.benchmark("candidate", failed=60, name="bad")
    folder.write_raw("benchmark", "baseline", "copy", (folder.root / "bad.benchmark.jsonl").read_bytes())
    decision = first(folder)
    assert (decision.verdict, decision.record["first_reason"]) == (
        "insufficient_evidence",
        "benchmark: binding_conflict",
    )


def test_a_decision_on_evidence_about_a_first_revision_is_computed_again(folder):
    folder.reliability(n=900)
    decision = first(folder, SOAKED)
    again = recompute(decision.record, load_policy(SOAKED), load_evidence(folder.root))
    assert again.canonical == decision.canonical
    with pytest.raises(GuardError, match="gone or was changed"):
        recompute(decision.record, load_policy(SOAKED), EvidenceSet(()))


@pytest.mark.parametrize(
    ("bootstrap_of", "message"),
    [
        ("{required_kinds: [quality]}", "no rule with a limit judges 'quality'"),
        ("{required_kinds: [tarot]}", "'tarot' is no kind of evidence, known are benchmark"),
        ("{required: [reliability]}", "unknown key 'required'"),
        ("{}", "'required_kinds' is missing"),
        ("[reliability]", "a single value was expected"),
    ],
)
def test_what_a_policy_cannot_ask_of_a_first_revision(bootstrap_of, message):
    with pytest.raises(PolicyError, match=message):
        load_policy(FIRST.replace("BOOTSTRAP", bootstrap_of))


def test_the_record_of_a_rollback(folder):
    asked = {"service": "chat", "stack": "dev", "as_of": AS_OF, "policy_digest": DIGEST, "previous_decision_id": DIGEST}
    decision = rollback(target=folder.baseline, active=folder.candidate, reason=" users saw garbage", **asked)
    assert decision.record == {
        "schema": "infercrane.decision/v1",
        "guard_version": GUARD_VERSION,
        "decision_type": "rollback",
        "verdict": "promote",
        "action": "flip",
        "service": "chat",
        "stack": "dev",
        "as_of": AS_OF,
        "candidate": folder.baseline,
        "baseline": folder.candidate,
        "expected_active": folder.candidate,
        "policy_digest": DIGEST,
        "prev_decision_id": DIGEST,
        "rules": [],
        "evidence": [],
        "reasons": ["rollback: users saw garbage"],
        "first_reason": "rollback",
        "decision_id": decision.decision_id,
    }


def test_a_policy_that_names_its_service_serves_no_other(folder):
    policy = folder.policy + "bootstrap: true\nservice: chat\n"
    asked = {"stack": "dev", "candidate": folder.candidate, "as_of": AS_OF}
    assert folder.both().decide(policy=policy).verdict == "promote"
    assert bootstrap(load_policy(policy), service="chat", **asked).verdict == "promote"
    with pytest.raises(PolicyError, match="for service 'chat', not for 'search'"):
        folder.decide(policy=policy, service="search")
    with pytest.raises(PolicyError, match="for service 'chat', not for 'search'"):
        bootstrap(load_policy(policy), service="search", **asked)
