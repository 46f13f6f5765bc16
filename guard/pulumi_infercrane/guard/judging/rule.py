"""Words every kind of evidence shares: a rule, what judging it found, and how an interval meets a limit."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from pulumi_infercrane.guard.canonical import rounded
from pulumi_infercrane.guard.evidence.envelope import Envelope
from pulumi_infercrane.guard.reasons import Problem
from pulumi_infercrane.guard.statistics import Interval

Outcome = Literal["pass", "fail", "unknown", "waived", "not_applicable"]

SUPERSEDED = "superseded evidence counts: a hard limit was broken"
"""Note of a fail that rests on a piece which another one replaces."""
MOST_NEEDED = 1_000_000
"""Beyond this many more requests or pairs no number is named."""

_MOST = {
    **dict.fromkeys(("share", "score 0..1", "similarity 0..1", "1 - ratio"), 0.9999),
    **dict.fromkeys(("ratio - 1", "ratio - 1, both ways"), 4.0),
}
"""By unit of a bound; what is measured in seconds or money may be as high as one likes."""


@dataclass(frozen=True)
class RuleForm:
    """What a kind says about a rule id: which bound it takes, and the defaults."""

    bound: Literal["limit", "margin"]
    """`limit` is absolute and needs the candidate alone; `margin` is relative to the baseline."""
    default: float | None
    """None when only the policy can know it."""
    hard: bool
    min_pass: int
    min_compute: int
    unit: str = "share"
    """What the bound is measured in."""
    counts: str = "requests"
    """What `min_*` count, on each side that is needed."""

    @property
    def most(self) -> float:
        """The highest bound that can decide anything: above it nothing fails, and a percentage was meant."""
        return _MOST.get(self.unit, math.inf)


@dataclass(frozen=True)
class Rule:
    """One rule of a policy with its defaults filled in. `min_*` count what its form says."""

    id: str
    kind: str
    hard: bool
    relative: bool
    bound: float
    min_pass: int
    min_compute: int
    notes: tuple[str, ...] = ()
    line: int = 0
    """Line of the policy it stands at, for reports that point at it; 0 when it stands in none."""

    @property
    def stands(self) -> bool:
        """A fail on any one piece is final: further measurements neither dilute nor replace it."""
        return self.hard and not self.relative


@dataclass(frozen=True)
class Settings:
    """What of a policy judging depends on. `alpha` is one-sided and already split over the looks."""

    alpha: float
    min_duration_s: float
    min_soak_s: float = 1800.0
    """For how long one piece must have watched before the absence of an event means anything."""
    currency: str = ""
    """The currency limits are in, and that of files which name none."""
    slo: Mapping[str, float] = field(default_factory=dict)
    """Objectives in seconds by `ttft_s`, `tpot_s`, `e2e_s`."""
    bounds: Mapping[str, float] = field(default_factory=dict)
    """Bound of every rule of the policy by rule id."""


@dataclass(frozen=True)
class Member:
    """One admissible piece of evidence with the canonical record its kind expects."""

    envelope: Envelope
    record: Any

    @property
    def evidence_id(self) -> str:
        return self.envelope.evidence_id

    @property
    def window_s(self) -> float:
        """Seconds from the start to the end of the measurement, as its envelope declares them."""
        return (self.envelope.window.ended - self.envelope.window.started).total_seconds()

    @property
    def measured_s(self) -> float:
        """Seconds that were measured: what the file says, where it does, never more than its window."""
        duration: float | None = getattr(self.record, "duration_s", None)
        return self.window_s if duration is None else min(float(duration), self.window_s)


@dataclass(frozen=True)
class Sides:
    """Admissible evidence of one kind. `no_baseline` says why there is none to compare with."""

    candidate: tuple[Member, ...]
    baseline: tuple[Member, ...]
    no_baseline: Problem | None = None
    superseded: tuple[Member, ...] = ()
    """The candidate's pieces that another one replaces. They count for nothing but rules that stand."""

    @property
    def all(self) -> tuple[Member, ...]:
        return self.candidate + self.baseline

    def still_counting(self, rule: Rule) -> tuple[Member, ...]:
        """Superseded pieces that can fail this rule all the same."""
        return self.superseded if rule.stands else ()

    def standing(self, rule: Rule) -> tuple[Member, ...]:
        """The candidate's pieces, each of which can fail a rule by itself."""
        return self.candidate + self.still_counting(rule)


@dataclass(frozen=True)
class Finding:
    """What judging one rule found. Numbers are rounded to nine digits; `p` is the one-sided p of a fail."""

    outcome: Outcome
    code: str
    detail: str
    method: str = ""
    n: tuple[int, ...] = ()
    estimate: float | None = None
    lo: float | None = None
    hi: float | None = None
    limit: float | None = None
    p: float | None = None
    needs: str = ""
    """What would settle an unknown, in words."""
    notes: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    whole_kind: bool = False
    """The reason concerns every rule of the kind, and is told once."""


@dataclass(frozen=True)
class Kind:
    """A kind of evidence: one module in `rules/`."""

    name: str
    max_age: timedelta
    form: Callable[[str], RuleForm | None]
    """Defaults of a rule id of this kind; None when it has no such rule."""
    forms: Mapping[str, RuleForm]
    """The same for people: rule ids, with `<…>` where a name of theirs goes."""
    example: str
    """A valid rule id, for error messages."""
    check: Callable[[Member, Settings], Problem | None]
    """Why a single piece is incomplete."""
    judge: Callable[[Rule, Sides, Settings], Finding]
    max_age_in_production: timedelta | None = None
    """Shorter than `max_age`; None when both are the same."""
    valid_until: Callable[[Member], datetime | None] = lambda member: None
    """When a piece ends by itself, whatever its age; None when it does not."""


def too_short(member: Member, settings: Settings) -> Problem | None:
    """A measurement so short that it cannot have seen the service as its users do."""
    if member.measured_s >= settings.min_duration_s:
        return None
    least = f"at least {settings.min_duration_s:g} s"
    text = f"measured for {member.measured_s:.4g} s, {least} are required"
    return Problem("truncated", text, f"a run of {least} (`min_duration_s` of the policy)")


def unknown(code: str, detail: str, *, needs: str = "", whole_kind: bool = False) -> Finding:
    """A rule that no interval could be formed for."""
    return Finding("unknown", code, detail, needs=needs, whole_kind=whole_kind)


def unjudged(problem: Problem, *, needs: str = "", whole_kind: bool = False) -> Finding:
    """A rule that a problem keeps from being judged."""
    return unknown(problem.code, problem.detail, needs=needs or problem.needs, whole_kind=whole_kind)


def at_most(interval: Interval, limit: float) -> Literal["pass", "fail", "unknown"]:
    """Lower is better. The limit itself belongs to pass."""
    if interval.hi <= limit:
        return "pass"
    return "fail" if interval.lo > limit else "unknown"


def at_least(interval: Interval, limit: float) -> Literal["pass", "fail", "unknown"]:
    """Higher is better. The limit itself belongs to pass."""
    if interval.lo >= limit:
        return "pass"
    return "fail" if interval.hi < limit else "unknown"


def rounded_interval(interval: Interval) -> Interval:
    """The interval as it is judged and stored."""
    return Interval(rounded(interval.estimate), rounded(interval.lo), rounded(interval.hi))


def figures(interval: Interval, limit: float) -> str:
    """`-0.645 [-0.72, -0.57] against -0.05`."""
    return f"{interval.estimate:.3g} [{interval.lo:.3g}, {interval.hi:.3g}] against {limit:.3g}"


@dataclass(frozen=True)
class Measured:
    """An interval beside its limit, and how much more data would settle it."""

    method: str
    n: tuple[int, ...]
    interval: Interval
    limit: float
    outcome: Literal["pass", "fail", "unknown"]
    what: str
    """Words before the figures: `ratio`, `difference`."""
    counts: str
    """Words after the figures: `40 lost / 0 gained of 60`."""
    p: float
    enough: int
    """Below this many no pass is possible."""
    total: float
    """About this many are needed to settle it, if the estimate stays; may be infinite."""
    unit: str


def conclude(rule: Rule, measured: Measured, notes: tuple[str, ...] = ()) -> Finding:
    """The finding of a rule whose interval was formed."""
    n = min(measured.n)
    outcome, code = _outcome(rule, measured)
    figures_text = f"{measured.what} {figures(measured.interval, measured.limit)}".strip()
    detail = f"{figures_text}, {measured.counts}"
    if code == "insufficient_n":
        detail = f"{n} of {max(rule.min_pass, measured.enough)} {measured.unit}, {figures_text}"
    total = max(rule.min_pass, measured.enough, measured.total)
    return Finding(
        outcome,
        code,
        detail,
        measured.method,
        measured.n,
        measured.interval.estimate,
        measured.interval.lo,
        measured.interval.hi,
        measured.limit,
        measured.p,
        more_needed(total, n, measured.unit) if outcome == "unknown" else "",
        notes,
    )


def _outcome(rule: Rule, measured: Measured) -> tuple[Outcome, str]:
    if measured.outcome == "fail":
        return "fail", "margin_exceeded" if rule.relative else "limit_exceeded"
    if measured.outcome == "pass" and min(measured.n) >= rule.min_pass:
        return "pass", "within_margin"
    enough = min(measured.n) >= max(rule.min_pass, measured.enough)
    return "unknown", "interval_straddles" if enough else "insufficient_n"


def scaled(spread: float, distance: float) -> float:
    """How many times more data brings an interval of half-width `spread` away from a limit at `distance`."""
    return (spread / distance) ** 2 if distance and math.isfinite(spread) else math.inf


def disagree(intervals: Sequence[Interval]) -> bool:
    """Two of several intervals of one thing do not overlap."""
    return bool(intervals) and max(i.lo for i in intervals) > min(i.hi for i in intervals)


def first_fail(findings: Sequence[Finding]) -> Finding:
    """The first fail; without one the first finding."""
    return next((one for one in findings if one.outcome == "fail"), findings[0])


def in_conflict(finding: Finding) -> Finding:
    """The finding made unknown: repeated measurements of one side differ by more than noise."""
    detail = f"repeated measurements of one side differ by more than noise; pooled: {finding.detail}"
    needs = "find out why, then supersede the wrong one with a reason"
    return replace(finding, outcome="unknown", code="conflict", detail=detail, needs=needs)


def more_needed(total: float, have: int, unit: str) -> str:
    """`about 240 more pairs needed`, or that no number would settle it."""
    missing = total - have
    if missing > MOST_NEEDED:
        return "no practical number would settle it: the estimate lies at the limit"
    return f"about {max(1, math.ceil(missing))} more {unit} needed"


def ids(members: Sequence[Member]) -> tuple[str, ...]:
    """Evidence ids, sorted."""
    return tuple(sorted(member.evidence_id for member in members))
