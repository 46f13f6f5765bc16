"""Judging shares of requests: of the candidate alone, and against the baseline."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from pulumi_infercrane.guard import statistics
from pulumi_infercrane.guard.judging.rule import (
    SUPERSEDED,
    Finding,
    Measured,
    Member,
    Rule,
    Sides,
    at_most,
    conclude,
    disagree,
    first_fail,
    ids,
    in_conflict,
    rounded_interval,
    scaled,
)
from pulumi_infercrane.guard.printable import clipped, one_line

Count = tuple[int, int]
"""Bad and attempted requests."""
Counting = Callable[[Member], Count]

CODES_NAMED = 3
"""Codes of failed requests that a finding names; the rest is one number."""
LONGEST_CODE = 40


def failures(member: Member) -> Count:
    """Requests that did not end with a complete answer. The record must know both counts."""
    return member.record.failed, member.record.attempted


def count(members: Sequence[Member], counting: Counting) -> Count:
    """Bad and attempted requests over several runs."""
    counts = [counting(member) for member in members]
    return sum(bad for bad, _ in counts), sum(attempted for _, attempted in counts)


def judge_share(
    rule: Rule,
    members: Sequence[Member],
    counting: Counting,
    limit: float,
    alpha: float,
    superseded: Sequence[Member] = (),
) -> Finding:
    """The pooled share of bad requests against an absolute limit.

    A run that fails by itself stands, pooled or not. So does a superseded one; it counts for nothing else.
    """
    groups = [members, *([member] for member in members)]
    findings = [_judge_pooled(rule, group, counting, limit, alpha) for group in groups]
    replaced = [_judge_pooled(rule, [one], counting, limit, alpha) for one in superseded]
    finding = first_fail([*findings, *(replace(one, notes=(SUPERSEDED,)) for one in replaced)])
    counts = [counting(member) for member in members]
    if finding.outcome != "fail" and disagree([statistics.proportion(k, n, alpha) for k, n in counts]):
        finding = in_conflict(finding)
    return replace(finding, evidence=ids([*members, *superseded]))


def judge_difference(rule: Rule, sides: Sides, alpha: float) -> Finding:
    """The share of failed requests against the baseline's."""
    (kb, nb), (kc, nc) = count(sides.baseline, failures), count(sides.candidate, failures)
    difference = statistics.unpaired_difference(kb, nb, kc, nc, alpha)
    interval, n = rounded_interval(difference), min(nb, nc)
    z = statistics.normal_quantile(alpha)
    measured = Measured(
        method="newcombe",
        n=(nb, nc),
        interval=interval,
        limit=rule.bound,
        outcome=at_most(interval, rule.bound),
        what="difference",
        counts=f"{kc} of {nc} requests failed against {kb} of {nb}{_by_code(sides.candidate)}",
        p=statistics.normal_tail((difference.estimate - rule.bound) / difference.se),
        enough=math.ceil(z * z * (1 - rule.bound) / rule.bound) if rule.bound else n + 1,
        total=n * scaled(z * difference.se, interval.estimate - rule.bound),
        unit="requests on each side",
    )
    return replace(conclude(rule, measured), evidence=ids(sides.all))


def _judge_pooled(rule: Rule, members: Sequence[Member], counting: Counting, limit: float, alpha: float) -> Finding:
    """Requests that failed are told with how: a check of the client's own looks like a broken server otherwise."""
    finding = judge_counted(rule, count(members, counting), limit, alpha)
    return replace(finding, detail=finding.detail + _by_code(members)) if counting is failures else finding


def _by_code(members: Sequence[Member]) -> str:
    """`; by code: 503 (40), timeout (3)`: the most frequent codes of failed requests; empty without any."""
    codes = Counter[str]()
    for member in members:
        codes.update(member.record.errors)
    most = sorted(codes.items(), key=lambda item: (-item[1], item[0]))[:CODES_NAMED]
    words = [f"{clipped(one_line(code), LONGEST_CODE)} ({times})" for code, times in most]
    others = codes.total() - sum(times for _, times in most)
    if others:
        words.append(f"others ({others})")
    return f"; by code: {', '.join(words)}" if words else ""


def judge_counted(rule: Rule, counted: Count, limit: float, alpha: float, unit: str = "requests") -> Finding:
    """The finding about one pair of counts, at least one of them attempted."""
    k, n = counted
    interval = rounded_interval(statistics.proportion(k, n, alpha))
    spread = statistics.normal_quantile(alpha) * math.sqrt(limit * (1 - limit))
    measured = Measured(
        method="clopper_pearson",
        n=(n,),
        interval=interval,
        limit=limit,
        outcome=at_most(interval, limit),
        what="share",
        counts=f"{k} of {n} {unit}",
        p=statistics.binomial_at_least(k, n, limit),
        enough=statistics.clean_minimum(limit, alpha) if limit else n + 1,
        total=scaled(spread, interval.estimate - limit),
        unit=unit,
    )
    return conclude(rule, measured)
