"""Bounds and intervals, nothing else. `alpha` is one-sided: 0.05 gives 95 % bounds, together a 90 % interval.

Closed form or bisection. Sums are sorted and compensated, so that every processor comes to the same nine digits.
numpy is imported only when quantiles are resampled.
"""

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

DRAWS = 2000
POWER = 0.8

_BISECTIONS = 60
_DRAWS_PER_BLOCK = 250
_STREAM = b"infercrane-bootstrap-v1"


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
class Ratio(Interval):
    """A resampled ratio and its sorted draws."""

    draws: tuple[float, ...]

    def p_at_most(self, limit: float) -> float:
        """One-sided p of the claim that the ratio exceeds `limit`."""
        return (1 + sum(draw <= limit for draw in self.draws)) / (len(self.draws) + 1)


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
    if k >= n:
        return 1.0
    if k > n // 2:
        return 1.0 - binomial_at_most(n - k - 1, n, 1 - p)
    return min(1.0, _lower_tail(k, n, p))


def binomial_at_least(k: int, n: int, p: float) -> float:
    """P(X >= k) of the binomial distribution."""
    if k <= 0:
        return 1.0
    return binomial_at_most(n - k, n, 1 - p)


def _lower_tail(k: int, n: int, p: float) -> float:
    if p <= 0:
        return 1.0
    if p >= 1:
        return 0.0
    log_p, log_q = math.log(p), math.log1p(-p)
    terms = (math.exp(log_c + i * log_p + (n - i) * log_q) for i, log_c in enumerate(_log_coefficients(k, n)))
    return math.fsum(terms)


@lru_cache(maxsize=64)
def _log_coefficients(k: int, n: int) -> tuple[float, ...]:
    top = math.lgamma(n + 1)
    return tuple(top - math.lgamma(i + 1) - math.lgamma(n - i + 1) for i in range(k + 1))


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


def stream_key(policy_digest: str, rule_id: str, n_baseline: int, n_candidate: int) -> bytes:
    """Key of the index stream. It leaves the evidence out: nobody can vary a file until a borderline case passes."""
    sizes = f"{n_baseline}\0{n_candidate}"
    return hashlib.sha256(_STREAM + f"\0{policy_digest}\0{rule_id}\0{sizes}".encode()).digest()


def quantile_ratio(
    baseline: Sequence[float], candidate: Sequence[float], q: float, key: bytes, alpha: float = 0.05
) -> Ratio:
    """Bootstrap interval of the ratio of two q-quantiles, candidate over baseline.

    Both sides are in the same unit, failures as +inf. Each is resampled with replacement to its own size, `DRAWS`
    times, by an index stream that depends on `key` alone. inf/inf counts as 0 for the lower bound, as +inf
    for the upper.
    """
    below, above = sorted(baseline), sorted(candidate)
    pairs = list(zip(_resampled(above, q, key + b"c"), _resampled(below, q, key + b"b"), strict=True))
    lows = sorted(_divide(c, b, undecided=0.0) for c, b in pairs)
    highs = sorted(_divide(c, b, undecided=math.inf) for c, b in pairs)
    rank = math.floor(round(DRAWS * alpha, 9))
    estimate = _divide(quantile(above, q), quantile(below, q), undecided=math.inf)
    return Ratio(estimate, lows[rank - 1], highs[DRAWS - rank], tuple(lows))


def _divide(numerator: float, denominator: float, undecided: float) -> float:
    if math.isinf(numerator):
        return undecided if math.isinf(denominator) else math.inf
    return numerator / denominator


def _resampled(ordered: Sequence[float], q: float, key: bytes) -> list[float]:
    """The q-quantile of each draw. The draw's rank-th smallest index is that of its rank-th smallest word."""
    import numpy as np

    n, rank = len(ordered), rank_of(q, len(ordered)) - 1
    chosen: list[float] = []
    for block in range(DRAWS // _DRAWS_PER_BLOCK):
        stream = hashlib.shake_256(key + block.to_bytes(4, "little")).digest(4 * n * _DRAWS_PER_BLOCK)
        words = np.frombuffer(stream, dtype="<u4").reshape(_DRAWS_PER_BLOCK, n).copy()
        words.partition(rank, axis=1)
        indices = (words[:, rank].astype(np.uint64) * n) >> np.uint64(32)
        chosen.extend(ordered[index] for index in indices.tolist())
    return chosen


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
