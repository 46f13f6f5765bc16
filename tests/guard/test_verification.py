"""A decision can be computed again by somebody else, and a difference is named."""

import json

import pytest

from pulumi_infercrane.guard import GuardError, Ledger, LedgerError, bootstrap, load_evidence, load_policy, rollback
from pulumi_infercrane.guard.verification import Past, archive_of, differences, recompute

DIGEST = "sha256:" + "0" * 64
COMMON = {"service": "chat", "stack": "dev", "as_of": "2026-11-30T05:00:00Z"}


def again(folder, record, **changes):
    return recompute(record, load_policy(folder.policy), load_evidence(folder.root), **changes)


def test_a_promotion_is_computed_again(folder):
    decision = folder.both().decide(previous_decision_id=DIGEST)
    assert again(folder, json.loads(decision.canonical)).canonical == decision.canonical


def test_evidence_that_came_later_does_not_disturb(folder):
    decision = folder.both().decide()
    folder.quality("candidate", [0.0] * 60, name="later")
    assert again(folder, decision.record).canonical == decision.canonical


def test_evidence_that_is_gone_is_named(folder):
    decision = folder.both().decide()
    (folder.root / "quality-baseline.evidence.json").unlink()
    with pytest.raises(GuardError, match=r"is gone or was changed \(1 of them\)"):
        again(folder, decision.record)


def test_a_changed_file_gives_another_decision(folder):
    decision = folder.both().decide()
    raw = folder.root / "quality-candidate.quality.jsonl"
    raw.write_bytes(raw.read_bytes() + b"\n")
    assert again(folder, decision.record).verdict == "insufficient_evidence"


def test_earlier_decisions_are_needed_when_they_were_used(folder):
    first = folder.both().decide()
    second = folder.decide(history=[first.record], as_of="2026-11-30T06:00:00Z")
    with pytest.raises(GuardError, match="give the ledger"):
        again(folder, second.record)
    assert again(folder, second.record, history=[first.record]).canonical == second.canonical


def test_bootstrap_and_rollback_are_computed_again(folder):
    folder.both().policy += "bootstrap: true\n"
    first = bootstrap(load_policy(folder.policy), candidate=DIGEST, **COMMON)
    assert again(folder, first.record).canonical == first.canonical
    back = rollback(target=DIGEST, active=folder.candidate, policy_digest=DIGEST, reason="slow: p95", **COMMON)
    assert again(folder, back.record).canonical == back.canonical


def test_an_unknown_type_of_decision_is_refused(folder):
    record = dict(folder.both().decide().record) | {"decision_type": "coronation"}
    with pytest.raises(GuardError, match="'coronation' are not known"):
        again(folder, record)


def test_an_override_without_its_order_is_refused(folder):
    record = dict(folder.both().decide().record) | {"decision_type": "override"}
    with pytest.raises(GuardError, match="not an override"):
        again(folder, record)


def test_differences_are_named_by_field():
    recorded = {"verdict": "promote", "rules": [{"lo": 1}, {"lo": 2}], "notes": ["a"], "same": 1}
    computed = {"verdict": "reject", "rules": [{"lo": 1}, {"lo": 3}], "notes": [], "same": 1, "new": 1}
    assert list(differences(recorded, computed)) == [
        "new: None recorded, 1 computed",
        "notes: ['a'] recorded, [] computed",
        "rules[1].lo: 2 recorded, 3 computed",
        "verdict: 'promote' recorded, 'reject' computed",
    ]


def test_an_archive_reads_what_one_record_saw(folder):
    decision = folder.both().decide()
    folder.quality("candidate", [0.0] * 60, name="later")
    archive = archive_of(folder.root)
    assert archive.holds(decision.record)
    assert {item.path for item in archive.read(decision.record).items} == {
        f"{kind}-{role}.evidence.json" for kind in ("benchmark", "quality") for role in ("candidate", "baseline")
    }


def test_an_archive_opens_no_file_before_it_is_asked(folder):
    decision = folder.both().decide()
    archive = archive_of(folder.root)
    for path in folder.root.glob("*.jsonl"):
        path.unlink()
    assert [item.problem.code for item in archive.read(decision.record).items] == ["tampered"] * 4


def test_an_archive_notices_what_is_missing(folder):
    decision = folder.both().decide()
    (folder.root / "quality-baseline.evidence.json").unlink()
    archive = archive_of(folder.root)
    assert not archive.holds(decision.record)
    assert len(archive.read(decision.record).items) == 3


def test_the_past_is_read_by_name(folder, tmp_path):
    ledger = Ledger(tmp_path / "ledger.jsonl")
    first = folder.both().decide()
    second = folder.decide(history=[first.record], as_of="2026-11-30T06:00:00Z")
    past = Past(ledger)
    for decision in (first, second):
        past.add(ledger.append(decision.record))
    assert past.read(second.record) == [first.record]
    assert past.read(first.record) == []
    ledger.path.write_bytes(b"")
    with pytest.raises(LedgerError, match="changed while it was read"):
        past.read(second.record)
