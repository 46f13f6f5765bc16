"""Rules over what a window cost: per million output tokens and per good request, against the baseline or a cap.

The cost of one window is a fact; that it would be the same in the next window is not. So windows are compared as
repeated runs where there are three or more of them on each side, and with a guard band of half the margin otherwise.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from pulumi_infercrane.guard import statistics
from pulumi_infercrane.guard.canonical import rounded
from pulumi_infercrane.guard.judging.comparability import scenario_problem, version_problem
from pulumi_infercrane.guard.judging.events import Drill, judge_drill
from pulumi_infercrane.guard.judging.rule import (
    Finding,
    Kind,
    Member,
    Rule,
    RuleForm,
    Settings,
    Sides,
    ids,
    too_short,
    unjudged,
    unknown,
)
from pulumi_infercrane.guard.judging.summaries import judge_repeats
from pulumi_infercrane.guard.reasons import Problem
from pulumi_infercrane.guard.times import parse_date

PRICE_MAX_AGE = timedelta(days=30)
METERED_WINDOW_S = 3600.0
"""A cost that was metered, not computed from a price list, is charged in pieces: below this it shows the rounding."""


@dataclass(frozen=True)
class _Figure:
    """Money per `per` units of something a window produced."""

    units: str
    per: float
    what: str
    money: str

    def of(self, members: Sequence[Member]) -> float:
        """Over all windows together; infinite when they produced nothing."""
        cost = math.fsum(member.record.gpu_cost + member.record.other_cost for member in members)
        units = sum(self.count(member) or 0 for member in members)
        return cost / units * self.per if units else math.inf

    def count(self, member: Member) -> int | None:
        count: int | None = getattr(member.record, self.units)
        return count

    @property
    def drill(self) -> Drill:
        return Drill(lambda members: (self.of(members), len(members)), self.money, "windows")


_FIGURES = {
    "per_million_output_tokens": _Figure("output_tokens", 1e6, "output tokens", "per million output tokens"),
    "per_good_request": _Figure("good_requests", 1.0, "good requests", "per good request"),
}
_RATIO = RuleForm("margin", 0.10, hard=False, min_pass=1, min_compute=1, unit="ratio - 1", counts="windows")
_CAP = RuleForm("limit", None, hard=True, min_pass=1, min_compute=1, unit="currency", counts="windows")
_FORMS = {f"cost.{name}": _RATIO for name in _FIGURES} | {f"cost.max_{name}": _CAP for name in _FIGURES}


def _check(member: Member, settings: Settings) -> Problem | None:
    """What a cost must say of itself before any figure of it means something."""
    cost = member.record
    if not _charged(member):
        return Problem("cost_incomplete", "there is no cost of the accelerators in it")
    currency = cost.currency or settings.currency
    if not currency:
        return Problem("cost_incomplete", "neither the file nor the policy names a currency")
    if settings.currency and currency != settings.currency:
        return Problem("cost_incomplete", f"it is in {currency}, the policy counts in {settings.currency}")
    if (cost.price_source or cost.price_date) and _priced(member) is None:
        return Problem("cost_incomplete", f"the prices of {cost.price_source or 'the list'} have no date")
    if not cost.price_source and member.window_s < METERED_WINDOW_S:
        text = f"metered for {member.window_s:g} s, at least {METERED_WINDOW_S:g} s are required without a price list"
        return Problem("truncated", text, f"a window of at least {METERED_WINDOW_S:g} s, or a price list")
    return too_short(member, settings)


def _charged(member: Member) -> bool:
    """Accelerators cost money. A service without any of its own, asked of another one, is what it pays for that."""
    cost = member.record
    if member.envelope.subject.accelerator.count or cost.gpu_cost is None:
        return bool(cost.gpu_cost and cost.gpu_cost > 0)
    return bool(cost.gpu_cost + cost.other_cost > 0)


def _priced(member: Member) -> datetime | None:
    try:
        return parse_date(member.record.price_date)
    except ValueError:
        return None


def _valid_until(member: Member) -> datetime | None:
    priced = _priced(member)
    return priced + PRICE_MAX_AGE if priced else None


def _judge(rule: Rule, sides: Sides, settings: Settings) -> Finding:
    figure = _FIGURES[rule.id.removeprefix("cost.").removeprefix("max_")]
    if any(figure.count(member) is None for member in sides.candidate):
        return unknown("no_evidence", f"the file does not say how many {figure.what} there were")
    if not rule.relative:
        counted = tuple(member for member in sides.superseded if figure.count(member) is not None)
        return judge_drill(rule, replace(sides, superseded=counted), figure.drill)
    problem = sides.no_baseline or _incomparable(figure, sides, settings)
    if problem:
        return unjudged(problem)
    finding = _against_baseline(rule, figure, sides, settings)
    return replace(finding, evidence=ids(sides.all), notes=_other_prices(sides))


def _incomparable(figure: _Figure, sides: Sides, settings: Settings) -> Problem | None:
    if any(figure.count(member) is None for member in sides.baseline):
        return Problem("no_evidence", f"the baseline's file does not say how many {figure.what} there were")
    if math.isinf(figure.of(sides.baseline)):
        return Problem("baseline_broken", f"the baseline produced no {figure.what}")
    return version_problem(sides.all) or scenario_problem(sides.all) or _other_account(sides, settings)


def _other_account(sides: Sides, settings: Settings) -> Problem | None:
    if not all(_loaded(member) for member in sides.all):
        return Problem("not_comparable", "an envelope does not say at which rate or concurrency the window was served")
    currencies = {member.record.currency or settings.currency for member in sides.all}
    if len(currencies) > 1:
        return Problem("not_comparable", f"one side is in {' and the other in '.join(sorted(currencies))}")
    if len({member.record.idle_included for member in sides.all}) > 1:
        return Problem("not_comparable", "only one side includes the cost of idle accelerators")
    return None


def _other_prices(sides: Sides) -> tuple[str, ...]:
    """A note that the sides were not priced from one list: then the ratio is one of prices too."""
    baseline, candidate = (
        " and ".join(sorted({_prices(member) for member in side})) for side in (sides.baseline, sides.candidate)
    )
    return () if baseline == candidate else (f"other prices: {candidate} against {baseline}",)


def _prices(member: Member) -> str:
    cost = member.record
    return f"{cost.price_source} of {cost.price_date}" if cost.price_source else "metered"


def _loaded(member: Member) -> bool:
    return member.envelope.scenario.rate is not None or member.envelope.scenario.concurrency is not None


def _against_baseline(rule: Rule, figure: _Figure, sides: Sides, settings: Settings) -> Finding:
    baseline, candidate = (sorted(side, key=_turn) for side in (sides.baseline, sides.candidate))
    below, above = ([figure.of([member]) for member in side] for side in (baseline, candidate))
    if all(map(math.isfinite, below + above)) and len(below) == len(above) >= statistics.FEWEST_RUNS:
        ratios, n = [after / before for before, after in zip(below, above, strict=True)], len(below)
        counts, unit = f"{n} windows on each side", "windows on each side"
        return judge_repeats(rule, ratios, (n, n), counts, unit, settings.alpha)
    return _banded(rule, figure, sides)


def _turn(member: Member) -> tuple[int, str]:
    """Windows of both sides that were measured in turn come at the same place."""
    return (member.envelope.run.ordinal if member.envelope.run else 0), member.envelope.window.started_at


def _banded(rule: Rule, figure: _Figure, sides: Sides) -> Finding:
    baseline, candidate = figure.of(sides.baseline), figure.of(sides.candidate)
    ratio, limit = rounded(candidate / baseline), round(1 + rule.bound, 9)
    outcome = statistics.guard_band(ratio, rule.bound)
    n = (len(sides.baseline), len(sides.candidate))
    detail = f"ratio {ratio:.3g} against {limit:.3g}, {candidate:.4g} against {baseline:.4g} {figure.money}"
    finding = Finding(outcome, "summary_only", detail, "guard_band", n, estimate=ratio, limit=limit)
    if outcome == "fail":
        return replace(finding, code="margin_exceeded")
    if outcome == "pass" and min(n) >= rule.min_pass:
        return replace(finding, code="within_margin")
    return replace(finding, outcome="unknown", needs=f"{statistics.FEWEST_RUNS} windows on each side, measured in turn")


KIND = Kind(
    name="cost",
    max_age=timedelta(days=7),
    form=_FORMS.get,
    forms=_FORMS,
    example="cost.per_million_output_tokens",
    check=_check,
    judge=_judge,
    valid_until=_valid_until,
)
