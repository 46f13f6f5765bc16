"""Rules over a soak and its drills, of the candidate alone: failed requests, events, cold starts, rollback, drain."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from pulumi_infercrane.guard.judging.events import Drill, EventCount, judge_drill, judge_events, needs_soak
from pulumi_infercrane.guard.judging.proportions import Count, failures, judge_share
from pulumi_infercrane.guard.judging.rule import (
    Finding,
    Kind,
    Member,
    Rule,
    RuleForm,
    Settings,
    Sides,
    too_short,
    unknown,
)
from pulumi_infercrane.guard.statistics import quantile

COLD_START_QUANTILE = 0.95
"""Below 20 starts this is the slowest of them."""


@dataclass(frozen=True)
class _Event:
    """Something counted over a soak; `what` is its name after a number."""

    counting: EventCount
    what: str
    unit: str = "events"

    @property
    def form(self) -> RuleForm:
        return RuleForm("limit", 0.0, hard=True, min_pass=1, min_compute=1, unit=self.unit, counts="soaks")


def _timeouts(member: Member) -> Count:
    return member.record.timeouts, member.record.attempted


def _cold_starts(members: Sequence[Member]) -> tuple[float, int]:
    starts = sorted(start for member in members for start in member.record.cold_starts_s)
    return (quantile(starts, COLD_START_QUANTILE) if starts else 0.0), len(starts)


def _rollbacks(members: Sequence[Member]) -> tuple[float, int]:
    drills = [seconds for member in members if (seconds := member.record.rollback_drill_s) is not None]
    return max(drills, default=0.0), len(drills)


def _cut_streams(members: Sequence[Member]) -> tuple[float, int]:
    drains = [
        (opened, completed)
        for member in members
        if (opened := member.record.streams_open_at_drain) is not None
        and (completed := member.record.streams_completed_at_drain) is not None
    ]
    return float(sum(opened - completed for opened, completed in drains)), sum(opened for opened, _ in drains)


_SHARES: dict[str, Callable[[Member], Count]] = {"error_fraction": failures, "timeouts": _timeouts}
_EVENTS = {
    "crashes": _Event(lambda member: member.record.crashes, "crashes"),
    "oom_kills": _Event(lambda member: member.record.oom_kills, "out-of-memory kills"),
    "restarts": _Event(lambda member: member.record.restarts, "restarts"),
    "ghost_replicas": _Event(lambda member: member.record.ghost_replicas, "ghost replicas"),
    "unready_s": _Event(lambda member: member.record.unready_s, "s unready", unit="s"),
}
_DRILLS = {
    "cold_start_p95": Drill(_cold_starts, "s for 95 % of the cold starts", "cold starts"),
    "rollback_drill": Drill(_rollbacks, "s for the slowest rollback drill", "rollback drills that succeeded"),
    "cut_streams": Drill(_cut_streams, "streams cut by a drain", "streams open when a drain began"),
}
_FORMS = {
    **{f"reliability.{name}": RuleForm("limit", 0.005, hard=True, min_pass=1, min_compute=1) for name in _SHARES},
    **{f"reliability.{name}": event.form for name, event in _EVENTS.items()},
    "reliability.cold_start_p95": RuleForm("limit", None, True, 3, 3, unit="s", counts="cold starts"),
    "reliability.rollback_drill": RuleForm("limit", 300.0, True, 1, 1, unit="s", counts="drills"),
    "reliability.cut_streams": RuleForm("limit", 0.0, True, 1, 1, unit="streams", counts="open streams"),
}


def _judge(rule: Rule, sides: Sides, settings: Settings) -> Finding:
    name = rule.id.partition(".")[2]
    if name in _SHARES:
        return _judge_share(rule, _SHARES[name], sides, settings)
    if name in _EVENTS:
        return judge_events(rule, sides, _EVENTS[name].counting, _EVENTS[name].what, settings.min_soak_s)
    return judge_drill(rule, sides, _DRILLS[name])


def _judge_share(rule: Rule, counting: Callable[[Member], Count], sides: Sides, settings: Settings) -> Finding:
    if any(None in counting(member) for member in sides.candidate):
        return unknown("counters_disagree", "the file does not say how many requests were attempted and failed so")
    superseded = [member for member in sides.still_counting(rule) if None not in counting(member)]
    finding = judge_share(rule, sides.candidate, counting, rule.bound, settings.alpha, superseded)
    return needs_soak(rule, finding, [member.measured_s for member in sides.candidate], settings.min_soak_s)


KIND = Kind(
    name="reliability",
    max_age=timedelta(days=7),
    max_age_in_production=timedelta(hours=24),
    form=_FORMS.get,
    forms=_FORMS,
    example="reliability.error_fraction",
    check=too_short,
    judge=_judge,
)
