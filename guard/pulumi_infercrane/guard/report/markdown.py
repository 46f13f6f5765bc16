"""A comment on a merge request: verdict, the first reason, the figures of every rule, what would settle it."""

import re
from collections.abc import Mapping
from typing import Any

from pulumi_infercrane.guard.printable import clipped, one_line, short
from pulumi_infercrane.guard.report import RECORD_ALONE, Context
from pulumi_infercrane.guard.report._common import (
    Row,
    baseline_role,
    fitting,
    headline,
    kinds_without_evidence,
    last_flip,
    reasons,
    rows,
    web_link,
    worst_first,
)

MOST_BYTES = 64_000
"""GitHub refuses a comment of more than 65,536 characters."""
LONGEST_CELL = 500

_SIGNS = {"promote": "✅", "reject": "❌", "insufficient_evidence": "❔"}
_OUTCOMES = {"pass": "✅ pass", "fail": "❌ fail", "unknown": "❔ unknown", "waived": "⚠️ waived"}
_TABLE = (
    "| rule | outcome | estimate | interval | limit | n | reason | what would settle it |",
    "|:--|:--|--:|:-:|--:|--:|:--|:--|",
)
_ACTIVE = re.compile(r"(?!(?<=\d)\.(?=\d))[^\w\s,\-]|_")
"""What Markdown might read as mark-up: all punctuation but the point of a decimal number, commas and minus signs."""


def render(record: Mapping[str, Any], context: Context = RECORD_ALONE) -> str:
    """The comment: at most 64,000 bytes."""
    return page(record, context, MOST_BYTES)


def page(record: Mapping[str, Any], context: Context, most_bytes: int) -> str:
    """The same in at most `most_bytes` of UTF-8: the last rows of the table go first, and their number is told."""
    before = [*_head(record), *_because(record), "", *_missing(record)]
    after = ["", *_foot(record, context)]
    room = most_bytes - sum(len(line.encode()) + 1 for line in [*before, *_TABLE, *after])
    table = [_table_line(row) for row in worst_first(rows(record))]
    shown = [*_TABLE, *fitting(table, room)] if table else []
    return "\n".join([*before, *shown, *after])


def _head(record: Mapping[str, Any]) -> list[str]:
    baseline = f" against {baseline_role(record)} {code(short(record['baseline']))}" if "baseline" in record else ""
    about = f"service {code(record['service'])}, stack {code(record['stack'])}, as of {code(record['as_of'])}"
    return [
        f"### {_SIGNS.get(record['verdict'], '')} {_inert(headline(record))}",
        "",
        f"Candidate {code(short(record['candidate']))}{baseline}; {about}.",
        "",
    ]


def _because(record: Mapping[str, Any]) -> list[str]:
    """The one reason that decided; the table has the others."""
    found = reasons(record)[:1]
    lines = [f"**Because** {code(reason)}" + (f"<br>→ {code(needs)}" if needs else "") for reason, needs in found]
    return lines or ["Every required rule passed."]


def _missing(record: Mapping[str, Any]) -> list[str]:
    missing = kinds_without_evidence(record)
    return [f"No evidence of {', '.join(code(kind) for kind in missing)} about the candidate.", ""] if missing else []


def _table_line(row: Row) -> str:
    outcome = _OUTCOMES.get(row.outcome) or code(row.outcome)
    figures = (row.estimate, row.interval, row.limit, row.n)
    needs = code(row.needs) if row.needs else ""
    return "| " + " | ".join([code(row.rule), outcome, *(code(one) for one in figures), code(row.reason), needs]) + " |"


def _foot(record: Mapping[str, Any], context: Context) -> list[str]:
    decision = code(short(record["decision_id"]))
    linked = f"[{decision}]({web_link(context)})" if web_link(context) else decision
    expires = f" · a flip is refused after {code(last_flip(record))}" if last_flip(record) else ""
    return [f"Decision {linked} · policy {code(short(record['policy_digest']))}{expires}"]


def code(text: str) -> str:
    """Text that stays text: no mark-up, link, mention or issue reference comes of it, in a table or elsewhere."""
    return f"<code>{_inert(text)}</code>"


def _inert(text: str) -> str:
    return _ACTIVE.sub(lambda match: f"&#{ord(match[0])};", clipped(one_line(text), LONGEST_CELL))
