"""Decisions that need no evidence: the first revision of a service, and the way back."""

import pytest

from pulumi_infercrane.guard import GuardError, PolicyError, bootstrap, load_policy, rollback
from pulumi_infercrane.guard.decision import GUARD_VERSION

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
        "required_kinds": ["benchmark", "quality"],
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
