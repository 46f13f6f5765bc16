"""Answers of both sides item by item: how many were lost and gained."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pulumi_infercrane.guard.judging.rule import Member, Sides
from pulumi_infercrane.guard.report._common import rows
from pulumi_infercrane.guard.report._elements import box, drawing, figure, keys, label, outcome, text

HEIGHT = 44
_SCORED = re.compile(r"quality\.([\w-]+)(?:\.(?!invalid$|truncated$)[\w-]+)?")
_DIGIT = 4.0
"""Percent of a narrow page's width that a digit of a number takes within its part."""
_SAID = (
    "Every item the active revision answered, compared with the candidate's answer to the same item. Only the lost and "
    "the gained ones tell the two apart; an item the candidate did not answer is lost."
)
_FILLS = {"lost": "hatch", "gained": "dots", "same": ""}


@dataclass(frozen=True)
class Pairs:
    """Items by how the candidate's score compares with the active revision's."""

    lost: int
    gained: int
    same: int
    right: int
    """Of the same: with full score on both sides."""

    @property
    def all(self) -> int:
        return self.lost + self.gained + self.same


def draw(record: Mapping[str, Any], sides: Sides) -> Iterator[str]:
    """One figure per task whose scores the policy judges."""
    for row in rows(record):
        match = _SCORED.fullmatch(row.rule)
        pairs = paired(match[1], sides) if match else None
        if pairs and pairs.all:
            verdict = f"<p>{outcome(row.outcome)}: {text(row.message)}</p>"
            yield figure(f"Paired answers: {row.rule}", _SAID, _legend(pairs), _bar(row.rule, pairs), verdict)


def paired(task: str, sides: Sides) -> Pairs:
    """Items of a task, repeated passes averaged, as the rules pair them."""
    active, candidate = (_scores(task, side) for side in (sides.baseline, sides.candidate))
    both = [(score, candidate.get(item, 0.0)) for item, score in active.items()]
    lost, gained = sum(c < a for a, c in both), sum(c > a for a, c in both)
    return Pairs(lost, gained, len(both) - lost - gained, sum(a == c == 1.0 for a, c in both))


def _scores(task: str, members: Sequence[Member]) -> Mapping[str, float]:
    scores: dict[str, list[float]] = {}
    for member in members:
        if member.record.task == task:
            for item, answer in member.record.answers.items():
                scores.setdefault(item, []).append(answer.score)
    return {item: math.fsum(sorted(passes)) / len(passes) for item, passes in scores.items()}


def _parts(pairs: Pairs) -> Mapping[str, int]:
    return {"lost": pairs.lost, "gained": pairs.gained, "same": pairs.same}


def _legend(pairs: Pairs) -> str:
    frame = '<rect class="part {0}" x="-16" y="-8" width="32" height="16"/>'
    fill = '<rect x="-16" y="-8" width="32" height="16" fill="url(#{0})"/>'
    names = {
        "lost": f"lost: {pairs.lost}",
        "gained": f"gained: {pairs.gained}",
        "same": f"the same: {pairs.same}, of them {pairs.right} right on both sides",
    }
    return keys(
        {name: frame.format(part) + (fill.format(_FILLS[part]) if _FILLS[part] else "") for part, name in names.items()}
    )


def _bar(rule: str, pairs: Pairs) -> str:
    title = f"{rule}: {pairs.lost} lost, {pairs.gained} gained of {pairs.all} pairs"
    description = f"{pairs.same} items have the same score on both sides, {pairs.right} of them the full score"
    return drawing(title, description, HEIGHT, "".join(_segments(pairs)))


def _segments(pairs: Pairs) -> Iterator[str]:
    start = 0.0
    for part, count in _parts(pairs).items():
        width = 100 * count / pairs.all
        if count:
            yield box(start, 5, width, 90, f"part {part}", _FILLS[part])
        if width >= _DIGIT * (len(str(count)) + 1):
            yield label(start + width / 2, 50, str(count), "count", dy=5)
        start += width
