"""`infercrane.reliability/v1`: one line per request of a soak; events and drills stand in the header."""

import math
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from pulumi_infercrane.guard.evidence.readers.infercrane import TOLERATED_CLOCK_S, duration_s, window_s
from pulumi_infercrane.guard.evidence.reading.fields import bad, count, field, number, optional_count, optional_number
from pulumi_infercrane.guard.evidence.records import Reliability
from pulumi_infercrane.guard.reasons import Inadmissible

TIMEOUT = "timeout"
"""How the outcome of a request ends that nobody answered in time."""


def read(header: Mapping[str, Any], lines: Iterator[tuple[int, dict[str, Any]]]) -> Reliability:
    """The soak of one file.

    Raises:
        Inadmissible: with the line.
    """
    window, watched = window_s(header), duration_s(header)
    outcomes, times = Counter[str](), array("d")
    for line_number, line in lines:
        where = f"line {line_number}"
        outcomes[_outcome(line, window, where)] += 1
        times.append(optional_number(line, "e2e_s", where) or math.nan)
    errors = {outcome: times for outcome, times in outcomes.items() if outcome != "complete"}
    opened, completed = _drain(header)
    return Reliability(
        attempted=outcomes.total(),
        failed=sum(errors.values()),
        duration_s=watched,
        timeouts=sum(times for outcome, times in errors.items() if outcome.endswith(TIMEOUT)),
        errors=errors,
        times_s=times,
        crashes=optional_count(header, "crashes", "line 1"),
        oom_kills=optional_count(header, "oom_kills", "line 1"),
        restarts=optional_count(header, "restarts", "line 1"),
        unready_s=_seconds(header, "unready_s"),
        ghost_replicas=optional_count(header, "ghost_replicas", "line 1"),
        cold_starts_s=_cold_starts(header),
        rollback_drill_s=_seconds(header, "rollback_drill_s"),
        streams_open_at_drain=opened,
        streams_completed_at_drain=completed,
    )


def _outcome(line: Mapping[str, Any], window: float, where: str) -> str:
    if not 0 <= number(line, "start_s", where) <= window + TOLERATED_CLOCK_S:
        raise Inadmissible("inconsistent", f"{where}: start_s does not lie within the {window:g} s of the soak")
    return field(line, "outcome", str, where)


def _seconds(header: Mapping[str, Any], name: str) -> float | None:
    seconds = optional_number(header, name, "line 1")
    if seconds is not None and seconds < 0:
        raise bad("line 1", f"{name} is negative")
    return seconds


def _cold_starts(header: Mapping[str, Any]) -> tuple[float, ...]:
    starts = field(header, "cold_starts_s", list, "line 1") if "cold_starts_s" in header else []
    seconds = [number({"start": start}, "start", "line 1, cold_starts_s") for start in starts]
    if any(start <= 0 for start in seconds):
        raise bad("line 1", "cold_starts_s holds a start that took no time")
    return tuple(seconds)


def _drain(header: Mapping[str, Any]) -> tuple[int | None, int | None]:
    if "drain" not in header:
        return None, None
    drain = field(header, "drain", dict, "line 1")
    opened, completed = (count(drain, f"streams_{name}", "line 1, drain") for name in ("open", "completed"))
    if completed > opened:
        raise Inadmissible("inconsistent", f"line 1, drain: {completed} streams completed of {opened} that were open")
    return opened, completed
