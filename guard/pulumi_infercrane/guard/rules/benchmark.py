"""Rules over a load run: failures, latency quantiles against the baseline, attainment of objectives."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from pulumi_infercrane.guard.comparability import load_problem
from pulumi_infercrane.guard.evidence.records import Requests
from pulumi_infercrane.guard.latency import Quantile, judge_quantile
from pulumi_infercrane.guard.proportions import Count, Counting, count, failures, judge_difference, judge_share
from pulumi_infercrane.guard.reasons import Problem
from pulumi_infercrane.guard.rule import Finding, Kind, Member, Rule, RuleForm, Settings, Sides, unknown
from pulumi_infercrane.guard.statistics import lower_bound

SAME_DAY = timedelta(hours=24)
OLDEST_BASELINE = timedelta(days=7)
DEFAULT_ERROR_LIMIT = 0.01

_QUANTILES = {
    "ttft_p50": Quantile("ttft_s", 0.50, 0.10, hard=True, min_pass=500),
    "ttft_p95": Quantile("ttft_s", 0.95, 0.15, hard=True, min_pass=1000),
    "ttft_p99": Quantile("ttft_s", 0.99, 0.25, hard=False, min_pass=2000),
    "tpot_p50": Quantile("tpot_s", 0.50, 0.10, hard=True, min_pass=200),
    "tpot_p95": Quantile("tpot_s", 0.95, 0.15, hard=True, min_pass=200),
    "e2e_p95": Quantile("e2e_s", 0.95, 0.15, hard=False, min_pass=1000),
}
_PROPORTIONS = {
    "error_fraction": RuleForm("limit", DEFAULT_ERROR_LIMIT, hard=True, min_pass=1, min_compute=1),
    "error_fraction_difference": RuleForm("margin", 0.005, hard=True, min_pass=1, min_compute=1),
    "attainment": RuleForm("limit", 0.95, hard=True, min_pass=1, min_compute=1),
}


def _form(rule_id: str) -> RuleForm | None:
    name = _name(rule_id)
    return _QUANTILES[name].form if name in _QUANTILES else _PROPORTIONS.get(name)


def _check(member: Member, settings: Settings) -> Problem | None:
    duration = (member.envelope.window.ended - member.envelope.window.started).total_seconds()
    if duration >= settings.min_duration_s:
        return None
    return Problem("truncated", f"measured for {duration:g} s, at least {settings.min_duration_s:g} s are required")


def _judge(rule: Rule, sides: Sides, settings: Settings) -> Finding:
    name = _name(rule.id)
    problem = _uncounted(sides.candidate)
    if problem:
        return unknown(problem.code, problem.detail)
    if name == "error_fraction":
        return judge_share(rule, sides.candidate, failures, rule.bound, settings.alpha)
    if name == "attainment":
        return _judge_attainment(rule, sides.candidate, settings)
    problem = (
        sides.no_baseline or _uncounted(sides.baseline) or _baseline_problem(sides, settings) or load_problem(sides)
    )
    if problem:
        return unknown(problem.code, problem.detail)
    finding = _against_baseline(rule, name, sides, settings)
    return finding if _gap(sides) <= SAME_DAY else replace(finding, notes=(*finding.notes, "stale_baseline"))


def _name(rule_id: str) -> str:
    return rule_id.partition(".")[2]


def _against_baseline(rule: Rule, name: str, sides: Sides, settings: Settings) -> Finding:
    if name in _QUANTILES:
        return judge_quantile(rule, _QUANTILES[name], sides, settings)
    return judge_difference(rule, sides, settings.alpha)


def _uncounted(members: Sequence[Member]) -> Problem | None:
    """Failures that nobody counted are not zero failures."""
    for member in members:
        if member.record.attempted is None or member.record.failed is None:
            tool = member.envelope.primary.tool
            return Problem("counters_disagree", f"{tool} does not say how many requests were attempted and failed")
    return None


def _judge_attainment(rule: Rule, members: Sequence[Member], settings: Settings) -> Finding:
    for member in members:
        if member.record.requests is None and dict(member.record.slo) != dict(settings.slo):
            return unknown("not_comparable", "the file counts good requests by other objectives than the policy's")
    return judge_share(rule, members, _misses(settings.slo), round(1 - rule.bound, 9), settings.alpha)


def _misses(slo: Mapping[str, float]) -> Counting:
    """A request misses when it failed or exceeds an objective it has a figure for."""

    def counting(member: Member) -> Count:
        requests: Requests | None = member.record.requests
        if requests is None:
            return member.record.attempted - (member.record.good or 0), member.record.attempted
        columns = [(getattr(requests, name), most) for name, most in slo.items()]
        missed = sum(not ok or any(column[i] > most for column, most in columns) for i, ok in enumerate(requests.ok))
        return missed, len(requests)

    return counting


def _baseline_problem(sides: Sides, settings: Settings) -> Problem | None:
    gap = _gap(sides)
    if gap > OLDEST_BASELINE:
        return Problem("stale", f"the baseline was measured {gap.days} days apart from the candidate")
    k, n = count(sides.baseline, failures)
    limit = settings.bounds.get("benchmark.error_fraction", DEFAULT_ERROR_LIMIT)
    if lower_bound(k, n, settings.alpha) <= limit:
        return None
    return Problem("baseline_broken", f"{k} of {n} requests to the baseline failed, itself beyond {limit:g}")


def _gap(sides: Sides) -> timedelta:
    return abs(_newest(sides.candidate) - _newest(sides.baseline))


def _newest(members: Sequence[Member]) -> datetime:
    return max(member.envelope.window.ended for member in members)


KIND = Kind(
    name="benchmark",
    max_age=timedelta(days=7),
    form=_form,
    example="benchmark.error_fraction",
    check=_check,
    judge=_judge,
)
