"""What a decision leaves in the checked inputs of a Release."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pulumi_infercrane.guard import Decision

DECISION_FIELDS = (
    "verdict",
    "action",
    "decisionType",
    "decisionId",
    "decisionTarget",
    "evidenceDigest",
    "policyDigest",
    "reasons",
    "expiresAt",
    "decidedAt",
)
"""What a decision leaves in the checked inputs; carried over unchanged while its question stays the same."""

Fields = dict[str, Any]
Problem = tuple[str, str]


@dataclass(frozen=True)
class Outcome:
    """Fields for the checked inputs, the record when a new decision was made, and what makes the request unsafe."""

    fields: Fields = field(default_factory=dict)
    decision: Decision | None = None
    problems: tuple[Problem, ...] = ()


def decided(decision: Decision, *, active: str, previous: str, new: bool = True) -> Outcome:
    """A decision that moves the route to `active`, new or in the ledger already."""
    fields = fields_of(decision) | {
        "activeRevision": active,
        "previousRevision": previous,
        "decisionTarget": active,
    }
    return Outcome(fields, decision if new else None)


def kept(decision: Decision, old: Mapping[str, Any], *, new: bool = True) -> Outcome:
    """A decision under which the active revision stays, new or in the ledger already."""
    active = old["activeRevision"]
    fields = fields_of(decision) | {
        "activeRevision": active,
        "previousRevision": old.get("previousRevision", ""),
        "decisionTarget": active,
    }
    return Outcome(fields, decision if new else None)


def fields_of(decision: Decision) -> Fields:
    """A decision on the wire."""
    return {
        "verdict": decision.verdict,
        "action": decision.action,
        "decisionType": decision.decision_type,
        "decisionId": decision.decision_id,
        "evidenceDigest": decision.evidence_digest,
        "policyDigest": decision.policy_digest,
        "reasons": list(decision.reasons),
        "expiresAt": decision.expires_at or "",
        "decidedAt": decision.record["as_of"],
        "weights": shares(decision.record.get("weights", {})),
    }


def shares(weights: Mapping[str, int]) -> dict[str, int]:
    """Percent by revision where a candidate has a share; empty when one revision has everything."""
    return dict(weights) if len(weights) > 1 else {}


def nothing_to_decide(old: Mapping[str, Any]) -> Fields:
    """The decision behind the active revision stays; what was said about a candidate that is gone does not.

    A stored decision that aimed at another revision says nothing about this one (trap T4).
    """
    active = old["activeRevision"]
    if old.get("decisionTarget") != active:
        reason = "the route was moved by hand: no decision stands behind the active revision"
        return _undecided(old, decisionType="unguarded", reasons=[reason])
    if old.get("verdict") in ("reject", "insufficient_evidence"):
        return _undecided(old)
    return carried(old)


def _undecided(old: Mapping[str, Any], **more: Any) -> Fields:
    nothing: Fields = dict.fromkeys(DECISION_FIELDS, "") | {"reasons": [], "decisionTarget": old["activeRevision"]}
    return carried(old) | nothing | more


def carried(old: Mapping[str, Any]) -> Fields:
    """The last decision, again."""
    return {name: old.get(name, "") for name in DECISION_FIELDS} | {
        "weights": old.get("weights") or {},
        "reasons": list(old.get("reasons") or []),
        "activeRevision": old["activeRevision"],
        "previousRevision": old.get("previousRevision", ""),
    }
