"""Judging what both sides did with the same items, pair by pair: differences of shares and scores, and ratios."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from pulumi_infercrane.guard import statistics
from pulumi_infercrane.guard.judging.rule import (
    Finding,
    Measured,
    Rule,
    at_least,
    at_most,
    conclude,
    more_needed,
    rounded_interval,
    scaled,
    unknown,
)

Outcome = Literal["pass", "fail", "unknown"]
Pair = tuple[float, float]
"""Baseline and candidate value of one item."""
Pairs = Sequence[Pair]


def too_few_pairs(rule: Rule, pairs: int) -> Finding | None:
    """The finding when no interval is formed; None when one is."""
    if pairs >= max(1, rule.min_compute):
        return None
    detail = f"{pairs} of {rule.min_pass} pairs, no interval is formed below {rule.min_compute}"
    return unknown("insufficient_n", detail, needs=more_needed(rule.min_pass, pairs, "pairs"))


def judge_pairs(
    rule: Rule, pairs: Pairs, higher_is_better: bool, what: str, alpha: float
) -> tuple[statistics.Paired, Finding]:
    """The mean difference of values in 0..1 against the margin. At least one pair is needed.

    A fail also needs an exact test on the pairs that differ: the interval alone is too eager when few do.
    """
    difference = statistics.paired_difference([candidate - baseline for baseline, candidate in pairs], alpha)
    interval, n = rounded_interval(difference), difference.pairs
    limit = -rule.bound if higher_is_better else rule.bound
    outcome = at_least(interval, limit) if higher_is_better else at_most(interval, limit)
    worse, better = difference.lost, difference.gained
    if not higher_is_better:
        worse, better = better, worse
    if outcome == "fail" and statistics.binomial_at_least(worse, worse + better, 0.5) > alpha:
        outcome = "unknown"
    beyond = limit - difference.estimate if higher_is_better else difference.estimate - limit
    measured = Measured(
        method="agresti_min",
        n=(n,),
        interval=interval,
        limit=limit,
        outcome=outcome,
        what=what,
        counts=_counts(higher_is_better, difference),
        p=statistics.normal_tail(beyond / difference.se),
        enough=rule.min_pass,
        total=_pairs_to_settle(difference, rule.bound, limit, alpha),
        unit="pairs",
    )
    return difference, conclude(rule, measured)


def _counts(higher_is_better: bool, difference: statistics.Paired) -> str:
    if higher_is_better:
        return f"{difference.lost} lost / {difference.gained} gained of {difference.pairs}"
    return f"{difference.gained} more / {difference.lost} fewer of {difference.pairs}"


def _pairs_to_settle(difference: statistics.Paired, margin: float, limit: float, alpha: float) -> float:
    """From the observed discordance as if the revisions were equal; if that is too few, as if the estimate stayed."""
    discordant = difference.lost + difference.gained
    n = difference.pairs
    if margin:
        equal = statistics.pairs_needed(max(discordant, 1) / n, margin, alpha)
        if equal > n:
            return equal
    half = statistics.normal_quantile(alpha) * difference.se
    return n * scaled(half, difference.estimate - limit)


# --- ratios -----------------------------------------------------------------------------------------------------


def judge_ratio(rule: Rule, pairs: Pairs, what: str, alpha: float) -> Finding:
    """The median of candidate/baseline against 1 + margin. Baselines are above 0, a failed candidate is +inf."""
    limit = round(1 + rule.bound, 9)
    ratio = statistics.paired_ratio(pairs, alpha)
    interval = rounded_interval(ratio)
    return _ratio(rule, pairs, interval, limit, at_most(interval, limit), ratio.p_at_most(limit), what)


def judge_band(rule: Rule, pairs: Pairs, what: str, alpha: float) -> Finding:
    """The median of candidate/baseline against both 1 + margin and its inverse.

    A candidate that failed is given as +inf. It widens the interval to both sides: what is not known can bring a median
    neither into the band nor out of it.
    """
    high = round(1 + rule.bound, 9)
    low = round(1 / high, 9)
    above = statistics.paired_ratio(pairs, alpha)
    below = statistics.paired_ratio([(b, 0.0 if math.isinf(c) else c) for b, c in pairs], alpha)
    interval = rounded_interval(statistics.Interval(above.estimate, below.lo, above.hi))
    p = min(below.p_at_most(high), above.p_at_least(low))
    limit = low if interval.estimate < 1 else high
    finding = _ratio(rule, pairs, interval, limit, statistics.within_band(interval, low, high), p, what)
    return replace(finding, notes=(f"band {low:.3g} to {high:.3g}",))


def _ratio(
    rule: Rule, pairs: Pairs, interval: statistics.Interval, limit: float, outcome: Outcome, p: float, what: str
) -> Finding:
    """`n` are the pairs with a figure on both sides: a failure is no data that could make a rule pass."""
    n = sum(math.isfinite(candidate) for _, candidate in pairs)
    known = interval.lo > 0 and math.isfinite(interval.hi)
    total = (
        n * scaled(math.log(interval.hi / interval.lo) / 2, math.log(limit / interval.estimate)) if known else math.inf
    )
    counts = f"{n} pairs, {len(pairs) - n} more not answered by the candidate"
    measured = Measured("paired_ratio", (n,), interval, limit, outcome, what, counts, p, rule.min_pass, total, "pairs")
    return conclude(rule, measured)
