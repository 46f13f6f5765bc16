"""What decisions on traffic say beyond their rules: where the route goes, who is watched, which windows counted."""

from collections.abc import Iterator, Mapping
from typing import Any

from pulumi_infercrane.guard.printable import one_line, short
from pulumi_infercrane.guard.report import Context
from pulumi_infercrane.guard.report._common import revision


def route(record: Mapping[str, Any], context: Context) -> Iterator[str]:
    """Where traffic is decided on: weights or the state of the watch, how the look was judged, and notices."""
    if record["decision_type"] == "promotion" and "weights" in record:
        yield one_line(f"canary: first {record['weights'].get(record['candidate'], 0)} %")
    if "look" not in record:
        return
    if record["decision_type"] == "canary_step":
        name, step = record["candidate"], record["step"]
        yield one_line(f"step {step['weight']} % since {step['started_at']} · then {record['weights'].get(name, 0)} %")
    else:
        yield one_line(f"watched since {record['started_at']} · {record['state']}")
    look = record["look"]
    yield one_line(f"{look['stage']} · look {look['number']} · alpha {look['alpha']:.3g}")
    if "rollback_to" in record:
        yield f"back to {revision(record['rollback_to'], context)}"
    yield from (one_line(f"notice: {notice}") for notice in record["notices"])


def windows(record: Mapping[str, Any]) -> Iterator[str]:
    """One line for each window that was given, those that counted first."""
    given = record.get("windows", ())
    if given:
        yield "windows"
    for entry in sorted(given, key=lambda entry: not entry["used"]):
        state = "used    " if entry["used"] else "not used"
        times = f"{entry['started_at']} to {entry['ended_at']}" if "started_at" in entry else "unreadable"
        file = f"  {entry['file']}" if "file" in entry else ""
        reasons = "".join(f"  {reason}" for reason in entry.get("reasons", ()))
        yield "  " + one_line(f"{state}  {short(entry['sha256'])}{file}  {times}{reasons}")
