"""Quantiles of latencies and their ratio, without drawing a single sample."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate, islice, pairwise

from pulumi_infercrane.guard.statistics.intervals import Interval, normal_quantile

_NEGLIGIBLE_DEVIATIONS = 9
_HALVINGS = 14
"""After which so few ratios are left that they are looked at one by one."""
_GAUSS = (
    (0.0, 128 / 225),
    *((sign * math.sqrt(5 - 2 * math.sqrt(10 / 7)) / 3, (322 + 13 * math.sqrt(70)) / 900) for sign in (-1, 1)),
    *((sign * math.sqrt(5 + 2 * math.sqrt(10 / 7)) / 3, (322 - 13 * math.sqrt(70)) / 900) for sign in (-1, 1)),
)
"""Nodes in -1..1 and weights of Gauss-Legendre quadrature."""


@dataclass(frozen=True)
class Weighted:
    """A distribution over sorted values: `cumulative[i]` is the probability of at most `values[i]`."""

    values: Sequence[float]
    cumulative: Sequence[float]

    @cached_property
    def chances(self) -> Sequence[float]:
        """The probability of each value."""
        return [here - before for before, here in pairwise([0.0, *self.cumulative])]

    @cached_property
    def beyond(self) -> Sequence[float]:
        """`beyond[i]`: the probability of not being among the first i values."""
        return [1.0, *(1.0 - cumulative for cumulative in self.cumulative)]

    def at_least(self, value: float) -> float:
        """Probability of `value` or more."""
        return self.beyond[bisect_left(self.values, value)]

    def at_most(self, value: float) -> float:
        """Probability of `value` or less."""
        return 1.0 - self.beyond[bisect_right(self.values, value)]

    def quantile(self, share: float) -> float:
        """The smallest value that at least `share` of the distribution does not exceed."""
        return self.values[min(bisect_left(self.cumulative, share), len(self.values) - 1)]


@dataclass(frozen=True)
class Ratio(Interval):
    """A ratio of two quantiles, with the distribution of either side under resampling."""

    baseline: Weighted
    candidate: Weighted

    def p_at_most(self, limit: float) -> float:
        """One-sided p of the claim that the ratio exceeds `limit`."""
        return _ratio_at_most(self.baseline, self.candidate, limit)


def rank_of(q: float, n: int) -> int:
    """Rank, from 1, of the q-quantile among n values: the inverted distribution function, which infinities survive."""
    return max(1, math.ceil(round(q * n, 9)))


def quantile(ordered: Sequence[float], q: float) -> float:
    """Order statistic of a sorted sequence; infinities are legal."""
    return ordered[rank_of(q, len(ordered)) - 1]


def quantile_interval(ordered: Sequence[float], q: float, alpha: float = 0.05) -> Interval:
    """Distribution-free interval of a quantile: the order statistics whose binomial ranks bound it."""
    n = len(ordered)
    spread = normal_quantile(alpha) * math.sqrt(n * q * (1 - q))
    low = max(1, math.floor(n * q - spread))
    high = min(n, math.ceil(n * q + spread) + 1)
    return Interval(quantile(ordered, q), ordered[low - 1], ordered[high - 1])


def quantile_ratio(baseline: Sequence[float], candidate: Sequence[float], q: float, alpha: float = 0.05) -> Ratio:
    """Bootstrap interval of the ratio of two q-quantiles, candidate over baseline, without drawing a single sample.

    Both sides are in the same unit, failures as +inf. The distribution of an order statistic under resampling with
    replacement is known exactly; the interval is the one endless resampling would give. inf/inf counts as 0 for the
    lower bound and as +inf for the upper.
    """
    below, above = sorted(baseline), sorted(candidate)
    sides = _resampled(below, q), _resampled(above, q)
    numerator, denominator = quantile(above, q), quantile(below, q)
    estimate = math.inf if math.isinf(numerator) else numerator / denominator
    undecided = _infinite(sides[0]) * _infinite(sides[1])
    lo = _ratio_quantile(*sides, alpha - undecided)
    hi = _ratio_quantile(*sides, 1 - alpha)
    return Ratio(estimate, lo, hi, *sides)


@dataclass(frozen=True)
class PairedRatio(Interval):
    """The median of candidate/baseline over pairs, with its distribution under resampling of the pairs."""

    pairs: int
    median: Weighted

    def p_at_most(self, limit: float) -> float:
        """One-sided p of the claim that the median exceeds `limit`."""
        return self.median.at_most(limit)

    def p_at_least(self, limit: float) -> float:
        """One-sided p of the claim that the median is below `limit`."""
        return self.median.at_least(limit)


def paired_ratio(pairs: Sequence[tuple[float, float]], alpha: float = 0.05) -> PairedRatio:
    """Bootstrap interval of the median ratio over (baseline, candidate) pairs, both finite and above 0, in one unit.

    The interval is the one endless resampling of the pairs would give. At least one pair is needed.
    """
    ratios = sorted(candidate / baseline for baseline, candidate in pairs)
    median = _resampled(ratios, 0.5)
    return PairedRatio(quantile(ratios, 0.5), median.quantile(alpha), median.quantile(1 - alpha), len(ratios), median)


def _resampled(ordered: Sequence[float], q: float) -> Weighted:
    """Distribution of the q-quantile when the sample is drawn again with replacement, over the distinct values."""
    n, rank = len(ordered), rank_of(q, len(ordered))
    reach = math.ceil(_NEGLIGIBLE_DEVIATIONS * math.sqrt(n * q * (1 - q))) + _NEGLIGIBLE_DEVIATIONS
    first, last = max(1, rank - reach), min(n, rank + reach)
    values, cumulative = ordered[first - 1 : last], _rank_distribution(n, rank, first, last)
    distinct = [i for i in range(len(values)) if i + 1 == len(values) or values[i] != values[i + 1]]
    return Weighted([values[i] for i in distinct], [cumulative[i] for i in distinct])


@lru_cache(maxsize=32)
def _rank_distribution(n: int, rank: int, first: int, last: int) -> tuple[float, ...]:
    """Of n draws from n sorted values, which one is the `rank`-th smallest? Cumulative, over `first`..`last`.

    It is the j-th when the `rank`-th of n uniform numbers lies between (j-1)/n and j/n: an integral of its beta
    density, so smooth over one n-th that Gauss's five points give it to the last digits.
    """
    below, above, mode = rank - 1, n - rank, rank / (n + 1)
    height = below * math.log(mode) + above * math.log1p(-mode)
    masses = []
    for j in range(first, last + 1):
        points = ((weight, (j - 0.5 + node / 2) / n) for node, weight in _GAUSS)
        masses.append(math.fsum(w * math.exp(below * math.log(x) + above * math.log1p(-x) - height) for w, x in points))
    total = math.fsum(masses)
    return *(mass / total for mass in accumulate(masses[:-1])), 1.0


def _infinite(side: Weighted) -> float:
    return side.at_least(math.inf)


def _ratio_at_most(baseline: Weighted, candidate: Weighted, limit: float) -> float:
    """P(candidate <= limit * baseline), infinite candidates never."""
    values, beyond = baseline.values, baseline.beyond
    return math.fsum(
        chance * beyond[bisect_left(values, value / limit)]
        for value, chance in zip(candidate.values, candidate.chances, strict=True)
        if value < math.inf
    )


def _ratio_quantile(baseline: Weighted, candidate: Weighted, share: float) -> float:
    """The smallest ratio that at least `share` of the distribution does not exceed."""
    numerators, denominators = _finite(candidate), _finite(baseline)
    if not numerators:
        return math.inf if share > 0 else 0.0
    low, high = numerators[0] / (2 * max([*denominators, numerators[0]])), 2 * numerators[-1] / baseline.values[0]
    below = _ratio_at_most(baseline, candidate, low)
    if below >= share:
        return 0.0
    if _ratio_at_most(baseline, candidate, high) < share:
        return math.inf
    for _ in range(_HALVINGS):
        middle = math.sqrt(low * high)
        reached = _ratio_at_most(baseline, candidate, middle)
        low, high, below = (low, middle, below) if reached >= share else (middle, high, reached)
    between = sorted(_ratios(baseline, candidate, low, high))
    reached_by = accumulate((chance for _, chance in between), initial=below)
    return next((ratio for (ratio, _), p in zip(between, islice(reached_by, 1, None), strict=True) if p >= share), high)


def _ratios(baseline: Weighted, candidate: Weighted, low: float, high: float) -> Iterator[tuple[float, float]]:
    """Every ratio above `low`, up to `high`, with its chance."""
    for value, chance in zip(candidate.values, candidate.chances, strict=True):
        if value < math.inf:
            for index in range(bisect_left(baseline.values, value / high), bisect_left(baseline.values, value / low)):
                yield value / baseline.values[index], chance * baseline.chances[index]


def _finite(side: Weighted) -> list[float]:
    return [value for value in side.values if math.isfinite(value)]
