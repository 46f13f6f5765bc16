"""The decision: a pure function of policy bytes, evidence bytes, earlier decisions and `as_of`. No clock, no network.

The record it leaves (`infercrane.decision/v1`) is the same byte for byte wherever it is computed again.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, Literal, cast

from pulumi_infercrane.guard.admission.admit import Admission, admit
from pulumi_infercrane.guard.admission.binding import subjects_in
from pulumi_infercrane.guard.admission.change import changed_fields, classes_of
from pulumi_infercrane.guard.admission.freshness import usable_until
from pulumi_infercrane.guard.admission.pieces import Piece, Question
from pulumi_infercrane.guard.canonical import canonical_bytes, digest
from pulumi_infercrane.guard.errors import GuardError, PolicyError
from pulumi_infercrane.guard.evidence.folder import EvidenceSet
from pulumi_infercrane.guard.judging.rule import Member, Rule, unjudged
from pulumi_infercrane.guard.policy import Policy
from pulumi_infercrane.guard.reasons import way_out
from pulumi_infercrane.guard.rollout.plan import weights
from pulumi_infercrane.guard.rules import find_kind
from pulumi_infercrane.guard.times import format_time, parse_time
from pulumi_infercrane.guard.verdict import (
    Judged,
    Verdict,
    confirmed,
    in_order_of_weight,
    kinds_waived,
    verdict_of,
    waived,
    waived_until,
    waiver_records,
)

SCHEMA = "infercrane.decision/v1"
GUARD_VERSION = "0.4.0"
"""Goes into every record; raised when the same inputs may give another decision."""

Action = Literal["flip", "keep", "advance", "hold", "rollback"]

_NOTHING = EvidenceSet(())


@dataclass(frozen=True)
class Decision:
    """A decision record and its parts by name. Times are RFC 3339 in UTC, digests `sha256:…`."""

    record: Mapping[str, Any]

    @cached_property
    def canonical(self) -> bytes:
        """The record in RFC 8785 form."""
        return canonical_bytes(self.record)

    @property
    def decision_id(self) -> str:
        return str(self.record["decision_id"])

    @property
    def verdict(self) -> Verdict:
        return cast("Verdict", self.record["verdict"])

    @property
    def action(self) -> Action:
        """What Release does.

        `flip` moves the route to `record["candidate"]`; `keep` leaves it alone. In steps: `advance` gives the candidate
        the next share of the traffic, the first one included, by `record["weights"]`; `hold` waits, `rollback` takes
        the route back.
        """
        return cast("Action", self.record["action"])

    @property
    def decision_type(self) -> str:
        """`promotion`, `bootstrap`, `canary_step`, `post_promotion`, `rollback` or `override`."""
        return str(self.record["decision_type"])

    @property
    def expires_at(self) -> str:
        """From when on a flip must be refused; empty when nothing in the decision can age."""
        return str(self.record.get("expires_at", ""))

    @property
    def evidence_digest(self) -> str:
        """Digest of all evidence seen; empty when none was asked for."""
        return str(self.record.get("evidence_digest", ""))

    @property
    def policy_digest(self) -> str:
        return str(self.record["policy_digest"])

    @property
    def reasons(self) -> tuple[str, ...]:
        """Short lines for people, the deciding one first."""
        return tuple(self.record["reasons"])


def decide(
    policy: Policy,
    evidence: EvidenceSet,
    *,
    service: str,
    stack: str,
    candidate: str,
    baseline: str,
    as_of: str,
    history: Sequence[Mapping[str, Any]] = (),
    previous_decision_id: str = "",
) -> Decision:
    """May `candidate` take over from `baseline`, or under a policy with `canary` have the first share of the traffic?

    `as_of` is the time freshness is judged at. `history` holds earlier decision records; those about other
    candidates are ignored.

    Raises:
        PolicyError: when the policy is for another service, or says nothing about this stack.
        GuardError: when the candidate is the baseline, or `as_of` is no UTC time.
    """
    check_service(policy, service)
    if candidate == baseline:
        raise GuardError(f"candidate and baseline are the same revision {candidate}: there is nothing to decide")
    relevant = [record for record in history if _concerns(record, candidate)]
    subjects = subjects_in(evidence.items)
    question = Question(policy, candidate, baseline, utc_time(as_of), relevant, stack, subjects)
    change = changed_fields(subjects.get(baseline), subjects.get(candidate))
    required = policy.required_kinds(stack, classes_of(change))
    lifted = set(required) & kinds_waived(policy.waivers, candidate, question.as_of)
    admission = admit(question, evidence)
    judged = _judge(question, admission, policy.rules, (set(required) | admission.blocked.keys()) - lifted)
    verdict = verdict_of(judged)
    action, route = _route(policy, verdict, candidate, baseline)
    return sealed(
        {
            **record_head("promotion", verdict, action, service, stack),
            "as_of": format_time(question.as_of),
            "expires_at": _expires_at(question, admission, judged, lifted),
            "candidate": candidate,
            "baseline": baseline,
            "expected_active": baseline,
            **route,
            "policy_digest": policy.digest,
            "signers": _signers(policy, admission),
            "evidence_digest": evidence.digest,
            "prev_decision_id": previous_decision_id,
            "history": [record["decision_id"] for record in relevant],
            "change": list(change),
            "change_classes": list(classes_of(change)),
            "required_kinds": list(required),
            "rules": [rule_record(one) for one in judged],
            "evidence": [_evidence_record(piece, policy) for piece in admission.pieces],
            "waivers": waiver_records(policy, judged, candidate, question.as_of),
            "notes": list(policy.notes),
            "reasons": _reasons(judged, verdict),
            "first_reason": in_order_of_weight(judged)[0].short,
        }
    )


def bootstrap(
    policy: Policy,
    evidence: EvidenceSet = _NOTHING,
    *,
    service: str,
    stack: str,
    candidate: str,
    as_of: str,
    history: Sequence[Mapping[str, Any]] = (),
    previous_decision_id: str = "",
) -> Decision:
    """May `candidate` be the first revision of a service? There is nothing to compare it with.

    Rules with a limit are judged on the evidence there is about it, and a fail rejects. Missing is only what the policy
    requires of a first revision, and what an earlier decision on it used.

    Raises:
        PolicyError: unless the policy says `bootstrap: true` and is for this service.
        GuardError: when `as_of` is no UTC time.
    """
    check_service(policy, service)
    if not policy.bootstrap:
        raise PolicyError(f"{policy.source}: the first revision of {service!r} needs 'bootstrap: true' in the policy")
    relevant = [record for record in history if _concerns(record, candidate)]
    question = Question(policy, candidate, "", utc_time(as_of), relevant, stack, subjects_in(evidence.items))
    lifted = set(policy.bootstrap_kinds) & kinds_waived(policy.waivers, candidate, question.as_of)
    admission = admit(question, evidence)
    judged = _judge_first(question, admission, set(policy.bootstrap_kinds) - lifted)
    by_rule = {one.rule.id: rule_record(one) for one in judged}
    asked = any(one.required or one.finding.outcome == "fail" for one in judged)
    verdict = verdict_of(judged) if asked else "promote"
    allowed = f"bootstrap: first revision of service {service!r}, nothing to compare it with; the policy allows it"
    return sealed(
        {
            **record_head("bootstrap", verdict, "flip" if verdict == "promote" else "keep", service, stack),
            "as_of": format_time(question.as_of),
            "expires_at": _expires_at(question, admission, judged, lifted),
            "candidate": candidate,
            "policy_digest": policy.digest,
            "signers": _signers(policy, admission),
            "evidence_digest": evidence.digest if evidence.items else "",
            "prev_decision_id": previous_decision_id,
            "history": [record["decision_id"] for record in relevant] or "",
            "required_kinds": list(policy.bootstrap_kinds),
            "rules": [by_rule.get(rule.id) or _not_applicable(rule) for rule in policy.rules],
            "evidence": [_evidence_record(piece, policy) for piece in admission.pieces],
            "waivers": waiver_records(policy, judged, candidate, question.as_of) or "",
            "notes": list(policy.notes) or "",
            "reasons": [*([allowed] if verdict == "promote" else []), *_reasons(judged, verdict)],
            "first_reason": "bootstrap" if verdict == "promote" else in_order_of_weight(judged)[0].short,
        }
    )


def rollback(
    *,
    service: str,
    stack: str,
    target: str,
    active: str,
    policy_digest: str,
    as_of: str,
    reason: str,
    previous_decision_id: str = "",
) -> Decision:
    """Back to a revision that served before. Needs no evidence; `reason` is what a person gave.

    Raises:
        GuardError: when target and active are the same, the reason is empty, or `as_of` is no UTC time.
    """
    if target == active:
        raise GuardError(f"revision {target} already serves: there is nothing to roll back")
    if not reason.strip():
        raise GuardError("a rollback needs a reason: it is what the next reader of the ledger sees")
    return sealed(
        {
            **record_head("rollback", "promote", "flip", service, stack),
            "as_of": format_time(utc_time(as_of)),
            "candidate": target,
            "baseline": active,
            "expected_active": active,
            "policy_digest": policy_digest,
            "prev_decision_id": previous_decision_id,
            "rules": [],
            "evidence": [],
            "reasons": [f"rollback: {reason.strip()}"],
            "first_reason": "rollback",
        }
    )


def check_service(policy: Policy, service: str) -> None:
    """Raises PolicyError when the policy is for another service."""
    if policy.service and policy.service != service:
        raise PolicyError(f"{policy.source}: this policy is for service {policy.service!r}, not for {service!r}")


def utc_time(text: str) -> datetime:
    """`as_of` as a time; raises GuardError when it is none."""
    try:
        return parse_time(text)
    except ValueError as error:
        raise GuardError(f"as_of: {error}") from error


def _concerns(record: Mapping[str, Any], candidate: str) -> bool:
    rolled_back = record["decision_type"] == "rollback" and record.get("baseline") == candidate
    return record["candidate"] == candidate or rolled_back


def _judge(question: Question, admission: Admission, rules: Iterable[Rule], required: Collection[str]) -> list[Judged]:
    settings, failed = question.policy.settings, _failed_before(question)
    judged = [_judge_rule(question, admission, one, one.kind in required or one.id in failed) for one in rules]
    return waived(confirmed(judged, settings.alpha), question.policy.waivers, question.candidate, question.as_of)


def _judge_rule(question: Question, admission: Admission, rule: Rule, required: bool) -> Judged:
    block = admission.block(rule.kind)
    if block:
        return Judged(rule, unjudged(block, whole_kind=True), required)
    finding = find_kind(rule.kind).judge(rule, admission.sides(rule.kind), question.policy.settings)
    return Judged(rule, finding, required)


def _failed_before(question: Question) -> set[str]:
    """Rules that evidence about this candidate failed: an answer is asked for, even once that evidence is too old."""
    return {
        rule["rule"]
        for record in question.history
        if record["decision_type"] in ("promotion", "bootstrap") and record["candidate"] == question.candidate
        for rule in record["rules"]
        if rule["outcome"] == "fail"
    }


def _route(policy: Policy, verdict: Verdict, candidate: str, baseline: str) -> tuple[Action, Mapping[str, Any]]:
    """What Release does; where that opens a canary, also what the route must carry and what it is to get."""
    if verdict != "promote":
        return "keep", {}
    if policy.canary is None:
        return "flip", {}
    first = weights(candidate, baseline, policy.canary.steps[0])
    return "advance", {"expected_weights": weights(candidate, baseline, 0), "weights": first}


def _judge_first(question: Question, admission: Admission, required: set[str]) -> list[Judged]:
    """Rules with a limit, of kinds that are required of a first revision, were offered, or may not be judged."""
    required = required | admission.blocked.keys()
    offered = {piece.envelope.kind for piece in admission.pieces if piece.envelope and piece.bound}
    failed = _failed_before(question)
    judged = [rule for rule in question.policy.rules if rule.kind in required | offered or rule.id in failed]
    rules = [rule for rule in judged if not rule.relative]
    return _judge(question, admission, rules, required)


def _reasons(judged: Sequence[Judged], verdict: Verdict) -> list[str]:
    """What decided first. Under a verdict other than promote the rules that passed are left out."""
    shown = [one for one in in_order_of_weight(judged) if verdict == "promote" or one.finding.outcome != "pass"]
    return list(dict.fromkeys(one.line for one in shown))


def _expires_at(question: Question, admission: Admission, judged: Sequence[Judged], lifted: set[str]) -> str:
    """When the first piece of evidence gets too old, or the first waiver that was needed ends."""
    policy = question.policy
    names = {one.rule.id for one in judged if one.finding.outcome == "waived"} | lifted
    ends = [
        usable_until(policy, question.stack, Member(piece.envelope, piece.item.record))
        for piece in admission.pieces
        if piece.envelope and _is_used(piece, policy)
    ]
    ends += waived_until(policy.waivers, names, question.candidate, question.as_of)
    return format_time(min(ends)) if ends else ""


def _signers(policy: Policy, admission: Admission) -> list[str] | str:
    """Ids of the keys that vouch for what was used; left out when the policy asks for no trust."""
    if policy.trust is None:
        return ""
    return sorted({key for piece in admission.pieces if _is_used(piece, policy) for key in piece.signers})


# --- the record -------------------------------------------------------------------------------------------------


def record_head(decision_type: str, verdict: str, action: str, service: str, stack: str) -> dict[str, Any]:
    """What every decision record begins with."""
    return {
        "schema": SCHEMA,
        "guard_version": GUARD_VERSION,
        "decision_type": decision_type,
        "verdict": verdict,
        "action": action,
        "service": service,
        "stack": stack,
    }


def sealed(record: Mapping[str, Any]) -> Decision:
    """A decision from its record: what is empty is left out, the id is filled in."""
    present = {key: value for key, value in record.items() if value != ""}
    return Decision({**present, "decision_id": digest(present)})


def rule_record(judged: Judged) -> dict[str, Any]:
    """One entry of a record's `rules`."""
    rule, finding = judged.rule, judged.finding
    numbers = {name: _number(getattr(finding, name)) for name in ("estimate", "lo", "hi", "limit")}
    record: dict[str, Any] = {
        "rule": rule.id,
        "class": "H" if rule.hard else "S",
        "required": judged.required,
        "outcome": finding.outcome,
        "reasons": [finding.code],
        "detail": finding.detail,
        "needs": finding.needs or (way_out(finding.code) if finding.outcome == "unknown" else ""),
        "method": finding.method,
        "n": list(finding.n),
        **{name: number for name, number in numbers.items() if number is not None},
        "min_pass": rule.min_pass,
        "min_compute": rule.min_compute,
        "notes": [*rule.notes, *finding.notes],
        "evidence": list(finding.evidence),
    }
    return {key: value for key, value in record.items() if value not in ("", [])}


def _number(value: float | None) -> float | str | None:
    """JSON has no infinity: the quantile of a side that mostly failed is written as a word."""
    return str(value) if value in (float("inf"), float("-inf")) else value


def _not_applicable(rule: Rule) -> dict[str, Any]:
    return {"rule": rule.id, "class": "H" if rule.hard else "S", "outcome": "not_applicable", "reasons": ["bootstrap"]}


def _evidence_record(piece: Piece, policy: Policy) -> dict[str, Any]:
    record: dict[str, Any] = {
        "used": _is_used(piece, policy),
        "sha256": piece.item.sha256,
        "reasons": [str(piece.problem)] if piece.problem else [],
    }
    if piece.envelope:
        record |= {
            "evidence_id": piece.envelope.evidence_id,
            "kind": piece.envelope.kind,
            "role": piece.envelope.role,
            "revision": piece.envelope.subject.revision_digest,
            "ended_at": piece.envelope.window.ended_at,
            "files": [file.path for file in piece.envelope.files],
        }
        replaced = [{"evidence_id": one.evidence_id, "reason": one.reason} for one in piece.envelope.supersedes]
        record |= {"supersedes": replaced} if replaced else {}
        ended = piece.envelope.primary.exit_code
        record |= {"exit_code": ended} if ended is not None else {}
    if piece.signers:
        record["signers"] = list(piece.signers)
    return record


def _is_used(piece: Piece, policy: Policy) -> bool:
    kinds = {rule.kind for rule in policy.rules}
    return piece.used and piece.envelope is not None and piece.envelope.kind in kinds
