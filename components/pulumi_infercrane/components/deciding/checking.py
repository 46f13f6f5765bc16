"""What the Release resource decides: a pure function of old state, declared inputs and files on disk.

No clock, no network. `check` runs inside the provider's Check, in preview and again in `up`, and the command line calls
the same function on what the plan shows; all three must come to the same decision id (pulumi.md 3.2).
"""

from collections.abc import Mapping
from typing import Any

from pulumi_infercrane.components.deciding import canary
from pulumi_infercrane.components.deciding.declared import BEFORE_ALL_EVIDENCE, Declared
from pulumi_infercrane.components.deciding.outcomes import (
    Outcome,
    Problem,
    carried,
    decided,
    fields_of,
    kept,
    nothing_to_decide,
)
from pulumi_infercrane.guard import (
    Decision,
    GuardError,
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
    step_of,
)
from pulumi_infercrane.guard.canonical import digest_bytes

PREVIOUS = "previous"
"""`rollbackTo` by role instead of digest."""

NO_WAY_BACK = (
    "no previous revision is recorded: none served before, or it was rolled back and comes again only by new evidence"
)


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
    if old.get("activeRevision") and declared.rollback_to:
        return old
    recorded = {record["decision_id"]: record for record in declared.records()}
    last = old.get("decisionId", "")
    if last and last not in recorded:
        raise LedgerError(f"{declared.ledger} does not hold the last decision {last}: restore it from a copy")
    served, active = recorded.get(old.get("servedDecision", "")), old.get("activeRevision", "")
    overtaken = old.get("decisionTarget", "") != active
    if not overtaken or served is None or served["candidate"] != active:
        return old
    fields = fields_of(Decision(served)) | {"decisionTarget": active}
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
    found = canary.standing(declared, old)
    if found.state == "strayed":
        return canary.take_back(declared, old, found.revision, found.why)
    if declared.candidate in ("", active):
        return Outcome(nothing_to_decide(old))
    if old.get("weights") and policy.canary is None:
        return canary.take_back(declared, old, declared.candidate, "the policy has no canary any more")
    if found.state == "pending" and _still_asked(declared, policy, found.decision):
        return canary.make_good(declared, policy, old, found.decision)
    if found.state == "pending" and found.decision["decision_type"] != "promotion":
        return canary.judge_anew(declared, policy, old, found.decision)
    if found.state == "running":
        return canary.judge(declared, policy, old, step_of(found.decision))
    return _judge(declared, policy, old)


def _still_asked(declared: Declared, policy: Policy, decision: Mapping[str, Any]) -> bool:
    """Whether a decision is about what there is now: the policy, and for a promotion the evidence.

    What gives the candidate no more traffic is right under any policy.
    """
    if not canary.gives_more(decision):
        return True
    if decision["policy_digest"] != policy.digest:
        return False
    if decision["decision_type"] != "promotion":
        return True
    return bool(decision["evidence_digest"] == load_evidence(declared.evidence_folder, declared.evidence).digest)


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
    problems += [
        ("revisions", f"revision {digest} has {share} % of the traffic: declare it until its share is taken back")
        for digest, share in (old.get("weights") or {}).items()
        if digest not in {active, *declared_digests}
    ]
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
        history=declared.records(),
    )
    if decision.verdict == "promote":
        return decided(decision, active=first, previous="")
    before = old.get("initialActive") or next(iter(old.get("revisions") or ()), "")
    if before == first and _says_the_same(decision, declared, old):
        return Outcome(carried(old))
    return decided(decision, active="", previous="")


def _roll_back(declared: Declared, old: Mapping[str, Any]) -> Outcome:
    """Back to the previous revision; to the active one while a candidate has a share.

    What may be broken in an emergency is not needed: evidence, a valid policy.

    There is no way forward again but new evidence, so nothing is left to roll back to.
    """
    active, previous = old["activeRevision"], old.get("previousRevision", "")
    sharing = canary.sharing(old.get("weights") or {}, active)
    if sharing and declared.rollback_to in (PREVIOUS, active):
        return canary.take_back(declared, old, sharing, declared.rollback_reason)
    target = previous if declared.rollback_to == PREVIOUS else declared.rollback_to
    if target == active:
        return Outcome(nothing_to_decide(old))
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
    return decided(decision, active=target, previous="")


def _override(declared: Declared, policy: Policy, old: Mapping[str, Any]) -> Outcome:
    """To where a signed order says. Evidence may be broken; the policy may not, for it says whose orders count."""
    active, asked = old.get("activeRevision", ""), read_override(declared.override)
    target = asked.order.target
    if not active:
        return Outcome(problems=(("override", "nothing serves yet: say with initialActive which one serves first"),))
    if target == active:
        return Outcome(nothing_to_decide(old))
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
        history=declared.records(),
    )
    return decided(decision, active=target, previous=active)


def _judge(declared: Declared, policy: Policy, old: Mapping[str, Any]) -> Outcome:
    """A candidate beside the active revision: ask the guard, unless it was asked the same before."""
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
        history=declared.records(),
        previous_decision_id=old.get("decisionId", ""),
    )
    if decision.action == "flip":
        return decided(decision, active=declared.candidate, previous=active)
    if _says_the_same(decision, declared, old):
        return Outcome(carried(old))
    return kept(decision, old)


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


def _property_of(error: GuardError) -> str:
    subject = error.code.partition("_")[0]
    return subject if subject in ("policy", "ledger", "override") else "evidence"
