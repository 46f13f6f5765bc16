"""Rules over a task's answers: `quality.<task>` or `quality.<task>.<metric>` for the score, `quality.<task>.invalid`
for failed or empty answers, `quality.<task>.truncated` for answers cut at the token limit, `quality.mean` for the mean
over all tasks that have a score rule, each weighing the same.

Answers are paired by item. Without items on both sides the means are compared with their standard errors, which takes
about ten times as many of them.
"""

import re
from dataclasses import replace
from datetime import timedelta

from pulumi_infercrane.guard import statistics
from pulumi_infercrane.guard.judging import task_scores
from pulumi_infercrane.guard.judging.comparability import version_problem
from pulumi_infercrane.guard.judging.pairs import Pairs, judge_pairs, too_few_pairs
from pulumi_infercrane.guard.judging.rule import (
    Finding,
    Kind,
    Measured,
    Member,
    Rule,
    RuleForm,
    Settings,
    Sides,
    at_least,
    conclude,
    ids,
    in_conflict,
    more_needed,
    rounded_interval,
    scaled,
    unjudged,
    unknown,
)
from pulumi_infercrane.guard.judging.task_scores import SCORE, Measure
from pulumi_infercrane.guard.reasons import Problem

MEAN = "mean"

_SCORE = RuleForm("margin", 0.02, hard=True, min_pass=300, min_compute=30, unit="score 0..1", counts="pairs")
_SHARE = RuleForm("margin", 0.01, hard=True, min_pass=300, min_compute=30, counts="pairs")
_MEAN = RuleForm("margin", 0.01, hard=True, min_pass=300, min_compute=300, unit="score 0..1", counts="items in all")
_ID = re.compile(r"quality\.([A-Za-z0-9_-]+)(?:\.([A-Za-z0-9_-]+))?")
_PAIRS_WOULD_DO = "the items of both sides would settle it with fewer of them: give the per-item files too"

_SHARES = {
    "invalid": Measure(
        lambda answer: float(bool(answer.empty) or not answer.ok), 1.0, False, "invalid share, difference"
    ),
    "truncated": Measure(lambda answer: float(bool(answer.cut)), 1.0, False, "truncated share, difference"),
}
_SHOWN_BY = {
    "invalid": ("empty", "which answers were empty or unusable"),
    "truncated": ("cut", "which answers were cut at the token limit"),
}
"""Flag of an answer that a share is over, and what a tool does not say that leaves it None."""


def _form(rule_id: str) -> RuleForm | None:
    match = _ID.fullmatch(rule_id)
    if match is None or (match[1] == MEAN and match[2]):
        return None
    if match[1] == MEAN:
        return _MEAN
    return _SHARE if match[2] in _SHARES else _SCORE


def _check(member: Member, settings: Settings) -> Problem | None:
    """A run that left items out may have left out those that matter."""
    planned, attempted = member.record.planned, member.record.attempted
    if planned is None or attempted is None or attempted >= planned:
        return None
    return Problem("truncated", f"{attempted} of the task's {planned} items were asked; run it without a limit")


def _judge(rule: Rule, sides: Sides, settings: Settings) -> Finding:
    task, part = _names(rule.id)
    if task == MEAN:
        return _judge_mean(rule, sides, settings)
    about = task_scores.of_task(task, "" if part in _SHARES else part, sides)
    problem = _problem(task, part, about)
    if problem:
        return unjudged(problem)
    if task_scores.have_items(about):
        finding = _judge_items(rule, _SHARES.get(part, SCORE), about, settings.alpha)
    elif part in _SHARES:
        finding = unknown("summary_only", "without items there is no share of them", needs=_PAIRS_WOULD_DO)
    else:
        finding = _judge_means(rule, about, settings.alpha)
    return replace(finding, evidence=ids(about.all), notes=(*finding.notes, *_notes(about)))


def _names(rule_id: str) -> tuple[str, str]:
    task, _, part = rule_id.removeprefix("quality.").partition(".")
    return task, part


def _notes(sides: Sides) -> tuple[str, ...]:
    return tuple(sorted({note for member in sides.all for note in member.record.notes}))


# --- whether they can be compared -------------------------------------------------------------------------------


def _problem(task: str, part: str, sides: Sides) -> Problem | None:
    if not sides.candidate:
        return Problem("no_evidence", f"no admissible candidate evidence for task {task!r}")
    if not sides.baseline:
        return sides.no_baseline or Problem("no_evidence", f"no admissible baseline evidence for task {task!r}")
    return version_problem(sides.all) or task_scores.task_problem(sides) or _measure_problem(part, sides)


def _measure_problem(part: str, sides: Sides) -> Problem | None:
    if part in _SHARES:
        flag, what = _SHOWN_BY[part]
        answers = [answer for member in sides.all for answer in member.record.answers.values()]
        if all(getattr(answer, flag) is not None for answer in answers):
            return None
        return Problem("no_evidence", f"{sides.candidate[0].envelope.primary.tool} does not say {what}")
    metrics = {member.record.metric for member in sides.all}
    if len(metrics) > 1 or (part and part not in metrics):
        wanted = f", the rule judges {part}" if part else ""
        return Problem("not_comparable", f"scored by {' and '.join(sorted(metrics))}{wanted}")
    return None


# --- item by item -----------------------------------------------------------------------------------------------


def _judge_items(rule: Rule, measure: Measure, sides: Sides, alpha: float) -> Finding:
    pairs = task_scores.pairs(sides, measure)
    few = too_few_pairs(rule, len(pairs))
    if few:
        return few
    difference, judged = judge_pairs(rule, pairs, measure.higher_is_better, measure.what, alpha)
    finding = replace(judged, notes=_figures(measure, pairs, difference))
    if task_scores.passes_disagree(sides, measure, alpha):
        return in_conflict(finding)
    alone = task_scores.unpaired_at_worst(sides, measure)
    if alone and finding.outcome == "pass":
        _, worst = judge_pairs(rule, [*pairs, *alone], measure.higher_is_better, measure.what, alpha)
        if worst.outcome != "pass":
            detail = f"{len(alone)} items were answered by the candidate alone, which could hide a loss: {worst.detail}"
            return replace(finding, outcome="unknown", code="truncated", detail=detail, needs="both sides on all items")
    nothing = task_scores.degenerate(pairs, sides) if measure is SCORE else ""
    return finding if finding.outcome == "fail" or not nothing else _degenerate(finding, nothing)


def _degenerate(finding: Finding, why: str) -> Finding:
    return replace(finding, outcome="unknown", code="degenerate", detail=why, needs="")


def _figures(measure: Measure, pairs: Pairs, difference: statistics.Paired) -> tuple[str, ...]:
    mcnemar = f"mcnemar_p {difference.mcnemar_p:.3g}"
    saturated = measure is SCORE and all(pair == (1.0, 1.0) for pair in pairs)
    return (mcnemar, "saturated") if saturated else (mcnemar,)


# --- without items ----------------------------------------------------------------------------------------------


def _judge_means(rule: Rule, sides: Sides, alpha: float) -> Finding:
    difference = task_scores.means(sides, alpha)
    if isinstance(difference, Problem):
        return unknown(difference.code, difference.detail, needs=_PAIRS_WOULD_DO)
    n = (task_scores.items_behind(sides.baseline[0]), task_scores.items_behind(sides.candidate[0]))
    if min(n) < rule.min_compute:
        detail = f"{min(n)} of {rule.min_pass} items, no interval is formed below {rule.min_compute}"
        return unknown("insufficient_n", detail, needs=_PAIRS_WOULD_DO)
    finding = _from_difference(rule, difference, n, "unpaired", "two means", "items on each side", alpha)
    constant = next((member.record.constant for member in sides.all if member.record.constant), "")
    if constant and finding.outcome != "fail":
        return _degenerate(finding, constant)
    return replace(finding, needs=_PAIRS_WOULD_DO) if finding.outcome == "unknown" else finding


def _from_difference(
    rule: Rule,
    difference: statistics.Difference,
    n: tuple[int, ...],
    method: str,
    counts: str,
    unit: str,
    alpha: float,
) -> Finding:
    interval, limit = rounded_interval(difference), -rule.bound
    half = statistics.normal_quantile(alpha) * difference.se
    measured = Measured(
        method=method,
        n=n,
        interval=interval,
        limit=limit,
        outcome=at_least(interval, limit),
        what="difference",
        counts=counts,
        p=statistics.normal_tail((limit - difference.estimate) / difference.se),
        enough=rule.min_pass,
        total=min(n) * scaled(half, difference.estimate - limit),
        unit=unit,
    )
    return conclude(rule, measured)


# --- mean over tasks --------------------------------------------------------------------------------------------


def _judge_mean(rule: Rule, sides: Sides, settings: Settings) -> Finding:
    """A task without evidence keeps the mean from being formed: else leaving out a bad one would better it."""
    named = [_names(other) for other in sorted(settings.bounds) if other.startswith("quality.")]
    tasks = [(task, part) for task, part in named if task != MEAN and part not in _SHARES]
    if not tasks:
        return unknown("no_evidence", "no task has a score rule of its own to be averaged; add one like quality.<task>")
    differences: list[statistics.Difference] = []
    used: tuple[Member, ...] = ()
    items = 0
    for task, part in tasks:
        about = task_scores.of_task(task, part, sides)
        difference = _problem(task, part, about) or _task_difference(about, settings.alpha)
        if isinstance(difference, Problem):
            return unknown(difference.code, f"{task}: {difference.detail}")
        differences.append(difference)
        used += about.all
        items += _items(about)
    if items < rule.min_compute:
        needs = more_needed(rule.min_pass, items, "items")
        return unknown("insufficient_n", f"{items} of {rule.min_pass} items over {len(tasks)} tasks", needs=needs)
    mean = statistics.mean_over_tasks(differences, settings.alpha)
    counts = f"mean over {len(tasks)} tasks"
    finding = _from_difference(rule, mean, (items,), "mean_over_tasks", counts, "items in all", settings.alpha)
    return replace(finding, evidence=tuple(sorted(set(ids(used)))))


def _task_difference(sides: Sides, alpha: float) -> statistics.Difference | Problem:
    if not task_scores.have_items(sides):
        return task_scores.means(sides, alpha)
    pairs = task_scores.pairs(sides, SCORE)
    nothing = task_scores.degenerate(pairs, sides)
    return Problem("degenerate", nothing) if nothing else task_scores.difference(pairs, alpha)


def _items(sides: Sides) -> int:
    if task_scores.have_items(sides):
        return len(task_scores.pairs(sides, SCORE))
    return min(task_scores.items_behind(member) for member in sides.all)


KIND = Kind(
    name="quality",
    max_age=timedelta(days=30),
    form=_form,
    forms={
        "quality.<task>": _SCORE,
        "quality.<task>.<metric>": _SCORE,
        "quality.<task>.invalid": _SHARE,
        "quality.<task>.truncated": _SHARE,
        "quality.mean": _MEAN,
    },
    example="quality.<task>",
    check=_check,
    judge=_judge,
)
