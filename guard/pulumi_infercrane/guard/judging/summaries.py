"""Judging figures of which a tool kept only the summary: no interval can be formed of one number.

One run on each side meets a guard band: half the margin passes, twice the margin fails. Three or more runs on each
side, measured in pairs, give an interval over runs. Anything else is unknown: figures of several runs are not averaged.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pulumi_infercrane.guard import statistics
from pulumi_infercrane.guard.canonical import rounded
from pulumi_infercrane.guard.judging.rule import (
    Finding,
    Measured,
    Member,
    Rule,
    Sides,
    at_least,
    at_most,
    conclude,
    more_needed,
    rounded_interval,
    scaled,
    unknown,
)

NOT_AVERAGED = "percentile_of_percentiles"


@dataclass(frozen=True)
class Figure:
    """A figure of a run. `value` is None where the run does not have it, +inf where failures make it so."""

    what: str
    value: Callable[[Member], float | None]
    higher_is_better: bool
    advice: str
    """What would give an interval."""


def judge_summaries(rule: Rule, figure: Figure, sides: Sides, alpha: float) -> Finding:
    """The ratio of a figure against 1 + margin, or 1 - margin where more is better. Every run must have the figure."""
    n = tuple(sum(_requests(member) for member in side) for side in (sides.baseline, sides.candidate))
    if min(n) < max(1, rule.min_compute):
        unit = "requests on each side"
        detail = f"{min(n)} of {rule.min_pass} {unit}, nothing is compared below {rule.min_compute}"
        return unknown("insufficient_n", detail, needs=more_needed(rule.min_pass, min(n), unit))
    if len(sides.candidate) == len(sides.baseline) == 1:
        return _in_band(rule, figure, sides, n)
    pairs = paired_runs(sides)
    if not pairs:
        detail = f"{len(sides.candidate)} and {len(sides.baseline)} summaries: figures of several runs are not averaged"
        needs = f"one run on each side, or {statistics.FEWEST_RUNS} in pairs of one run group, or {figure.advice}"
        return unknown(NOT_AVERAGED, detail, needs=needs)
    return judge_runs(rule, figure, pairs, n, alpha)


def figure_ratio(figure: Figure, baseline: Member, candidate: Member) -> float:
    """Candidate over baseline. The baseline's value is finite and above 0."""
    above, below = figure.value(candidate), figure.value(baseline)
    return math.nan if above is None or below is None else above / below


def _requests(member: Member) -> int:
    return int(member.record.attempted or 0) - int(member.record.incomplete)


def _in_band(rule: Rule, figure: Figure, sides: Sides, n: tuple[int, ...]) -> Finding:
    ratio = rounded(figure_ratio(figure, sides.baseline[0], sides.candidate[0]))
    distance = 1 - ratio if figure.higher_is_better else ratio - 1
    outcome = statistics.guard_band(round(1 + distance, 9), rule.bound)
    limit = _limit(rule, figure.higher_is_better)
    detail = f"ratio {ratio:.3g} against {limit:.3g} from summaries of {n[1]} requests against {n[0]}"
    code = {"pass": "within_margin", "fail": "margin_exceeded", "unknown": "summary_only"}[outcome]
    needs = f"a difference below half or beyond twice the margin, or {figure.advice}" if outcome == "unknown" else ""
    if outcome == "pass" and min(n) < rule.min_pass:
        unit = "requests on each side"
        outcome, code, needs = "unknown", "insufficient_n", more_needed(rule.min_pass, min(n), unit)
    return Finding(outcome, code, detail, "guard_band", n, estimate=ratio, limit=limit, needs=needs)


def paired_runs(sides: Sides) -> Sequence[tuple[Member, Member]]:
    """Baseline and candidate runs of the same place in the same group: at least `FEWEST_RUNS`, or none.

    None either unless every run has a partner.
    """
    partners = {place: member for member in sides.baseline if (place := _place(member))}
    pairs = [(partners[place], member) for member in sides.candidate if (place := _place(member)) in partners]
    whole = len(pairs) == len(sides.candidate) == len(sides.baseline) >= statistics.FEWEST_RUNS
    return pairs if whole else ()


def _place(member: Member) -> tuple[str, int] | None:
    run = member.envelope.run
    return (run.group, run.ordinal) if run else None


def judge_runs(
    rule: Rule, figure: Figure, pairs: Sequence[tuple[Member, Member]], n: tuple[int, ...], alpha: float
) -> Finding:
    """The interval over paired runs. It sees what differs between runs, which the requests of one run cannot show."""
    ratios = [figure_ratio(figure, baseline, candidate) for baseline, candidate in pairs]
    if not all(math.isfinite(ratio) for ratio in ratios):
        detail = f"{figure.what} of a run is infinite: too many of its requests failed"
        limit = _limit(rule, figure.higher_is_better)
        return Finding("fail", "margin_exceeded", detail, "repeated_runs", n, estimate=math.inf, limit=limit)
    counts, unit = f"{len(pairs)} runs against {len(pairs)}", "requests on each side, in more runs"
    return judge_repeats(rule, ratios, n, counts, unit, alpha, higher_is_better=figure.higher_is_better)


def judge_repeats(
    rule: Rule,
    ratios: Sequence[float],
    n: tuple[int, ...],
    counts: str,
    unit: str,
    alpha: float,
    *,
    higher_is_better: bool = False,
) -> Finding:
    """Candidate over baseline of three or more pairs of runs, finite and above 0, against 1 + margin or 1 - margin.

    `n` are the data of both sides and `unit` their name; `counts` are the words after the figures.
    """
    repeated = statistics.repeated_ratio([1.0] * len(ratios), ratios, alpha)
    interval, limit = rounded_interval(repeated), _limit(rule, higher_is_better)
    measured = Measured(
        method="repeated_runs",
        n=n,
        interval=interval,
        limit=limit,
        outcome=at_least(interval, limit) if higher_is_better else at_most(interval, limit),
        what="ratio",
        counts=counts,
        p=repeated.p_at_least(limit) if higher_is_better else repeated.p_at_most(limit),
        enough=rule.min_pass,
        total=min(n) * scaled(math.log(interval.hi / interval.lo) / 2, math.log(limit / interval.estimate)),
        unit=unit,
    )
    return conclude(rule, measured)


def _limit(rule: Rule, higher_is_better: bool) -> float:
    return round(1 - rule.bound if higher_is_better else 1 + rule.bound, 9)
