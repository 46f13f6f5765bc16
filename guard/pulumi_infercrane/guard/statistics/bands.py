"""Outcomes that are no single bound against a single limit."""

from typing import Literal

from pulumi_infercrane.guard.statistics.intervals import Interval

Outcome = Literal["pass", "fail", "unknown"]


def within_band(interval: Interval, low: float, high: float) -> Outcome:
    """Neither below `low` nor above `high`; both limits belong to pass."""
    if low <= interval.lo and interval.hi <= high:
        return "pass"
    return "fail" if interval.hi < low or interval.lo > high else "unknown"


def guard_band(ratio: float, margin: float) -> Outcome:
    """A ratio that comes without an interval, lower is better: half the margin passes, twice the margin fails."""
    if ratio <= round(1 + margin / 2, 9):
        return "pass"
    return "fail" if ratio >= round(1 + 2 * margin, 9) else "unknown"
