"""The rules of the Go project `infercrane/infercrane` as published, on the same draws: its defaults, its order of work.

Read in its source: rejects are looked for first, on point figures, and only then whether there were enough requests.
All limits are strict. A figure that one side lacks is skipped. Its words: ACCEPT promotes, WAIT is insufficient.
"""

from collections.abc import Sequence

import numpy as np

from benchmarks.simulate.situations import Bools, Load, Pairs, Run

MINIMUM_REQUESTS = 20
MAX_TTFT_REGRESSION_PERCENT = 15.0
MAX_ERROR_RATE_INCREASE = 0.01
MINIMUM_PAIRS = 30
RESAMPLES = 2_000
"""It takes 10,000; fewer move its bounds by a hundredth of their distance and take a fifth of the time."""
ALPHA = 0.05
RANDOM_SEED = 20260827


def of_load(situation: Load, baseline: Sequence[Run], candidate: Sequence[Run]) -> str:
    """The verdict on the newest run of each side: it does not look at others."""
    active, new = baseline[-1], candidate[-1]
    before, now = _p95(active), _p95(new)
    slower = before and now and 100 * (now - before) / before > MAX_TTFT_REGRESSION_PERCENT
    if new.failed.mean() - active.failed.mean() > MAX_ERROR_RATE_INCREASE or slower:
        return "reject"
    if len(new.ttft_s) < MINIMUM_REQUESTS or now is None:
        return "insufficient_evidence"
    return "promote"


def of_pairs(situation: Pairs, baseline: Bools, candidate: Bools) -> str:
    """Quality comparison in its mode `bootstrap`, with the margin as the relative drop it limits."""
    if len(baseline) < MINIMUM_PAIRS or not baseline.any():
        return "insufficient_evidence"
    limit = situation.margin / situation.accuracy
    low, high = np.quantile(_relative_drops(baseline, candidate), [ALPHA / 2, 1 - ALPHA / 2])
    if low > limit:
        return "reject"
    return "promote" if high <= limit else "insufficient_evidence"


def _p95(run: Run) -> float | None:
    """Nearest rank, of the answered requests."""
    answered = np.sort(run.ttft_s[~run.failed])
    return float(answered[int(np.ceil(0.95 * len(answered))) - 1]) if len(answered) else None


def _relative_drops(baseline: Bools, candidate: Bools) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Resampling pairs is drawing how often each of the four kinds of pair comes up."""
    kinds = np.bincount(2 * baseline + candidate, minlength=4)
    drawn = np.random.default_rng(RANDOM_SEED).multinomial(len(baseline), kinds / len(baseline), RESAMPLES)
    before, now = drawn[:, 2] + drawn[:, 3], drawn[:, 1] + drawn[:, 3]
    return (before - now) / np.maximum(before, 1)
