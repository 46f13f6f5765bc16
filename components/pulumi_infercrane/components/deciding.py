"""What the Release resource decides: a pure function of old state, declared inputs and files on disk.

No clock, no network. `check` runs inside the provider's Check, in preview and again in `up`, and the command line calls
the same function on what the plan shows; all three must come to the same decision id (pulumi.md 3.2).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pulumi_infercrane.guard import (
    Decision,
    EvidenceReference,
    GuardError,
    Ledger,
    LedgerError,
    Policy,
    bootstrap,
    decide,
    load_evidence,
    load_policy,
    newest_end,
    override,
    read_override,
    rollback,
)
from pulumi_infercrane.guard.canonical import digest_bytes

BEFORE_ALL_EVIDENCE = "1970-01-01T00:00:00Z"
"""`asOf` of a decision that saw no evidence and was given no time: nothing in it can age."""

PREVIOUS = "previous"
"""`rollbackTo` by role instead of digest."""

NO_STEPS = "the policy asks for canary steps, but this route moves as a whole: take 'canary' out of the policy"
NO_WAY_BACK = "no previous revision is recorded; what was rolled back comes again only by new evidence"

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
class Declared:
    """The program's inputs of a Release, read from the wire. Paths are absolute."""

    service: str
    stack: str
    candidate: str
    revisions: tuple[str, ...]
    policy_text: str
    policy_source: str
    evidence_folder: Path
    evidence: tuple[EvidenceReference, ...]
    ledger: Path
    as_of: str = ""
    initial_active: str = ""
    rollback_to: str = ""
    rollback_reason: str = ""
    override: str = ""
    """A signed override, as text."""


@dataclass(frozen=True)
class Outcome:
    """Fields for the checked inputs, the record when a new decision was made, and what makes the request unsafe."""

    fields: Fields = field(default_factory=dict)
    decision: Decision | None = None
    problems: tuple[Problem, ...] = ()


def check(declared: Declared, old: Mapping[str, Any]) -> Outcome:
    """Decide what the Release does. `old` is the last checked input overlaid with the last outputs; empty on create."""
    try:
        old = _caught_up(declared, old)
        problems = _unsafe(declared, old)
        return Outcome(problems=problems) if problems else _decide(declared, old)
    except GuardError as error:
        return Outcome(problems=((_property_of(error), str(error)),))


def _caught_up(declared: Declared, old: Mapping[str, Any]) -> Mapping[str, Any]:
    """State overtaken by a flip whose run was killed before it could write: the router says by which decision.

    Raises:
        LedgerError: the ledger lacks the last decision; deciding without it would forget what was learned.
    """
    if not old.get("activeRevision") or declared.rollback_to:
        return old
    recorded = {entry.decision["decision_id"]: entry.decision for entry in Ledger(declared.ledger).entries()}
    last = old.get("decisionId", "")
    if last and last not in recorded:
        raise LedgerError(f"{declared.ledger} does not hold the last decision {last}: restore it from a copy")
    served = recorded.get(old.get("servedDecision", ""))
    overtaken = old.get("decisionTarget") != old["activeRevision"]
    if not overtaken or served is None or served["candidate"] != old["activeRevision"]:
        return old
    fields = _fields(Decision(served)) | {"decisionTarget": old["activeRevision"]}
    return {**old, **fields, "previousRevision": served.get("baseline", "")}


def _decide(declared: Declared, old: Mapping[str, Any]) -> Outcome:
    active = old.get("activeRevision", "")
    if active and declared.rollback_to:
        return _roll_back(declared, old)
    policy = load_policy(declared.policy_text, declared.policy_source)
    if declared.override:
        return _override(declared, policy, old)
    if not active:
        return _first(declared, policy, old)
    if declared.candidate in ("", active):
        return Outcome(_nothing_to_decide(old))
    return _judge(declared, policy, old)


def _unsafe(declared: Declared, old: Mapping[str, Any]) -> tuple[Problem, ...]:
    active = old.get("activeRevision", "")
    declared_digests = set(declared.revisions)
    problems: list[Problem] = []
    if declared.candidate and declared.candidate not in declared_digests:
        problems.append(("candidate", f"candidate {declared.candidate} is not among the declared revisions"))
    if old and declared.service != old.get("service"):
        problems.append(
            ("service", f"a service cannot be renamed ({old.get('service')} → {declared.service}): declare a new one")
        )
    if active and active not in declared_digests:
        problems.append(
            (
                "revisions",
                f"active revision {active} may not be removed while it serves: declare it again, "
                "or promote another first",
            )
        )
    if not active and len(declared_digests) > 1 and not declared.initial_active:
        problems.append(
            (
                "initialActive",
                "first deployment with more than one revision: say with initialActive which one serves first",
            )
        )
    if declared.initial_active and declared.initial_active not in declared_digests:
        problems.append(
            ("initialActive", f"initialActive {declared.initial_active} is not among the declared revisions")
        )
    return tuple(problems)


def _first(declared: Declared, policy: Policy, old: Mapping[str, Any]) -> Outcome:
    """No revision is known to serve: bootstrap, if the policy allows it. Until it says promote, nothing serves."""
    first = declared.initial_active or declared.revisions[0]
    evidence = load_evidence(declared.evidence_folder, declared.evidence)
    decision = bootstrap(
        policy,
        evidence,
        service=declared.service,
        stack=declared.stack,
        candidate=first,
        as_of=declared.as_of or newest_end(evidence) or BEFORE_ALL_EVIDENCE,
        history=[entry.decision for entry in Ledger(declared.ledger).entries()],
    )
    if decision.verdict == "promote":
        return _decided(decision, active=first, previous="")
    before = old.get("initialActive") or next(iter(old.get("revisions") or ()), "")
    if before == first and _says_the_same(decision, declared, old):
        return Outcome(_carried(old))
    return _decided(decision, active="", previous="")


def _roll_back(declared: Declared, old: Mapping[str, Any]) -> Outcome:
    """Back to the previous revision. What may be broken in an emergency is not needed: evidence, a valid policy.

    There is no way forward again but new evidence, so nothing is left to roll back to.
    """
    active, previous = old["activeRevision"], old.get("previousRevision", "")
    target = previous if declared.rollback_to == PREVIOUS else declared.rollback_to
    if target == active:
        return Outcome(_nothing_to_decide(old))
    if not target or target != previous:
        known = f"the previous revision is {previous}" if previous else NO_WAY_BACK
        return Outcome(problems=(("rollbackTo", f"no rollback to {target or PREVIOUS}: {known}"),))
    if target not in declared.revisions:
        return Outcome(problems=(("rollbackTo", f"previous revision {target} is no longer declared"),))
    decision = rollback(
        service=declared.service,
        stack=declared.stack,
        target=target,
        active=active,
        policy_digest=digest_bytes(declared.policy_text.encode()),
        as_of=declared.as_of or BEFORE_ALL_EVIDENCE,
        reason=declared.rollback_reason,
        previous_decision_id=old.get("decisionId", ""),
    )
    return _decided(decision, active=target, previous="")


def _override(declared: Declared, policy: Policy, old: Mapping[str, Any]) -> Outcome:
    """To where a signed order says. Evidence may be broken; the policy may not, for it says whose orders count."""
    active, asked = old.get("activeRevision", ""), read_override(declared.override)
    target = asked.order.target
    if not active:
        return Outcome(problems=(("override", "nothing serves yet: say with initialActive which one serves first"),))
    if target == active:
        return Outcome(_nothing_to_decide(old))
    if target not in declared.revisions:
        return Outcome(problems=(("override", f"revision {target} is not among the declared revisions"),))
    decision = override(
        policy,
        asked,
        service=declared.service,
        stack=declared.stack,
        active=active,
        as_of=declared.as_of,
        previous_decision_id=old.get("decisionId", ""),
        history=[entry.decision for entry in Ledger(declared.ledger).entries()],
    )
    return _decided(decision, active=target, previous=active)


def _judge(declared: Declared, policy: Policy, old: Mapping[str, Any]) -> Outcome:
    """A candidate beside the active revision: ask the guard, unless it was asked the same before."""
    if policy.canary:
        return Outcome(problems=(("policy", NO_STEPS),))
    active = old["activeRevision"]
    evidence = load_evidence(declared.evidence_folder, declared.evidence)
    as_of = declared.as_of or newest_end(evidence) or BEFORE_ALL_EVIDENCE
    decision = decide(
        policy,
        evidence,
        service=declared.service,
        stack=declared.stack,
        candidate=declared.candidate,
        baseline=active,
        as_of=as_of,
        history=[entry.decision for entry in Ledger(declared.ledger).entries()],
        previous_decision_id=old.get("decisionId", ""),
    )
    if decision.verdict == "promote":
        return _decided(decision, active=declared.candidate, previous=active)
    if _says_the_same(decision, declared, old):
        return Outcome(_carried(old))
    return _kept(decision, old)


def _says_the_same(decision: Decision, declared: Declared, old: Mapping[str, Any]) -> bool:
    """The same question as last time, with the same answer: time alone is no reason for a new decision."""
    question = (declared.candidate, old.get("activeRevision"), decision.evidence_digest, decision.policy_digest)
    asked = (old.get("candidate"), old.get("decisionTarget"), old.get("evidenceDigest"), old.get("policyDigest"))
    answer = (decision.verdict, [_code(reason) for reason in decision.reasons])
    answered = (old.get("verdict"), [_code(reason) for reason in old.get("reasons") or ()])
    return question == asked and answer == answered


def _code(reason: str) -> str:
    """Rule and reason code, without the figures and times behind them."""
    return ":".join(reason.split(":")[:2])


def _decided(decision: Decision, *, active: str, previous: str) -> Outcome:
    fields = _fields(decision) | {
        "activeRevision": active,
        "previousRevision": previous,
        "decisionTarget": active,
    }
    return Outcome(fields, decision)


def _kept(decision: Decision, old: Mapping[str, Any]) -> Outcome:
    active = old["activeRevision"]
    fields = _fields(decision) | {
        "activeRevision": active,
        "previousRevision": old.get("previousRevision", ""),
        "decisionTarget": active,
    }
    return Outcome(fields, decision)


def _fields(decision: Decision) -> Fields:
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
    }


def _nothing_to_decide(old: Mapping[str, Any]) -> Fields:
    """The decision behind the active revision stays; what was said about a candidate that is gone does not.

    A stored decision that aimed at another revision says nothing about this one (trap T4).
    """
    active = old["activeRevision"]
    if old.get("decisionTarget") != active:
        reason = "the route was moved by hand: no decision stands behind the active revision"
        return _undecided(old, decisionType="unguarded", reasons=[reason])
    if old.get("verdict") in ("reject", "insufficient_evidence"):
        return _undecided(old)
    return _carried(old)


def _undecided(old: Mapping[str, Any], **more: Any) -> Fields:
    nothing: Fields = dict.fromkeys(DECISION_FIELDS, "") | {"reasons": [], "decisionTarget": old["activeRevision"]}
    return _carried(old) | nothing | more


def _carried(old: Mapping[str, Any]) -> Fields:
    carried = {name: old.get(name, "") for name in DECISION_FIELDS}
    return carried | {
        "reasons": list(old.get("reasons") or []),
        "activeRevision": old["activeRevision"],
        "previousRevision": old.get("previousRevision", ""),
    }


def _property_of(error: GuardError) -> str:
    subject = error.code.partition("_")[0]
    return subject if subject in ("policy", "ledger", "override") else "evidence"


def declared_from(news: Mapping[str, Any], root: Path) -> Declared:
    """The program's inputs as they travel on the wire; relative paths are meant from `root`, the project's folder."""
    policy = news["policy"]
    return Declared(
        service=news["service"],
        stack=news["stack"],
        candidate=news.get("candidate", ""),
        revisions=tuple(news["revisions"]),
        policy_text=policy["text"],
        policy_source=policy["source"],
        evidence_folder=root / news["evidenceFolder"],
        evidence=_references(news.get("evidence") or []),
        ledger=root / news["ledger"],
        as_of=news.get("asOf", ""),
        initial_active=news.get("initialActive", ""),
        rollback_to=news.get("rollbackTo", ""),
        rollback_reason=news.get("rollbackReason", ""),
        override=news.get("override", ""),
    )


def _references(values: Sequence[Mapping[str, Any]]) -> tuple[EvidenceReference, ...]:
    return tuple(EvidenceReference(path=value["path"], sha256=value["sha256"]) for value in values)
