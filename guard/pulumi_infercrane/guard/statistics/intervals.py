"""What every bound is made of: intervals, bisection, and the tails of the normal, binomial and t distributions."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

POWER = 0.8

_HALVINGS = 60


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


def normal_difference(estimate: float, se: float, alpha: float) -> Difference:
    """A difference whose error is normal."""
    half = normal_quantile(alpha) * se
    return Difference(estimate, estimate - half, estimate + half, se)


def bisect(increasing: Callable[[float], bool]) -> float:
    """The point in 0..1 where `increasing` turns true."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if increasing(middle) else (middle, high)
    return (low + high) / 2


def normal_tail(z: float) -> float:
    """P(Z >= z) of the standard normal distribution."""
    return 0.5 * math.erfc(z / math.sqrt(2))


@lru_cache(maxsize=16)
def normal_quantile(alpha: float) -> float:
    """z with P(Z >= z) = alpha, for alpha in (0, 0.5]."""
    return 40 * bisect(lambda x: normal_tail(40 * x) <= alpha)


def student_tail(t: float, df: int) -> float:
    """P(T >= t) of Student's distribution with `df` degrees of freedom, at least 1."""
    half = 0.5 * regularized_beta(df / (df + t * t), df / 2, 0.5)
    return half if t >= 0 else 1.0 - half


@lru_cache(maxsize=64)
def student_quantile(alpha: float, df: int) -> float:
    """t with P(T >= t) = alpha, for alpha in (0, 0.5]."""
    share = bisect(lambda x: x == 1.0 or student_tail(x / (1 - x), df) <= alpha)
    return share / (1 - share)


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
