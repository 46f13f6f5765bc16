"""Judging output tokens per second of an accelerator against the baseline's."""

from dataclasses import replace

from pulumi_infercrane.guard.judging.rule import Finding, Member, Rule, RuleForm, Settings, Sides, ids, unknown
from pulumi_infercrane.guard.judging.summaries import Figure, judge_summaries

FORM = RuleForm("margin", 0.10, hard=False, min_pass=1, min_compute=1, unit="1 - ratio")


def judge_throughput(rule: Rule, sides: Sides, settings: Settings) -> Finding:
    """The ratio against 1 - margin. Only a closed loop measures what a revision can do, an open one what was asked."""
    if any(_load_model(member) != "closed" for member in sides.all):
        detail = "only a closed loop measures throughput, an open one measures the traffic it was given"
        return unknown("not_comparable", detail, needs="a run with fixed concurrency and no arrival rate")
    missing = next((member for member in sides.all if not _per_accelerator(member)), None)
    if missing is not None:
        return unknown("no_evidence", f"{missing.envelope.primary.tool} wrote no output tokens per second")
    figure = Figure("output tokens per second", _per_accelerator, higher_is_better=True, advice="more runs")
    return replace(judge_summaries(rule, figure, sides, settings.alpha), evidence=ids(sides.all))


def _load_model(member: Member) -> str:
    return member.record.load_model or member.envelope.scenario.load_model or ""


def _per_accelerator(member: Member) -> float | None:
    total = member.record.out_tokens_per_s
    return None if total is None else total / max(1, member.envelope.subject.accelerator.count)
