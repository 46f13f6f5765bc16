"""A decision as plain text: the verdict, what decided it, the figures, and what would settle it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_HEADLINES = {
    ("promotion", "promote"): "PROMOTE: the candidate may take over",
    ("promotion", "reject"): "REJECT: the active revision keeps serving",
    ("promotion", "insufficient_evidence"): "INSUFFICIENT EVIDENCE: the active revision keeps serving",
    ("bootstrap", "promote"): "BOOTSTRAP: the first revision of this service may serve",
    ("rollback", "promote"): "ROLLBACK: an earlier revision may take over again",
    ("override", "promote"): "OVERRIDE: the target takes over by order, without evidence",
}
_COLUMNS = ("rule", "", "estimate", "[lo, hi]", "limit", "n", "outcome")


def render(record: Mapping[str, Any]) -> str:
    """The text of one decision record, without a final newline."""
    blocks = (_head(record), _because(record), _rules(record), _waivers(record), _evidence(record), _foot(record))
    return "\n\n".join("\n".join(lines) for block in blocks if (lines := list(block)))


def _head(record: Mapping[str, Any]) -> Iterator[str]:
    kind = (record["decision_type"], record["verdict"])
    yield _HEADLINES.get(kind, f"{record['decision_type']}: {record['verdict']}")
    yield f"service {record['service']} · stack {record['stack']} · as of {record['as_of']}"
    yield f"candidate {short(record['candidate'])}" + _baseline(record)


def _baseline(record: Mapping[str, Any]) -> str:
    change = f" · changed: {', '.join(record['change'])}" if record.get("change") else ""
    return f" · active {short(record['baseline'])}{change}" if "baseline" in record else ""


def _because(record: Mapping[str, Any]) -> Iterator[str]:
    if record["verdict"] == "promote" and record["decision_type"] == "promotion":
        return
    yield "because"
    for reason in record["reasons"]:
        line, _, needs = reason.partition("; ")
        yield f"  {line}"
        if needs:
            yield f"      → {needs}"


def _rules(record: Mapping[str, Any]) -> Iterator[str]:
    if not record["rules"]:
        return
    rows = [_COLUMNS, *(_row(rule) for rule in record["rules"])]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
    for rule in record["rules"]:
        if rule.get("notes"):
            yield f"  {rule['rule']}: {'; '.join(rule['notes'])}"
    for note in record.get("notes", ()):
        yield f"  {note}"


def _row(rule: Mapping[str, Any]) -> tuple[str, ...]:
    interval = f"[{_figure(rule.get('lo'))}, {_figure(rule.get('hi'))}]" if "lo" in rule else "-"
    sizes = " / ".join(str(n) for n in rule.get("n", ())) or "-"
    outcome = f"{rule['outcome']} ({rule['reasons'][0]})"
    return (
        rule["rule"],
        rule["class"],
        _figure(rule.get("estimate")),
        interval,
        _figure(rule.get("limit")),
        sizes,
        outcome,
    )


def _figure(value: float | str | None) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else f"{value:.3g}"


def _waivers(record: Mapping[str, Any]) -> Iterator[str]:
    for waiver in record.get("waivers", ()):
        yield (
            f"waiver of {waiver['rule']} by {waiver['owner']} until {waiver['expires_at']} "
            f"({waiver['state']}): {waiver['reason']}"
        )


def _evidence(record: Mapping[str, Any]) -> Iterator[str]:
    if not record["evidence"]:
        return
    yield "evidence"
    for entry in sorted(record["evidence"], key=lambda entry: not entry["used"]):
        yield "  " + _piece(entry)


def _piece(entry: Mapping[str, Any]) -> str:
    state = "used    " if entry["used"] else "not used"
    what = "unreadable envelope"
    if "kind" in entry:
        what = f"{entry['kind']:9}  {entry['role']:9}  {short(entry['revision'])}  {entry['ended_at']}"
    reasons = "".join(f"  {reason}" for reason in entry["reasons"])
    return f"{state}  {short(entry.get('evidence_id') or entry['sha256'])}  {what}{reasons}"


def _foot(record: Mapping[str, Any]) -> Iterator[str]:
    expires = f" · a flip is refused after {record['expires_at']}" if record.get("expires_at") else ""
    yield f"decision {short(record['decision_id'])} · policy {short(record['policy_digest'])}{expires}"


def short(digest: str) -> str:
    """The first twelve hex digits."""
    return digest.removeprefix("sha256:")[:12]


def problems(lines: Sequence[str]) -> str:
    """Files that do not count, by name: what the record leaves out because places do not enter a decision."""
    return "\n".join(["files that do not count", *(f"  {line}" for line in lines)])
