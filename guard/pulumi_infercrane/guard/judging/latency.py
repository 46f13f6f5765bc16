"""Judging latency quantiles against the baseline.

Failures count as infinitely slow, so a revision cannot look fast by answering less.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

from pulumi_infercrane.guard import statistics
from pulumi_infercrane.guard.evidence.readers import advice
from pulumi_infercrane.guard.judging.rule import (
    Finding,
    Measured,
    Member,
    Rule,
    RuleForm,
    Settings,
    Sides,
    at_most,
    conclude,
    disagree,
    ids,
    in_conflict,
    more_needed,
    rounded_interval,
    scaled,
    unknown,
)
from pulumi_infercrane.guard.judging.summaries import (
    NOT_AVERAGED,
    Figure,
    figure_ratio,
    judge_runs,
    judge_summaries,
    paired_runs,
)

SUSPECT_RATIO = (700.0, 1500.0)
"""Medians this far apart are milliseconds against seconds rather than a change of speed."""
BEYOND_QUANTILE = 10
"""Requests that must lie beyond a quantile before an interval is formed."""

FAILED_BEYOND = 0.2
"""Share of the requests beyond a quantile that may have failed before a summary of answers says too little."""

_BROKEN = "so many requests to the baseline failed that its quantile is infinite"


@dataclass(frozen=True)
class Quantile:
    """A latency rule: which figure of a request, which quantile, and the defaults."""

    metric: str
    q: float
    margin: float
    hard: bool
    min_pass: int

    @property
    def form(self) -> RuleForm:
        min_compute = math.ceil(round(BEYOND_QUANTILE / (1 - self.q), 6))
        return RuleForm("margin", self.margin, self.hard, self.min_pass, min_compute, unit="ratio - 1")


def judge_quantile(rule: Rule, spec: Quantile, sides: Sides, settings: Settings) -> Finding:
    """The ratio of the two sides' quantiles against 1 + margin."""
    detailed = [_is_detailed(member, spec.metric) for member in sides.all]
    if all(detailed):
        finding = _judge_requests(rule, spec, sides, settings)
    elif any(len(side) > 1 and _is_mixed(side, spec.metric) for side in (sides.baseline, sides.candidate)):
        detail = "one side has runs with every request and runs with a summary only: they cannot be pooled"
        finding = unknown(NOT_AVERAGED, detail, needs=_requests_advice(sides.all[detailed.index(False)]))
    else:
        finding = _judge_summaries(rule, spec, sides, settings)
    return replace(finding, evidence=ids(sides.all))


def pooled_seconds(members: Sequence[Member], metric: str) -> list[float]:
    """Sorted seconds of every request, +inf for a failed one.

    A request too short to have the figure is left out, and so is a run that kept none of any.
    """
    runs = [member.record.requests for member in members if _is_detailed(member, metric)]
    return sorted(chain.from_iterable(requests.seconds(metric) for requests in runs))


def _is_detailed(member: Member, metric: str) -> bool:
    requests = member.record.requests
    return requests is not None and bool(requests.has(metric))


def _is_mixed(side: Sequence[Member], metric: str) -> bool:
    return len({_is_detailed(member, metric) for member in side}) > 1


def _judge_requests(rule: Rule, spec: Quantile, sides: Sides, settings: Settings) -> Finding:
    baseline, candidate = pooled_seconds(sides.baseline, spec.metric), pooled_seconds(sides.candidate, spec.metric)
    finding = _too_few(rule, baseline, candidate) or _not_a_ratio(spec, baseline, candidate)
    pairs = _runs_of_enough(rule, spec, sides)
    if finding is None and pairs:
        figure = Figure(_name(spec), lambda run: adjusted_quantile(run, spec), higher_is_better=False, advice="")
        finding = judge_runs(rule, figure, pairs, (len(baseline), len(candidate)), settings.alpha)
    elif finding is None:
        finding = _ratio(rule, spec, baseline, candidate, settings)
        if _runs_disagree(sides, spec, rule.min_compute, settings.alpha):
            finding = in_conflict(finding)
    return finding


# --- summaries --------------------------------------------------------------------------------------------------


def _judge_summaries(rule: Rule, spec: Quantile, sides: Sides, settings: Settings) -> Finding:
    def value(member: Member) -> float | None:
        return adjusted_quantile(member, spec)

    missing = next((member for member in sides.all if value(member) is None), None)
    if missing is not None:
        return _not_written(spec, missing)
    if any(math.isinf(value(member) or 0.0) for member in sides.baseline):
        return unknown("baseline_broken", _BROKEN)
    figure = Figure(_name(spec), value, higher_is_better=False, advice=_requests_advice(sides.candidate[0]))
    ratios = [figure_ratio(figure, below, above) for below in sides.baseline for above in sides.candidate]
    suspect = next((ratio for ratio in ratios if _is_suspect(ratio)), None)
    if suspect is not None:
        return _suspect(suspect)
    finding = judge_summaries(rule, figure, sides, settings.alpha)
    if finding.outcome == "pass" and any(_leaves_out_failures(member, spec) for member in sides.candidate):
        detail = f"{finding.detail}; of answers only, and so many requests failed that they move the {_name(spec)}"
        return replace(finding, outcome="unknown", code="summary_only", detail=detail, needs=figure.advice)
    return finding


def adjusted_quantile(member: Member, spec: Quantile) -> float | None:
    """The quantile of one run in seconds; +inf when that share of its requests failed, None when it has none."""
    record = member.record
    if _is_detailed(member, spec.metric):
        ordered = pooled_seconds([member], spec.metric)
        return statistics.quantile(ordered, spec.q) if ordered else None
    if record.failed >= round((1 - spec.q) * record.attempted, 9):
        return math.inf
    latency = record.latencies.get(spec.metric)
    return latency.quantiles.get(spec.q) if latency else None


def _leaves_out_failures(member: Member, spec: Quantile) -> bool:
    """A summary of answers is not the quantile of all requests once failures fill a good part of what lies beyond."""
    record = member.record
    if _is_detailed(member, spec.metric) or record.latencies[spec.metric].adjusted:
        return False
    return bool(record.failed > FAILED_BEYOND * (1 - spec.q) * record.attempted)


def _not_written(spec: Quantile, member: Member) -> Finding:
    tool = member.envelope.primary
    options = advice(tool.tool, tool.tool_version, "FOR_QUANTILES") or advice(
        tool.tool, tool.tool_version, "FOR_REQUESTS"
    )
    needs = f"measure with {options}" if options else "measure with a tool that writes it"
    return unknown("no_evidence", f"{tool.tool} wrote no {_name(spec)}", needs=needs)


def _requests_advice(member: Member) -> str:
    tool = member.envelope.primary
    options = advice(tool.tool, tool.tool_version, "FOR_REQUESTS")
    return f"figures of every request ({options})" if options else "figures of every request"


def _name(spec: Quantile) -> str:
    return f"{spec.metric} p{round(100 * spec.q)}"


# --- requests ---------------------------------------------------------------------------------------------------


def _too_few(rule: Rule, baseline: Sequence[float], candidate: Sequence[float]) -> Finding | None:
    n = min(len(baseline), len(candidate))
    if n >= max(1, rule.min_compute):
        return None
    unit = "requests on each side"
    detail = f"{n} of {rule.min_pass} {unit}, no interval is formed below {rule.min_compute}"
    return unknown("insufficient_n", detail, needs=more_needed(rule.min_pass, n, unit))


def _not_a_ratio(spec: Quantile, baseline: Sequence[float], candidate: Sequence[float]) -> Finding | None:
    if math.isinf(statistics.quantile(baseline, spec.q)):
        return unknown("baseline_broken", _BROKEN)
    ratio = statistics.quantile(candidate, 0.5) / statistics.quantile(baseline, 0.5)
    return _suspect(ratio) if _is_suspect(ratio) else None


def _is_suspect(ratio: float) -> bool:
    low, high = SUSPECT_RATIO
    return low <= ratio <= high or 1 / high <= ratio <= 1 / low


def _suspect(ratio: float) -> Finding:
    return unknown("unit_suspect", f"the sides differ by a factor of {ratio:.3g}: milliseconds against seconds?")


def _runs_of_enough(rule: Rule, spec: Quantile, sides: Sides) -> Sequence[tuple[Member, Member]]:
    """Paired runs, when each of them alone has enough requests for its quantile."""
    pairs = paired_runs(sides)
    runs = [pooled_seconds([run], spec.metric) for pair in pairs for run in pair]
    return pairs if all(len(run) >= rule.min_compute for run in runs) else ()


def _ratio(
    rule: Rule, spec: Quantile, baseline: Sequence[float], candidate: Sequence[float], settings: Settings
) -> Finding:
    n = (len(baseline), len(candidate))
    ratio = statistics.quantile_ratio(baseline, candidate, spec.q, settings.alpha)
    interval, limit = rounded_interval(ratio), round(1 + rule.bound, 9)
    measured = Measured(
        method="bootstrap_ratio",
        n=n,
        interval=interval,
        limit=limit,
        outcome=at_most(interval, limit),
        what="ratio",
        counts=f"{n[1]} requests against {n[0]}",
        p=ratio.p_at_most(limit),
        enough=rule.min_pass,
        total=min(n) * scaled(_log_spread(ratio), _log_distance(interval.estimate, limit)),
        unit="requests on each side",
    )
    return conclude(rule, measured)


def _log_spread(ratio: statistics.Ratio) -> float:
    return math.log(ratio.hi / ratio.lo) / 2 if ratio.lo > 0 and math.isfinite(ratio.hi) else math.inf


def _log_distance(estimate: float, limit: float) -> float:
    return math.log(limit / estimate) if math.isfinite(estimate) else math.inf


def _runs_disagree(sides: Sides, spec: Quantile, min_compute: int, alpha: float) -> bool:
    return any(_disagree(side, spec, min_compute, alpha) for side in (sides.baseline, sides.candidate))


def _disagree(members: Sequence[Member], spec: Quantile, min_compute: int, alpha: float) -> bool:
    if len(members) < 2:
        return False
    runs = [pooled_seconds([member], spec.metric) for member in members]
    return disagree([statistics.quantile_interval(run, spec.q, alpha) for run in runs if len(run) >= min_compute])
