"""Shares of events: exact bounds of one, and the difference of two."""

import math
from functools import lru_cache

from pulumi_infercrane.guard.statistics.intervals import (
    Difference,
    Interval,
    binomial_at_most,
    bisect,
    normal_quantile,
)


@lru_cache(maxsize=256)
def upper_bound(k: int, n: int, alpha: float = 0.05) -> float:
    """Clopper-Pearson upper bound of a proportion with k events in n trials."""
    if k >= n:
        return 1.0
    return bisect(lambda p: binomial_at_most(k, n, p) <= alpha)


def lower_bound(k: int, n: int, alpha: float = 0.05) -> float:
    """Clopper-Pearson lower bound of a proportion with k events in n trials."""
    return 0.0 if k <= 0 else 1.0 - upper_bound(n - k, n, alpha)


def proportion(k: int, n: int, alpha: float = 0.05) -> Interval:
    """A proportion with its exact bounds. n must be at least 1."""
    return Interval(k / n, lower_bound(k, n, alpha), upper_bound(k, n, alpha))


def clean_minimum(limit: float, alpha: float = 0.05) -> int:
    """The smallest n whose upper bound is within `limit` when not one event is seen."""
    return math.ceil(math.log(alpha) / math.log1p(-limit)) if limit < 1 else 1


def wilson(p: float, n: int, alpha: float = 0.05) -> Interval:
    """Wilson score interval of a share `p` (0..1) of n."""
    z = normal_quantile(alpha)
    scale = 1 + z * z / n
    centre = (p + z * z / (2 * n)) / scale
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / scale
    return Interval(p, max(0.0, centre - half), min(1.0, centre + half))


def unpaired_difference(kb: int, nb: int, kc: int, nc: int, alpha: float = 0.05) -> Difference:
    """Newcombe's hybrid score interval of candidate minus baseline share. `se` is the side towards zero over z."""
    base, cand = wilson(kb / nb, nb, alpha), wilson(kc / nc, nc, alpha)
    d = cand.estimate - base.estimate
    below = math.hypot(cand.estimate - cand.lo, base.hi - base.estimate)
    above = math.hypot(cand.hi - cand.estimate, base.estimate - base.lo)
    return Difference(d, d - below, d + above, below / normal_quantile(alpha))
