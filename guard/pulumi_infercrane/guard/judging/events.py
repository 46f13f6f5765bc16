"""Judging what was counted or timed itself: facts against a limit, with no interval around them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pulumi_infercrane.guard.canonical import rounded
from pulumi_infercrane.guard.judging.rule import (
    SUPERSEDED,
    Finding,
    Member,
    Rule,
    Sides,
    first_fail,
    ids,
    more_needed,
    unknown,
)

EventCount = Callable[[Member], float | None]
"""What one piece counted; None when it does not say."""


@dataclass(frozen=True)
class Drill:
    """Something tried on purpose. `figure` gives its figure over several pieces, and how many tries are in it."""

    figure: Callable[[Sequence[Member]], tuple[float, int]]
    what: str
    """Words after the figure: `s for the slowest rollback drill`."""
    tries: str
    """Words after the number of tries: `cold starts`."""


def fact(rule: Rule, value: float, n: int, detail: str) -> Finding:
    """The finding about a value that is no estimate. `value` may be infinite."""
    value = rounded(value)
    passed = value <= rule.bound
    code = "within_margin" if passed else "limit_exceeded" if rule.bound else "hard_event"
    return Finding("pass" if passed else "fail", code, detail, "count", (n,), value, value, value, rule.bound)


def judge_events(rule: Rule, sides: Sides, counting: EventCount, what: str, min_soak_s: float) -> Finding:
    """The worst piece against the limit. An event counts however short the piece; its absence needs a long one.

    `what` is the name of the events after a number.
    """
    counted = [(member, events) for member in sides.standing(rule) if (events := counting(member)) is not None]
    findings = [
        _marked(member, sides, fact(rule, events, 1, _events_text(rule, events, member.measured_s, what)))
        for member, events in sorted(counted, key=lambda one: -one[1])
    ]
    if not findings:
        return unknown("no_evidence", f"no file says how many {what} there were")
    own = [member.measured_s for member, _ in counted if member in sides.candidate]
    finding = needs_soak(rule, first_fail(findings), own, min_soak_s)
    return replace(finding, evidence=ids([member for member, _ in counted]))


def needs_soak(rule: Rule, finding: Finding, watched: Sequence[float], min_soak_s: float) -> Finding:
    """A pass made unknown when too few pieces (one, unless the rule says more) watched for long enough."""
    soaks, longest = sum(seconds >= min_soak_s for seconds in watched), max(watched, default=0.0)
    wanted = rule.min_pass if finding.method == "count" else 1
    if finding.outcome != "pass" or soaks >= wanted:
        return finding
    detail = f"{soaks} of {wanted} soaks of {min_soak_s:g} s, the longest has {longest:g} s; {finding.detail}"
    needs = f"{wanted - soaks} more of at least {min_soak_s:g} s needed"
    return replace(finding, outcome="unknown", code="insufficient_n", detail=detail, needs=needs)


def judge_drill(rule: Rule, sides: Sides, drill: Drill) -> Finding:
    """All tries together against the limit, and those of each piece that can fail the rule by itself."""
    _, tries = drill.figure(sides.candidate)
    if tries < max(1, rule.min_compute):
        code = "insufficient_n" if tries else "no_evidence"
        detail = f"{tries} of {rule.min_pass} {drill.tries}"
        finding = unknown(code, detail, needs=more_needed(rule.min_pass, tries, drill.tries))
    else:
        finding = _drilled(rule, sides.candidate, drill)
    alone = [one for one in sides.standing(rule) if drill.figure([one])[1] >= max(1, rule.min_compute)]
    finding = first_fail([finding, *(_marked(one, sides, _drilled(rule, [one], drill)) for one in alone)])
    if finding.outcome == "pass" and tries < rule.min_pass:
        needs = more_needed(rule.min_pass, tries, drill.tries)
        finding = replace(finding, outcome="unknown", code="insufficient_n", needs=needs)
    return replace(finding, evidence=ids(sides.standing(rule)))


def _drilled(rule: Rule, members: Sequence[Member], drill: Drill) -> Finding:
    value, tries = drill.figure(members)
    return fact(rule, value, tries, f"{value:g} {drill.what}, {tries} {drill.tries}, at most {rule.bound:g} allowed")


def _events_text(rule: Rule, events: float, seconds: float, what: str) -> str:
    return f"{events:g} {what} in {seconds:g} s, at most {rule.bound:g} allowed"


def _marked(member: Member, sides: Sides, finding: Finding) -> Finding:
    return finding if member in sides.candidate else replace(finding, notes=(SUPERSEDED,))
