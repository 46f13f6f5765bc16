"""Ratios over repeated runs: the only interval that sees the noise between runs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pulumi_infercrane.guard.statistics.intervals import Interval, student_quantile, student_tail

FEWEST_RUNS = 3
"""Runs on each side below which no interval is formed."""


@dataclass(frozen=True)
class Repeated(Interval):
    """A ratio over paired runs. `log_se` is the standard error of the mean of the logarithms, `runs` those per side."""

    log_se: float
    runs: int

    def p_at_most(self, limit: float) -> float:
        """One-sided p of the claim that the ratio exceeds `limit`."""
        return self._tail(math.log(self.estimate / limit))

    def p_at_least(self, limit: float) -> float:
        """One-sided p of the claim that the ratio is below `limit`."""
        return self._tail(math.log(limit / self.estimate))

    def _tail(self, distance: float) -> float:
        if self.log_se == 0:
            return 0.0 if distance > 0 else 1.0
        return student_tail(distance / self.log_se, self.runs - 1)


def repeated_ratio(baseline: Sequence[float], candidate: Sequence[float], alpha: float = 0.05) -> Repeated:
    """Interval of the geometric mean of candidate/baseline over runs that were measured in pairs.

    One figure a run, in one unit, finite and above 0, the i-th of both sides measured side by side.

    Raises:
        ValueError: when the sides differ in length or have fewer than `FEWEST_RUNS` runs.
    """
    runs = len(baseline)
    if len(candidate) != runs or runs < FEWEST_RUNS:
        raise ValueError(f"{runs} baseline and {len(candidate)} candidate runs: pairs of at least {FEWEST_RUNS} needed")
    logs = sorted(math.log(c / b) for b, c in zip(baseline, candidate, strict=True))
    mean = math.fsum(logs) / runs
    log_se = math.sqrt(math.fsum((log - mean) ** 2 for log in logs) / (runs - 1) / runs)
    half = student_quantile(alpha, runs - 1) * log_se
    return Repeated(math.exp(mean), math.exp(mean - half), math.exp(mean + half), log_se, runs)
