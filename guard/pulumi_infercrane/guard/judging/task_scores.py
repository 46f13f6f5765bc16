"""Scores of one task on both sides: paired item by item where both sides have items, else compared as two means."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pulumi_infercrane.guard import statistics
from pulumi_infercrane.guard.evidence.records import Answer, Score
from pulumi_infercrane.guard.judging.pairs import Pair, Pairs
from pulumi_infercrane.guard.judging.rule import Member, Sides, disagree
from pulumi_infercrane.guard.reasons import Problem


@dataclass(frozen=True)
class Measure:
    """What is compared per item, 0..1, and what an item counts that the candidate did not answer."""

    value: Callable[[Answer], float]
    missing: float
    higher_is_better: bool
    what: str


SCORE = Measure(lambda answer: answer.score, 0.0, higher_is_better=True, what="difference")


def of_task(task: str, metric: str, sides: Sides) -> Sides:
    """The evidence about one task; where a metric is named and there, only that which was scored by it."""
    candidate, baseline = (
        tuple(member for member in side if member.record.task == task) for side in (sides.candidate, sides.baseline)
    )
    if any(member.record.metric == metric for member in candidate + baseline):
        candidate, baseline = (
            tuple(member for member in side if member.record.metric == metric) for side in (candidate, baseline)
        )
    return Sides(candidate, baseline, sides.no_baseline)


def task_problem(sides: Sides) -> Problem | None:
    """Why the two sides did not answer the same; None when they did."""
    if len({member.record.tasks_digest for member in sides.all}) > 1:
        return Problem("not_comparable", "the two sides answered different task files")
    templates = {member.envelope.subject.chat_template_sha for member in sides.all}
    if len(templates) == 1 and len({member.record.prompts_digest for member in sides.all}) > 1:
        return Problem("not_comparable", "the two sides were asked with different prompts, by the same chat template")
    return None


def have_items(sides: Sides) -> bool:
    """Every piece of evidence of both sides holds its items."""
    return all(member.record.answers for member in sides.all)


def pairs(sides: Sides, measure: Measure) -> list[Pair]:
    """Every item the baseline answered; repeated passes are averaged per item."""
    baseline, candidate = _values(sides.baseline, measure), _values(sides.candidate, measure)
    return [(value, candidate.get(item, measure.missing)) for item, value in sorted(baseline.items())]


def unpaired_at_worst(sides: Sides, measure: Measure) -> list[Pair]:
    """Items that only the candidate answered, as if the baseline had been at its best in each of them."""
    baseline, candidate = _values(sides.baseline, measure), _values(sides.candidate, measure)
    return [(1.0 - measure.missing, value) for item, value in sorted(candidate.items()) if item not in baseline]


def difference(paired: Pairs, alpha: float) -> statistics.Paired:
    """Candidate minus baseline."""
    return statistics.paired_difference([candidate - baseline for baseline, candidate in paired], alpha)


def means(sides: Sides, alpha: float) -> statistics.Difference | Problem:
    """Candidate minus baseline mean, from one summary of each side and its standard error."""
    scores = []
    for name, side in (("baseline", sides.baseline), ("candidate", sides.candidate)):
        if len(side) > 1:
            return Problem("summary_only", f"{len(side)} summaries of the {name}: means of runs are never averaged")
        score = side[0].record.summary
        if score is None or not score.stderr:
            return Problem("summary_only", f"the {name} has neither items nor a mean with a standard error")
        scores.append(score)
    base, cand = scores
    return statistics.unpaired_scores(base.value, base.stderr, cand.value, cand.stderr, alpha)


def items_behind(member: Member) -> int:
    """Items a summary is over; where the file does not say, as many as its standard error is that of a share of."""
    score: Score = member.record.summary
    if score.n is not None:
        return score.n
    return round(score.value * (1 - score.value) / (score.stderr or 1.0) ** 2) + 1


def passes_disagree(sides: Sides, measure: Measure, alpha: float) -> bool:
    """Repeated passes of one side differ by more than noise."""
    return any(_disagree(side, measure, alpha) for side in (sides.baseline, sides.candidate))


def degenerate(paired: Pairs, sides: Sides) -> str:
    """Why equal scores prove nothing; empty when they do."""
    for name, side in (("candidate", sides.candidate), ("baseline", sides.baseline)):
        for member in side:
            if member.record.constant:
                return f"{name}: {member.record.constant}"
    if not any(baseline or candidate for baseline, candidate in paired):
        return "every answer of both sides scored 0: the task tells nothing about these revisions"
    return _one_text(paired, sides)


def _one_text(paired: Pairs, sides: Sides) -> str:
    for name, side in (("candidate", sides.candidate), ("baseline", sides.baseline)):
        answers = [answer for member in side for answer in member.record.answers.values()]
        texts = {answer.text_sha256 for answer in answers if answer.ok and answer.text_sha256}
        if len(texts) == 1 and len(paired) > 1:
            return f"every answer of the {name} is the same text"
    return ""


def _values(members: Sequence[Member], measure: Measure) -> Mapping[str, float]:
    values: dict[str, list[float]] = {}
    for member in members:
        for item, answer in member.record.answers.items():
            values.setdefault(item, []).append(measure.value(answer))
    return {item: math.fsum(sorted(passes)) / len(passes) for item, passes in values.items()}


def _disagree(members: Sequence[Member], measure: Measure, alpha: float) -> bool:
    shares = [_values([member], measure) for member in members]
    return disagree([statistics.wilson(math.fsum(m.values()) / len(m), len(m), alpha) for m in shares if m])
