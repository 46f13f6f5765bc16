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


def pairs_needed(discordant_share: float, margin: float, alpha: float = 0.05) -> int:
    """Pairs for 80 % power that a difference of zero is shown to be within `margin`."""
    z = normal_quantile(alpha) + normal_quantile(1 - POWER)
    return math.ceil(z * z * discordant_share / (margin * margin))
