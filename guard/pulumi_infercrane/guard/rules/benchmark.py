"""Rules over a load run: failures, latency quantiles and throughput against the baseline, attainment of objectives."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from pulumi_infercrane.guard.evidence.records import Requests
from pulumi_infercrane.guard.judging import throughput
from pulumi_infercrane.guard.judging.comparability import load_problem, version_problem
from pulumi_infercrane.guard.judging.latency import Quantile, judge_quantile
from pulumi_infercrane.guard.judging.proportions import Count, Counting, count, failures, judge_difference, judge_share
from pulumi_infercrane.guard.judging.rule import (
    Finding,
    Kind,
    Member,
    Rule,
    RuleForm,
    Settings,
    Sides,
    too_short,
    unjudged,
    unknown,
)
from pulumi_infercrane.guard.reasons import Problem
from pulumi_infercrane.guard.statistics import lower_bound

SAME_DAY = timedelta(hours=24)
OLDEST_BASELINE = timedelta(days=7)
DEFAULT_ERROR_LIMIT = 0.01
TOLERATED_INCOMPLETE = 0.05
ACHIEVED_SHARE = 0.95

_COUNTS_NEEDED = "planned.requests in the envelope, or a file that keeps every request"

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
    "empty_fraction": RuleForm("limit", 0.01, hard=True, min_pass=1, min_compute=1),
    "attainment": RuleForm("limit", 0.95, hard=True, min_pass=1, min_compute=1),
}
_THROUGHPUT = "out_tokens_per_s"
_TOKEN_RULES = {_THROUGHPUT, *(name for name, spec in _QUANTILES.items() if spec.metric == "tpot_s")}


def _form(rule_id: str) -> RuleForm | None:
    name = _name(rule_id)
    if name == _THROUGHPUT:
        return throughput.FORM
    return _QUANTILES[name].form if name in _QUANTILES else _PROPORTIONS.get(name)


def _check(member: Member, settings: Settings) -> Problem | None:
    record = member.record
    if record.incomplete > TOLERATED_INCOMPLETE * (record.attempted or 0):
        text = f"{record.incomplete} of {record.attempted} requests were cut at the end of the run"
        return Problem("truncated", text)
    return too_short(member, settings)


def _judge(rule: Rule, sides: Sides, settings: Settings) -> Finding:
    problem = _uncounted(sides.candidate)
    if problem:
        return unjudged(problem, needs=_COUNTS_NEEDED)
    return _relative(rule, sides, settings) if rule.relative else _absolute(rule, sides, settings)


def _absolute(rule: Rule, sides: Sides, settings: Settings) -> Finding:
    """Of the candidate alone. What fails although the client was too slow fails; what passes was not tried."""
    name = _name(rule.id)
    if name == "attainment":
        finding = _judge_attainment(rule, sides, settings)
    elif name == "empty_fraction":
        finding = _judge_empty(rule, sides, settings)
    else:
        finding = judge_share(rule, sides.candidate, failures, rule.bound, settings.alpha, _superseded(rule, sides))
    saturated = _saturated(sides.candidate)
    return unjudged(saturated) if saturated and finding.outcome == "pass" else finding


def _superseded(rule: Rule, sides: Sides) -> list[Member]:
    """Superseded pieces that can still fail this rule."""
    return [member for member in sides.still_counting(rule) if _uncounted([member]) is None]


def _relative(rule: Rule, sides: Sides, settings: Settings) -> Finding:
    name = _name(rule.id)
    problem = (
        sides.no_baseline
        or version_problem(sides.all)
        or _uncounted(sides.baseline)
        or (_doubted(sides.all) if name in _TOKEN_RULES else None)
        or _baseline_problem(sides, settings)
        or load_problem(sides)
        or _saturated(sides.all)
    )
    if problem:
        return unjudged(problem)
    finding = _against_baseline(rule, name, sides, settings)
    return finding if _gap(sides) <= SAME_DAY else replace(finding, notes=(*finding.notes, "stale_baseline"))


def _name(rule_id: str) -> str:
    return rule_id.partition(".")[2]


def _against_baseline(rule: Rule, name: str, sides: Sides, settings: Settings) -> Finding:
    if name in _QUANTILES:
        return judge_quantile(rule, _QUANTILES[name], sides, settings)
    if name == _THROUGHPUT:
        return throughput.judge_throughput(rule, sides, settings)
    return judge_difference(rule, sides, settings.alpha)


def _uncounted(members: Sequence[Member]) -> Problem | None:
    """Failures that nobody counted are not zero failures."""
    for member in members:
        if member.record.attempted is None or member.record.failed is None:
            tool = member.envelope.primary.tool
            return Problem("counters_disagree", f"{tool} does not say how many requests were attempted and failed")
    return None


def _doubted(members: Sequence[Member]) -> Problem | None:
    doubt = next((member.record.token_doubt for member in members if member.record.token_doubt), "")
    return Problem("counters_disagree", doubt) if doubt else None


def _saturated(members: Sequence[Member]) -> Problem | None:
    """The measuring client did not keep up: what was measured is its own pace."""
    for record in (member.record for member in members):
        if record.saturation:
            return Problem("client_saturated", record.saturation)
        if record.rate and record.rate_achieved is not None and record.rate_achieved < ACHIEVED_SHARE * record.rate:
            detail = f"{record.rate_achieved:.4g} requests per second were sent, {record.rate:.4g} were asked for"
            return Problem("client_saturated", detail)
    return None


# --- empty answers ----------------------------------------------------------------------------------------------


def _judge_empty(rule: Rule, sides: Sides, settings: Settings) -> Finding:
    """A server that answers at once with nothing is fast and never fails."""
    blind = next((member for member in sides.candidate if _empty(member) is None), None)
    if blind is not None:
        return unknown("no_evidence", f"{blind.envelope.primary.tool} does not say which answers were empty")
    superseded = [member for member in _superseded(rule, sides) if _empty(member) is not None]
    return judge_share(rule, sides.candidate, _empties, rule.bound, settings.alpha, superseded)


def _empty(member: Member) -> int | None:
    """Answers without a single token; None when the file does not tell."""
    requests: Requests | None = member.record.requests
    if requests is None or requests.lacking("out_tokens"):
        empty: int | None = member.record.empty
        return empty
    return sum(bool(ok) and tokens == 0 for ok, tokens in zip(requests.ok, requests.out_tokens, strict=True))


def _empties(member: Member) -> Count:
    return _empty(member) or 0, member.record.attempted


# --- attainment -------------------------------------------------------------------------------------------------


def _judge_attainment(rule: Rule, sides: Sides, settings: Settings) -> Finding:
    members, slo = sides.candidate, settings.slo
    problem = next((found for member in members if (found := _uncountable(member, slo))), None)
    if problem:
        return unjudged(problem)
    superseded = [member for member in _superseded(rule, sides) if _uncountable(member, slo) is None]
    return judge_share(rule, members, _misses(slo), round(1 - rule.bound, 9), settings.alpha, superseded)


def _uncountable(member: Member, slo: Mapping[str, float]) -> Problem | None:
    record = member.record
    if "tpot_s" in slo and record.token_doubt:
        return Problem("counters_disagree", record.token_doubt)
    if _has_all(record.requests, slo):
        return None
    if record.good is None:
        detail = f"{member.envelope.primary.tool} counted no good requests, nor kept every request with its figures"
        return Problem("no_evidence", detail)
    if dict(record.slo) != dict(slo):
        return Problem("not_comparable", "the file counts good requests by other objectives than the policy's")
    return None


def _has_all(requests: Requests | None, slo: Mapping[str, float]) -> bool:
    return requests is not None and not any(requests.lacking(name) for name in slo)


def _misses(slo: Mapping[str, float]) -> Counting:
    """A request misses when it failed, was answered with nothing, or exceeds an objective it has a figure for."""

    def counting(member: Member) -> Count:
        requests: Requests | None = member.record.requests
        if requests is None or not _has_all(requests, slo):
            return member.record.attempted - member.record.good, member.record.attempted
        columns = [(getattr(requests, name), most) for name, most in slo.items()]
        missed = sum(
            not ok or requests.out_tokens[i] == 0 or any(column[i] > most for column, most in columns)
            for i, ok in enumerate(requests.ok)
        )
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
    forms={
        **{f"benchmark.{name}": form for name, form in _PROPORTIONS.items()},
        **{f"benchmark.{name}": quantile.form for name, quantile in _QUANTILES.items()},
        f"benchmark.{_THROUGHPUT}": throughput.FORM,
    },
    example="benchmark.error_fraction",
    check=_check,
    judge=_judge,
)
