"""Which earlier decisions a decision looks at, whose signatures it rests on, and when it ends."""

import json
from types import SimpleNamespace

from pulumi_infercrane.guard import rollback
from pulumi_infercrane.guard.decision import _signers

DIGEST = "sha256:" + "0" * 64


def test_only_decisions_that_concern_the_candidate_are_looked_at(folder, new_folder):
    def back(target, active):
        about = {"service": "chat", "stack": "dev", "policy_digest": DIGEST, "as_of": "2026-11-29T05:00:00Z"}
        return rollback(target=target, active=active, reason="slow", **about).record

    own = folder.both().decide(as_of="2026-11-30T04:10:00Z").record
    from_it, between_others = back(folder.baseline, folder.candidate), back(DIGEST, folder.baseline)
    after = new_folder(candidate="r3", baseline="r2").both()
    on_top = after.decide().record
    assert on_top["baseline"] == folder.candidate
    decision = folder.decide(history=[own, from_it, between_others, on_top])
    assert decision.record["history"] == [own["decision_id"], from_it["decision_id"]]


def test_signers_are_sorted_and_each_named_once():
    keys = [f"key {letter}" for letter in "gcafbedh"]
    envelope = SimpleNamespace(kind="benchmark")
    pieces = [SimpleNamespace(used=True, envelope=envelope, signers=tuple(keys[at:])) for at in range(8)]
    unused = SimpleNamespace(used=False, envelope=envelope, signers=("key x",))
    policy = SimpleNamespace(trust=object(), rules=[envelope])
    assert _signers(policy, SimpleNamespace(pieces=[*pieces, unused])) == sorted(keys)
    assert _signers(SimpleNamespace(trust=None), SimpleNamespace(pieces=pieces)) == ""


def test_evidence_that_was_not_used_ends_nothing(folder):
    """An older piece that another one replaces, and a kind that no rule is about."""
    folder.both()
    ends = folder.decide().expires_at
    early = {"started_at": "2026-11-28T04:00:00Z", "ended_at": "2026-11-28T04:02:00Z"}
    old = folder.benchmark(
        "candidate",
        folder.seconds(150, seed=3),
        name="old",
        header=dict(early),
        change=lambda e: e.update(window=early),
    )
    named = [{"evidence_id": json.loads(old.read_text())["evidence_id"], "reason": "the cable was loose"}]
    folder.benchmark("candidate", folder.seconds(150, seed=9), change=lambda e: e.update(supersedes=named))
    folder.cost("candidate", header=dict(early), change=lambda e: e.update(window=early))
    decision = folder.decide()
    assert [piece["used"] for piece in decision.record["evidence"]].count(False) == 2
    assert decision.expires_at == ends
