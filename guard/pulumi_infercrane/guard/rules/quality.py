"""Rules over a task's answers, paired by item: `quality.<task>` or `quality.<task>.<metric>` for the score,
`quality.<task>.invalid` for failed or empty answers, `quality.<task>.truncated` for answers cut at the token limit."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from pulumi_infercrane.guard import statistics
from pulumi_infercrane.guard.comparability import version_problem
from pulumi_infercrane.guard.evidence.records import Answer
from pulumi_infercrane.guard.reasons import Problem
from pulumi_infercrane.guard.rule import (
    Finding,
    Kind,
    Measured,
    Member,
    Rule,
    RuleForm,
    Settings,
    Sides,
    at_least,
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

_SCORE = RuleForm("margin", 0.02, hard=True, min_pass=300, min_compute=30)
_SHARE = RuleForm("margin", 0.01, hard=True, min_pass=300, min_compute=30)
_ID = re.compile(r"quality\.([A-Za-z0-9_-]+)(?:\.([A-Za-z0-9_-]+))?")


@dataclass(frozen=True)
class _Measure:
    """What is compared per item, 0..1, and what an item counts that the candidate did not answer."""

    value: Callable[[Answer], float]
    missing: float
    higher_is_better: bool
    what: str


_SCORED = _Measure(lambda answer: answer.score, 0.0, higher_is_better=True, what="difference")
_SHARES = {
    "invalid": _Measure(lambda answer: float(answer.empty or not answer.ok), 1.0, False, "invalid share, difference"),
    "truncated": _Measure(lambda answer: float(answer.cut), 1.0, False, "truncated share, difference"),
}


def _form(rule_id: str) -> RuleForm | None:
    match = _ID.fullmatch(rule_id)
    if match is None:
        return None
    return _SHARE if match[2] in _SHARES else _SCORE


def _check(member: Member, settings: Settings) -> Problem | None:
    return None


def _judge(rule: Rule, sides: Sides, settings: Settings) -> Finding:
    task, _, part = rule.id.removeprefix("quality.").partition(".")
    of_task = Sides(_of(task, sides.candidate), _of(task, sides.baseline), sides.no_baseline)
    problem = _problem(task, part, of_task)
    if problem:
        return unknown(problem.code, problem.detail)
    measure = _SHARES.get(part, _SCORED)
    pairs = _pairs(of_task, measure)
    if len(pairs) < rule.min_compute:
        detail = f"{len(pairs)} of {rule.min_pass} pairs, no interval is formed below {rule.min_compute}"
        finding = unknown("insufficient_n", detail, needs=more_needed(rule.min_pass, len(pairs), "pairs"))
    else:
        finding = _paired(rule, measure, pairs, of_task, settings.alpha)
    return replace(finding, evidence=ids(of_task.all))


def _of(task: str, members: Sequence[Member]) -> tuple[Member, ...]:
    return tuple(member for member in members if member.record.task == task)


def _problem(task: str, part: str, sides: Sides) -> Problem | None:
    if not sides.candidate:
        return Problem("no_evidence", f"no admissible candidate evidence for task {task!r}")
    if not sides.baseline:
        return sides.no_baseline or Problem("no_evidence", f"no admissible baseline evidence for task {task!r}")
    return version_problem(sides.all) or _task_problem(part, sides)


def _task_problem(part: str, sides: Sides) -> Problem | None:
    metrics = {member.record.metric for member in sides.all}
    if len({member.record.tasks_digest for member in sides.all}) > 1:
        return Problem("not_comparable", "the two sides answered different task files")
    if len(metrics) > 1 or (part and part not in _SHARES and part not in metrics):
        wanted = f", the rule judges {part}" if part else ""
        return Problem("not_comparable", f"scored by {' and '.join(sorted(metrics))}{wanted}")
    return None


# --- pairs ------------------------------------------------------------------------------------------------------


def _pairs(sides: Sides, measure: _Measure) -> list[tuple[float, float]]:
    """Baseline and candidate value of every item the baseline answered; repeated passes are averaged per item."""
    baseline, candidate = _values(sides.baseline, measure), _values(sides.candidate, measure)
    return [(value, candidate.get(item, measure.missing)) for item, value in sorted(baseline.items())]


def _values(members: Sequence[Member], measure: _Measure) -> Mapping[str, float]:
    values: dict[str, list[float]] = {}
    for member in members:
        for item, answer in member.record.answers.items():
            values.setdefault(item, []).append(measure.value(answer))
    return {item: math.fsum(sorted(passes)) / len(passes) for item, passes in values.items()}


def _paired(rule: Rule, measure: _Measure, pairs: Sequence[tuple[float, float]], sides: Sides, alpha: float) -> Finding:
    difference = statistics.paired_difference([candidate - baseline for baseline, candidate in pairs], alpha)
    finding = conclude(rule, _measured(rule, measure, difference, alpha), _notes(measure, pairs, difference))
    if any(_passes_disagree(side, measure, alpha) for side in (sides.baseline, sides.candidate)):
        return in_conflict(finding)
    degenerate = _degenerate(measure, pairs, sides)
    if finding.outcome != "fail" and degenerate:
        return replace(finding, outcome="unknown", code="degenerate", detail=degenerate, needs="")
    return finding


def _measured(rule: Rule, measure: _Measure, difference: statistics.Paired, alpha: float) -> Measured:
    interval, n = rounded_interval(difference), difference.pairs
    limit = -rule.bound if measure.higher_is_better else rule.bound
    outcome = at_least(interval, limit) if measure.higher_is_better else at_most(interval, limit)
    worse, better = difference.lost, difference.gained
    if not measure.higher_is_better:
        worse, better = better, worse
    if outcome == "fail" and statistics.binomial_at_least(worse, worse + better, 0.5) > alpha:
        outcome = "unknown"
    beyond = limit - difference.estimate if measure.higher_is_better else difference.estimate - limit
    return Measured(
        method="agresti_min",
        n=(n,),
        interval=interval,
        limit=limit,
        outcome=outcome,
        what=measure.what,
        counts=_counts(measure, difference),
        p=statistics.normal_tail(beyond / difference.se),
        enough=rule.min_pass,
        total=_pairs_to_settle(difference, rule.bound, limit, alpha),
        unit="pairs",
    )


def _counts(measure: _Measure, difference: statistics.Paired) -> str:
    if measure.higher_is_better:
        return f"{difference.lost} lost / {difference.gained} gained of {difference.pairs}"
    return f"{difference.gained} more / {difference.lost} fewer of {difference.pairs}"


def _pairs_to_settle(difference: statistics.Paired, margin: float, limit: float, alpha: float) -> float:
    """From the observed discordance as if the revisions were equal; if that is too few, as if the estimate stayed."""
    discordant = difference.lost + difference.gained
    n = difference.pairs
    if margin:
        equal = statistics.pairs_needed(max(discordant, 1) / n, margin, alpha)
        if equal > n:
            return equal
    half = statistics.normal_quantile(alpha) * difference.se
    return n * scaled(half, difference.estimate - limit)


def _notes(measure: _Measure, pairs: Sequence[tuple[float, float]], difference: statistics.Paired) -> tuple[str, ...]:
    mcnemar = f"mcnemar_p {difference.mcnemar_p:.3g}"
    saturated = measure is _SCORED and all(pair == (1.0, 1.0) for pair in pairs)
    return (mcnemar, "saturated") if saturated else (mcnemar,)


def _passes_disagree(members: Sequence[Member], measure: _Measure, alpha: float) -> bool:
    means = [_values([member], measure) for member in members]
    return disagree([statistics.wilson(math.fsum(m.values()) / len(m), len(m), alpha) for m in means if m])


def _degenerate(measure: _Measure, pairs: Sequence[tuple[float, float]], sides: Sides) -> str:
    if measure is _SCORED and not any(baseline or candidate for baseline, candidate in pairs):
        return "every answer of both sides scored 0: the task tells nothing about these revisions"
    for name, side in (("candidate", sides.candidate), ("baseline", sides.baseline)):
        texts = {answer.text_sha256 for member in side for answer in member.record.answers.values() if answer.ok}
        if len(texts) == 1 and len(pairs) > 1:
            return f"every answer of the {name} is the same text"
    return ""


KIND = Kind(
    name="quality",
    max_age=timedelta(days=30),
    form=_form,
    example="quality.<task>",
    check=_check,
    judge=_judge,
)
