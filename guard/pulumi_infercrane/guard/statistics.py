"""Bounds and intervals, nothing else. `alpha` is one-sided: 0.05 gives 95 % bounds, together a 90 % interval.

Closed form, continued fraction or bisection; nothing is drawn at random. Sums are sorted and compensated, so that every
processor comes to the same nine digits.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

POWER = 0.8

_BISECTIONS = 60
_NEGLIGIBLE_DEVIATIONS = 9


@dataclass(frozen=True)
class Interval:
    """An estimate with its one-sided bounds."""

    estimate: float
    lo: float
    hi: float


@dataclass(frozen=True)
class Difference(Interval):
    """A difference with the standard error its bounds were made of."""

    se: float


@dataclass(frozen=True)
class Paired(Difference):
    """A paired difference: `lost` and `gained` pairs, exact two-sided McNemar p, exact one-sided p of the losses."""

    pairs: int
    lost: int
    gained: int
    mcnemar_p: float
    loss_p: float


@dataclass(frozen=True)
class Weighted:
    """A distribution over sorted values: `cumulative[i]` is the probability of at most `values[i]`."""

    values: Sequence[float]
    cumulative: Sequence[float]

    def below(self, value: float) -> float:
        """Probability of less than `value`."""
        index = bisect_left(self.values, value)
        return self.cumulative[index - 1] if index else 0.0


@dataclass(frozen=True)
class Ratio(Interval):
    """A ratio of two quantiles, with the distribution of either side under resampling."""

    baseline: Weighted
    candidate: Weighted

    def p_at_most(self, limit: float) -> float:
        """One-sided p of the claim that the ratio exceeds `limit`."""
        return _ratio_at_most(self.baseline, self.candidate, limit)


def _bisect(increasing: Callable[[float], bool]) -> float:
    """The point in 0..1 where `increasing` turns true."""
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if increasing(middle) else (middle, high)
    return (low + high) / 2


def normal_tail(z: float) -> float:
    """P(Z >= z) of the standard normal distribution."""
    return 0.5 * math.erfc(z / math.sqrt(2))


@lru_cache(maxsize=16)
def normal_quantile(alpha: float) -> float:
    """z with P(Z >= z) = alpha, for alpha in (0, 0.5]."""
    return 40 * _bisect(lambda x: normal_tail(40 * x) <= alpha)


# --- proportions ------------------------------------------------------------------------------------------------


def binomial_at_most(k: int, n: int, p: float) -> float:
    """P(X <= k) of the binomial distribution."""
    return 1.0 if k >= n else regularized_beta(1 - p, n - k, k + 1)


def binomial_at_least(k: int, n: int, p: float) -> float:
    """P(X >= k) of the binomial distribution."""
    return 1.0 if k <= 0 else regularized_beta(p, k, n - k + 1)


def regularized_beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function, by its continued fraction."""
    if not 0 < x < 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):
        return 1.0 - regularized_beta(1 - x, b, a)
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    return math.exp(log_front) * _beta_fraction(x, a, b) / a


def _beta_fraction(x: float, a: float, b: float) -> float:
    """Lentz's method; the number of steps grows with the root of the larger parameter."""
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    value, m, change = d, 1, 0.0
    while abs(change - 1) > 1e-15:
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        change = 1.0
        for step in (even, odd):
            d, c = 1 / (1 + step * d), 1 + step / c
            change *= c * d
        value *= change
        m += 1
    return value


def upper_bound(k: int, n: int, alpha: float = 0.05) -> float:
    """Clopper-Pearson upper bound of a proportion with k events in n trials."""
    if k >= n:
        return 1.0
    return _bisect(lambda p: binomial_at_most(k, n, p) <= alpha)


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


# --- paired quality ---------------------------------------------------------------------------------------------


def paired_difference(differences: Sequence[float], alpha: float = 0.05) -> Paired:
    """Agresti-Min interval of the mean of per-item differences, each candidate minus baseline in -1..1."""
    ordered = sorted(differences)
    size = len(ordered) + 2
    total = math.fsum(ordered)
    squares = math.fsum(d * d for d in ordered) + 1
    mean = total / size
    se = math.sqrt(squares - total * total / size) / size
    half = normal_quantile(alpha) * se
    lost, gained = sum(d < 0 for d in ordered), sum(d > 0 for d in ordered)
    discordant = lost + gained
    p = min(1.0, 2 * binomial_at_most(min(lost, gained), discordant, 0.5))
    loss_p = binomial_at_least(lost, discordant, 0.5)
    return Paired(mean, mean - half, mean + half, se, len(ordered), lost, gained, p, loss_p)


def pairs_needed(discordant_share: float, margin: float, alpha: float = 0.05) -> int:
    """Pairs for 80 % power that a difference of zero is shown to be within `margin`."""
    z = normal_quantile(alpha) + normal_quantile(1 - POWER)
    return math.ceil(z * z * discordant_share / (margin * margin))


# --- quantiles --------------------------------------------------------------------------------------------------


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


def _resampled(ordered: Sequence[float], q: float) -> Weighted:
    """Distribution of the q-quantile when the sample is drawn again with replacement.

    The quantile is at most the j-th value when at least `rank` of n draws fall on the first j.
    """
    n, rank = len(ordered), rank_of(q, len(ordered))
    reach = math.ceil(_NEGLIGIBLE_DEVIATIONS * math.sqrt(n * q * (1 - q))) + _NEGLIGIBLE_DEVIATIONS
    first, last = max(1, rank - reach), min(n, rank + reach)
    cumulative = [binomial_at_least(rank, n, j / n) for j in range(first, last)]
    return Weighted(ordered[first - 1 : last], [*cumulative, 1.0])


def _infinite(side: Weighted) -> float:
    return 1.0 - side.below(math.inf)


def _ratio_at_most(baseline: Weighted, candidate: Weighted, limit: float) -> float:
    """P(candidate <= limit * baseline), infinite candidates never."""
    previous, terms = 0.0, []
    for value, cumulative in zip(candidate.values, candidate.cumulative, strict=True):
        if math.isfinite(value):
            terms.append((cumulative - previous) * (1.0 - baseline.below(value / limit)))
        previous = cumulative
    return math.fsum(terms)


def _ratio_quantile(baseline: Weighted, candidate: Weighted, share: float) -> float:
    """The smallest ratio that at least `share` of the distribution does not exceed."""
    numerators, denominators = _finite(candidate), _finite(baseline)
    if not numerators:
        return math.inf if share > 0 else 0.0
    low, high = numerators[0] / (2 * max([*denominators, numerators[0]])), 2 * numerators[-1] / baseline.values[0]
    if _ratio_at_most(baseline, candidate, low) >= share:
        return 0.0
    if _ratio_at_most(baseline, candidate, high) < share:
        return math.inf
    span = math.log(high / low)
    reached = _bisect(lambda x: _ratio_at_most(baseline, candidate, low * math.exp(span * x)) >= share)
    return low * math.exp(span * reached)


def _finite(side: Weighted) -> list[float]:
    return [value for value in side.values if math.isfinite(value)]


# --- several rules ----------------------------------------------------------------------------------------------


def holm(p_values: Sequence[float], alpha: float = 0.05) -> tuple[bool, ...]:
    """Which of several one-sided claims stand together at `alpha`, by Holm's step-down procedure."""
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    stands = [False] * len(p_values)
    for step, index in enumerate(order):
        if p_values[index] > alpha / (len(p_values) - step):
            break
        stands[index] = True
    return tuple(stands)
