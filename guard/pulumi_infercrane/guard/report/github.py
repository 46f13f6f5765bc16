"""GitHub Actions: annotations for the log, a table for the step summary, `verdict` and `decision` as outputs."""

from collections.abc import Mapping
from typing import Any

from pulumi_infercrane.guard.printable import clipped, one_line
from pulumi_infercrane.guard.report import RECORD_ALONE, Context
from pulumi_infercrane.guard.report._common import Row, rows, worst_first
from pulumi_infercrane.guard.report.markdown import page

MOST_ANNOTATIONS = 10
"""GitHub shows no more of one level from one step."""
MOST_SUMMARY_BYTES = 1000 * 1024
"""GitHub drops a step summary of more than 1,024 kB as a whole."""
LONGEST_MESSAGE = 2000

_COMMANDS = {"fail": "error", "unknown": "warning"}


def render(record: Mapping[str, Any], context: Context = RECORD_ALONE) -> str:
    """`::error …` and `::warning …` lines, worst first, at most ten; empty when nothing stands in the way."""
    found = [row for row in worst_first(rows(record)) if not row.settled]
    return "\n".join(_annotation(row, context) for row in found[:MOST_ANNOTATIONS])


def summary(record: Mapping[str, Any], context: Context = RECORD_ALONE) -> str:
    """The table for the step summary, cut before GitHub would drop it."""
    return page(record, context, MOST_SUMMARY_BYTES)


def outputs(record: Mapping[str, Any], context: Context = RECORD_ALONE) -> str:
    """`verdict=…` and `decision=sha256:…`, for later steps."""
    return f"verdict={one_line(record['verdict'])}\ndecision={one_line(record['decision_id'])}"


FILES = {"GITHUB_STEP_SUMMARY": summary, "GITHUB_OUTPUT": outputs}


def _annotation(row: Row, context: Context) -> str:
    place = {"file": one_line(context.policy), "line": str(context.lines.get(row.rule, 1))} if context.policy else {}
    properties = place | {"title": f"{row.rule} {row.outcome}"}
    listed = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    message = clipped(f"{row.rule}: {row.message} ({row.figures})", LONGEST_MESSAGE)
    return f"::{_COMMANDS[row.outcome]} {listed}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
