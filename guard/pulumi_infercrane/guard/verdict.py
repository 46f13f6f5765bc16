"""From the findings of all rules to one verdict: waivers, correction for several rules, worst first."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from pulumi_infercrane.guard.judging.rule import Finding, Rule
from pulumi_infercrane.guard.policy import Policy, Waiver
from pulumi_infercrane.guard.reasons import gate_rank
from pulumi_infercrane.guard.statistics import holm
from pulumi_infercrane.guard.times import parse_time

Verdict = Literal["promote", "reject", "insufficient_evidence"]


@dataclass(frozen=True)
class Judged:
    """A rule with what judging it found."""

    rule: Rule
    finding: Finding
    required: bool

    @property
    def line(self) -> str:
        """`quality.basics: margin_exceeded: difference …`, with what would settle an unknown."""
        subject = self.rule.kind if self.finding.whole_kind else self.rule.id
        needs = f"; {self.finding.needs}" if self.finding.needs else ""
        return f"{subject}: {self.finding.code}: {self.finding.detail}{needs}"

    @property
    def short(self) -> str:
        """`quality.basics: margin_exceeded`."""
        return ": ".join(self.line.split(": ", 2)[:2])


def confirmed(judged: Sequence[Judged], alpha: float) -> list[Judged]:
    """Fails that do not stand together with all other rules become unknown, `fail_unconfirmed`."""
    tested = [one for one in judged if one.finding.p is not None]
    stands = holm([one.finding.p or 0.0 for one in tested], alpha)
    doubtful = {one.rule.id for one, holds in zip(tested, stands, strict=True) if not holds}
    return [_doubted(one) if one.finding.outcome == "fail" and one.rule.id in doubtful else one for one in judged]


def _doubted(judged: Judged) -> Judged:
    detail = f"{judged.finding.detail}; a fail alone, but not beside the other rules"
    finding = replace(judged.finding, outcome="unknown", code="fail_unconfirmed", detail=detail, needs="measure again")
    return replace(judged, finding=finding)


def waived(judged: Sequence[Judged], waivers: Sequence[Waiver], candidate: str, as_of: datetime) -> list[Judged]:
    """Fails of soft rules that a valid waiver names become `waived`."""
    names = {waiver.rule for waiver in waivers if waiver_state(waiver, judged, candidate, as_of) == "applies"}
    return [_waive(one) if one.finding.outcome == "fail" and one.rule.id in names else one for one in judged]


def _waive(judged: Judged) -> Judged:
    return replace(judged, finding=replace(judged.finding, outcome="waived", code="waived"))


def kinds_waived(waivers: Sequence[Waiver], candidate: str, as_of: datetime) -> set[str]:
    """What valid waivers name and no rule is called: kinds that need not be there. A fail of theirs still rejects."""
    return {waiver.rule for waiver in waivers if waiver_state(waiver, (), candidate, as_of) == "applies"}


def waiver_state(waiver: Waiver, judged: Iterable[Judged], candidate: str, as_of: datetime) -> str:
    """Why a waiver applies or does not: `applies`, `hard_rule`, `other_revision`, `expired`."""
    if any(one.rule.id == waiver.rule and one.rule.hard for one in judged):
        return "hard_rule"
    if waiver.revision_digest != candidate:
        return "other_revision"
    return "applies" if as_of < parse_time(waiver.expires_at) else "expired"


def waived_until(waivers: Sequence[Waiver], names: Collection[str], candidate: str, as_of: datetime) -> list[datetime]:
    """For each rule or kind that was waived, when the last waiver that covers it ends."""
    ends: dict[str, datetime] = {}
    for waiver in waivers:
        if waiver.rule in names and waiver_state(waiver, (), candidate, as_of) == "applies":
            until = parse_time(waiver.expires_at)
            ends[waiver.rule] = max(until, ends.get(waiver.rule, until))
    return list(ends.values())


def verdict_of(judged: Sequence[Judged]) -> Verdict:
    """Reject on any fail; else insufficient_evidence unless every required rule passed or was waived."""
    if any(one.finding.outcome == "fail" for one in judged):
        return "reject"
    required = [one for one in judged if one.required]
    settled = bool(required) and all(one.finding.outcome in ("pass", "waived") for one in required)
    return "promote" if settled else "insufficient_evidence"


def in_order_of_weight(judged: Sequence[Judged]) -> list[Judged]:
    """What decided first: fails (hard before soft), then unknowns by gate, then the rest, each in policy order."""
    return sorted(judged, key=_weight)


def _weight(judged: Judged) -> tuple[int, int]:
    finding = judged.finding
    if finding.outcome == "fail":
        return 0, int(not judged.rule.hard)
    if finding.outcome == "unknown":
        return (1 if judged.required else 2), gate_rank(finding.code)
    return 3, 0


def waiver_records(policy: Policy, judged: Sequence[Judged], candidate: str, as_of: datetime) -> list[dict[str, Any]]:
    """The policy's waivers with their state, for the decision record."""
    return [
        {
            "rule": waiver.rule,
            "reason": waiver.reason,
            "owner": waiver.owner,
            "expires_at": waiver.expires_at,
            "state": waiver_state(waiver, judged, candidate, as_of),
        }
        for waiver in policy.waivers
    ]
