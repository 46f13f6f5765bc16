"""A decision as plain text: the verdict, what decided it, the figures, and what would settle it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pulumi_infercrane.guard.printable import one_line, short
from pulumi_infercrane.guard.report import RECORD_ALONE, Context
from pulumi_infercrane.guard.report._common import (
    Row,
    baseline_role,
    headline,
    last_flip,
    places,
    reasons,
    remarks,
    revision,
    rows,
)
from pulumi_infercrane.guard.report._traffic import route, windows

_COLUMNS = ("rule", "", "estimate", "[lo, hi]", "limit", "n", "outcome")


def render(record: Mapping[str, Any], context: Context = RECORD_ALONE) -> str:
    """The text of one decision record, without a final newline."""
    blocks = (
        _head(record, context),
        route(record, context),
        _because(record),
        _rules(record),
        _waivers(record),
        _evidence(record, context),
        windows(record),
        _foot(record),
    )
    parts = ["\n".join(lines) for block in blocks if (lines := list(block))]
    if context.evidence and context.evidence.problem_lines:
        parts.append(problems(context.evidence.problem_lines))
    return "\n\n".join(parts)


def _head(record: Mapping[str, Any], context: Context) -> Iterator[str]:
    yield headline(record)
    yield one_line(f"service {record['service']} · stack {record['stack']} · as of {record['as_of']}")
    yield f"candidate {revision(record['candidate'], context)}" + _baseline(record, context)


def _baseline(record: Mapping[str, Any], context: Context) -> str:
    change = f" · changed: {', '.join(record['change'])}" if record.get("change") else ""
    if "baseline" not in record:
        return ""
    return one_line(f" · {baseline_role(record)} {revision(record['baseline'], context)}{change}")


def _because(record: Mapping[str, Any]) -> Iterator[str]:
    found = reasons(record)
    if found:
        yield "because"
    for reason, needs in found:
        yield f"  {reason}"
        if needs:
            yield f"      → {needs}"


def _rules(record: Mapping[str, Any]) -> Iterator[str]:
    found = rows(record)
    if not found:
        return
    table = [_COLUMNS, *(_cells(row) for row in found)]
    widths = [max(len(cells[column]) for cells in table) for column in range(len(_COLUMNS))]
    for cells in table:
        yield "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
    for row in found:
        if row.notes:
            yield f"  {row.rule}: {'; '.join(row.notes)}"
    for note in record.get("notes", ()):
        yield f"  {one_line(note)}"


def _cells(row: Row) -> tuple[str, ...]:
    return (row.rule, row.weight, row.estimate, row.interval, row.limit, row.n, f"{row.outcome} ({row.code})")


def _waivers(record: Mapping[str, Any]) -> Iterator[str]:
    for waiver in record.get("waivers", ()):
        yield one_line(
            f"waiver of {waiver['rule']} by {waiver['owner']} until {waiver['expires_at']} "
            f"({waiver['state']}): {waiver['reason']}"
        )


def _evidence(record: Mapping[str, Any], context: Context) -> Iterator[str]:
    if not record["evidence"]:
        return
    paths = places(context)
    yield "evidence"
    for entry in sorted(record["evidence"], key=lambda entry: not entry["used"]):
        yield "  " + one_line(_piece(entry, paths.get(entry["sha256"], ""), context))


def _piece(entry: Mapping[str, Any], path: str, context: Context) -> str:
    state = "used    " if entry["used"] else "not used"
    what = "unreadable envelope"
    if "kind" in entry:
        what = f"{entry['kind']:9}  {entry['role']:9}  {revision(entry['revision'], context)}  {entry['ended_at']}"
    remarked = "".join(f"  {remark}" for remark in (path, *remarks(entry)) if remark)
    return f"{state}  {short(entry.get('evidence_id') or entry['sha256'])}  {what}{remarked}"


def _foot(record: Mapping[str, Any]) -> Iterator[str]:
    expires = f" · a flip is refused after {last_flip(record)}" if last_flip(record) else ""
    yield one_line(f"decision {short(record['decision_id'])} · policy {short(record['policy_digest'])}{expires}")


def problems(lines: Sequence[str]) -> str:
    """Files that do not count, by name: what the record leaves out because places do not enter a decision."""
    return "\n".join(["files that do not count", *(f"  {one_line(line)}" for line in lines)])
