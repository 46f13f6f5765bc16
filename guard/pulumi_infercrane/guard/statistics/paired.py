"""Differences of scores: item by item where both sides answered the same items, of two means where they did not."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pulumi_infercrane.guard.statistics.intervals import (
    POWER,
    Difference,
    binomial_at_least,
    binomial_at_most,
    normal_difference,
    normal_quantile,
)


@dataclass(frozen=True)
class Paired(Difference):
    """A paired difference: `lost` and `gained` pairs, exact two-sided McNemar p, exact one-sided p of the losses."""

    pairs: int
    lost: int
    gained: int
    mcnemar_p: float
    loss_p: float


def paired_difference(differences: Sequence[float], alpha: float = 0.05) -> Paired:
    """Agresti-Min interval of the mean of per-item differences, each candidate minus baseline in -1..1."""
    ordered = sorted(differences)
    size = len(ordered) + 2
    total = math.fsum(ordered)
    squares = math.fsum(d * d for d in ordered) + 1
    mean = total / size
    se = math.sqrt(squares - total * total / size) / size
    lost, gained = sum(d < 0 for d in ordered), sum(d > 0 for d in ordered)
    discordant = lost + gained
    p = min(1.0, 2 * binomial_at_most(min(lost, gained), discordant, 0.5))
    loss_p = binomial_at_least(lost, discordant, 0.5)
    half = normal_quantile(alpha) * se
    return Paired(mean, mean - half, mean + half, se, len(ordered), lost, gained, p, loss_p)


def unpaired_scores(
    baseline: float, baseline_se: float, candidate: float, candidate_se: float, alpha: float = 0.05
) -> Difference:
    """Difference of two mean scores, candidate minus baseline, from the standard errors of both sides."""
    return normal_difference(candidate - baseline, math.hypot(baseline_se, candidate_se), alpha)


def mean_over_tasks(tasks: Sequence[Difference], alpha: float = 0.05) -> Difference:
    """The mean of the differences of several tasks, at least one, each of which weighs the same."""
    mean = math.fsum(sorted(task.estimate for task in tasks)) / len(tasks)
    squares = math.fsum(sorted(task.se * task.se for task in tasks))
    return normal_difference(mean, math.sqrt(squares) / len(tasks), alpha)


def score_z(differences: Sequence[float], margin: float) -> float:
    """Tango's score statistic (Statistics in Medicine 17, 1998) of a mean difference above `-margin`, higher better.

    The variance is that of a candidate exactly at the margin, which few observed losses do not make small. For graded
    scores what was seen counts with its square, and only what the margin presumes beyond it as whole losses. +inf
    when every difference lies so far within a margin above one half that no variance is left.
    """
    n = len(differences)
    total, changed = math.fsum(differences), math.fsum(abs(d) for d in differences)
    graded = changed - math.fsum(d * d for d in differences)
    beyond = total + n * margin
    variance = n * (_changed_at(margin, changed / n, total / n) - margin * margin) - graded
    if variance > 0:
        return beyond / math.sqrt(variance)
    return math.inf if beyond > 0 else 0.0


def _changed_at(margin: float, changed: float, difference: float) -> float:
    """The most likely share of pairs that change at a difference of `-margin`, from the observed share and difference.

    The larger root of the likelihood's quadratic; a difference of the margin takes at least as many changes.
    """
    b = changed + (2 - difference) * margin
    root = math.sqrt(max(0.0, b * b - 4 * (changed - difference) * margin * (1 + margin)))
    return max((b + root) / 2 - margin, margin)


def pairs_needed(discordant_share: float, margin: float, alpha: float = 0.05) -> int:
    """Pairs for 80 % power that a difference of zero is shown to be within `margin` by the score test."""
    at_margin = _changed_at(margin, discordant_share, 0.0) - margin * margin
    spread = normal_quantile(alpha) * math.sqrt(at_margin)
    spread += normal_quantile(1 - POWER) * math.sqrt(discordant_share)
    return math.ceil((spread / margin) ** 2)
