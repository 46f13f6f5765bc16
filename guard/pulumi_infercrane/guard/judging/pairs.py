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

    The interval alone is too eager when few pairs differ: a fail also needs an exact test on those, and a pass the
    score test, whose variance is that at the margin.
    """
    differences = [candidate - baseline for baseline, candidate in pairs]
    difference = statistics.paired_difference(differences, alpha)
    better = differences if higher_is_better else [-d for d in differences]
    z = statistics.score_z(better, rule.bound)
    interval, n = rounded_interval(difference), difference.pairs
    limit = -rule.bound if higher_is_better else rule.bound
    by_interval = at_least(interval, limit) if higher_is_better else at_most(interval, limit)
    outcome = _confirmed(by_interval, better, z, alpha)
    counts = _counts(higher_is_better, difference)
    if by_interval == "pass" and outcome == "unknown":
        counts += f", but the score test at the margin has p {statistics.normal_tail(z):.2g}"
    beyond = limit - difference.estimate if higher_is_better else difference.estimate - limit
    measured = Measured(
        method="agresti_min",
        n=(n,),
        interval=interval,
        limit=limit,
        outcome=outcome,
        what=what,
        counts=counts,
        p=statistics.normal_tail(beyond / difference.se),
        enough=rule.min_pass,
        total=_pairs_to_settle(difference, rule.bound, limit, z, alpha),
        unit="pairs",
    )
    return difference, conclude(rule, measured)


def _confirmed(by_interval: Outcome, better: Sequence[float], z: float, alpha: float) -> Outcome:
    """What the interval says, when the test of that side says so too. `better` are differences, higher is better."""
    if by_interval == "fail":
        lost, gained = sum(d < 0 for d in better), sum(d > 0 for d in better)
        confirmed = statistics.binomial_at_least(lost, lost + gained, 0.5) <= alpha
    else:
        confirmed = statistics.normal_tail(z) <= alpha
    return by_interval if confirmed else "unknown"


def _counts(higher_is_better: bool, difference: statistics.Paired) -> str:
    if higher_is_better:
        return f"{difference.lost} lost / {difference.gained} gained of {difference.pairs}"
    return f"{difference.gained} more / {difference.lost} fewer of {difference.pairs}"


def _pairs_to_settle(difference: statistics.Paired, margin: float, limit: float, z: float, alpha: float) -> float:
    """From the observed discordance as if the revisions were equal; if that is too few, as if the estimate stayed."""
    discordant = difference.lost + difference.gained
    n = difference.pairs
    if margin:
        equal = statistics.pairs_needed(max(discordant, 1) / n, margin, alpha)
        if equal > n:
            return equal
    quantile = statistics.normal_quantile(alpha)
    by_interval = n * scaled(quantile * difference.se, difference.estimate - limit)
    return max(by_interval, n * scaled(quantile, z)) if z > 0 else by_interval


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
