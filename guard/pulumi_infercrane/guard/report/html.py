"""One page for people, in one file: figures, plots and the evidence behind a decision.

No script, no font, no address is loaded: the page forbids it to itself, so it can be kept beside the record and opened
anywhere. What it shows comes from evidence others wrote; all of it is text.
"""

from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any

from pulumi_infercrane.guard.printable import short
from pulumi_infercrane.guard.report import RECORD_ALONE, Context
from pulumi_infercrane.guard.report._common import (
    NOTHING,
    Row,
    baseline_role,
    described,
    headline,
    kinds_without_evidence,
    last_flip,
    places,
    reasons,
    remarks,
    revision,
    rows,
    web_link,
    worst_first,
)
from pulumi_infercrane.guard.report._elements import DEFINITIONS, name, outcome, sign, table, text, whole
from pulumi_infercrane.guard.report._forest import forest

_SIGN_OF = {"promote": "pass", "reject": "fail", "insufficient_evidence": "unknown"}
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_COLUMNS = ("rule", "outcome", "estimate", "interval", "limit", "n", "reason", "what would settle it")


def render(record: Mapping[str, Any], context: Context = RECORD_ALONE) -> str:
    """The document. Plots of distributions need the evidence; without it the figures of the record remain."""
    title = f"{record['verdict']}: {record['service']}"
    sections = (_why(record), _rules(record), _plots(record, context), _waivers(record), _evidence(record, context))
    body = "".join("".join(section) for section in sections)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{text(title)}</title><style>{_style()}</style></head>"
        f"<body>{DEFINITIONS}{_head(record, context)}<main>{body}</main>{_foot(record, context)}</body></html>"
    )


def _style() -> str:
    return files(__package__).joinpath("page.css").read_text(encoding="utf-8")


def _head(record: Mapping[str, Any], context: Context) -> str:
    kind = _SIGN_OF.get(record["verdict"], "unknown")
    verdict, _, meaning = headline(record).partition(": ")
    facts = {
        "service": record["service"],
        "stack": record["stack"],
        "candidate": _side(record["candidate"], context),
        baseline_role(record): _side(record["baseline"], context) if "baseline" in record else "",
        "changed": ", ".join(record.get("change", ())),
        "as of": record["as_of"],
    }
    listed = "".join(f"<div><dt>{label}</dt><dd>{text(value)}</dd></div>" for label, value in facts.items() if value)
    return (
        f'<header class="{kind}"><h1>{sign(kind)}<span>{text(verdict)}</span></h1>'
        f"<p>{text(meaning)}</p><dl>{listed}</dl></header>"
    )


def _side(digest: str, context: Context) -> str:
    """Name and digits of a revision, and what it is."""
    return ": ".join(filter(None, (revision(digest, context), described(digest, context))))


def _why(record: Mapping[str, Any]) -> Iterator[str]:
    missing = kinds_without_evidence(record)
    found = reasons(record)
    if not found and not missing:
        return
    yield "<section><h2>Because</h2><ol>"
    for reason, needs in found:
        settles = f'<br><span class="needs">→ {text(needs)}</span>' if needs else ""
        yield f"<li>{text(reason)}{settles}</li>"
    yield "</ol>"
    if missing:
        yield f"<p>No evidence of {text(', '.join(missing))} about the candidate counts.</p>"
    yield "</section>"


def _rules(record: Mapping[str, Any]) -> Iterator[str]:
    found = rows(record)
    if found:
        lines = (_line(row) for row in worst_first(found))
        yield f"<section><h2>Rules</h2>{forest(record)}{table('All rules, worst first', _COLUMNS, lines)}"
        yield f"<ul>{''.join(_notes(record, found))}</ul></section>"


def _line(row: Row) -> tuple[str, ...]:
    marks = f"<small>{'hard' if row.weight == 'H' else 'soft'}{'' if row.required else ', not required'}</small>"
    figures = (whole(one) for one in (row.estimate, row.interval, row.limit, row.n))
    return (
        f"{name(row.rule)}<br>{marks}",
        outcome(row.outcome),
        *figures,
        text(row.reason),
        text(row.needs or NOTHING),
    )


def _notes(record: Mapping[str, Any], found: list[Row]) -> Iterator[str]:
    for row in found:
        if row.notes:
            yield f"<li>{text(row.rule)}: {text('; '.join(row.notes))}</li>"
    for note in record.get("notes", ()):
        yield f"<li>{text(note)}</li>"


def _plots(record: Mapping[str, Any], context: Context) -> Iterator[str]:
    if context.evidence is None:
        return
    from pulumi_infercrane.guard.report.plots import plots  # reads evidence, which a record alone does not need

    drawn = list(plots(record, context.evidence))
    if drawn:
        yield f"<section><h2>Measurements</h2>{''.join(drawn)}</section>"


def _waivers(record: Mapping[str, Any]) -> Iterator[str]:
    columns = ("rule", "state", "owner", "until", "reason")
    keys = ("rule", "state", "owner", "expires_at", "reason")
    lines = [[text(waiver[key]) for key in keys] for waiver in record.get("waivers", ())]
    if lines:
        yield f"<section><h2>Waivers</h2>{table('Waivers of the policy', columns, lines)}</section>"


def _evidence(record: Mapping[str, Any], context: Context) -> Iterator[str]:
    pieces = sorted(record["evidence"], key=lambda entry: not entry["used"])
    problems = context.evidence.problem_lines if context.evidence else ()
    if not pieces and not problems:
        return
    columns = ("evidence", "counts", "kind", "side", "revision", "measured until", "remarks")
    paths = places(context)
    lines = (_piece(piece, paths.get(piece["sha256"], ""), context) for piece in pieces)
    yield f"<section><h2>Evidence</h2>{table('Evidence seen', columns, lines)}"
    if problems:
        yield f"<h3>Files that do not count</h3><ul>{''.join(f'<li>{text(line)}</li>' for line in problems)}</ul>"
    yield "</section>"


def _piece(entry: Mapping[str, Any], path: str, context: Context) -> list[str]:
    identifier = short(entry.get("evidence_id") or entry["sha256"])
    used = whole("yes" if entry["used"] else "no")
    remarked = "; ".join(remarks(entry)) or NOTHING
    kind, role, ended = (whole(entry.get(key, NOTHING)) for key in ("kind", "role", "ended_at"))
    named = whole(identifier) + (f"<br><small>{text(path)}</small>" if path else "")
    return [named, used, kind, role, _revision(entry.get("revision", ""), context), ended, text(remarked)]


def _revision(digest: str, context: Context) -> str:
    """The digits stay together, a name may be of any length."""
    called = context.names.get(digest)
    return (f"{text(called)}<br>" if called else "") + whole(short(digest) or NOTHING)


def _foot(record: Mapping[str, Any], context: Context) -> str:
    link = web_link(context)
    about = {
        "decision": record["decision_id"],
        "policy": record["policy_digest"],
        "a flip is refused after": last_flip(record),
        "guard version": record["guard_version"],
    }
    listed = "".join(f"<div><dt>{label}</dt><dd>{text(value)}</dd></div>" for label, value in about.items() if value)
    more = f'<p><a href="{text(link)}" rel="noreferrer">The files of this run</a></p>' if link else ""
    return f"<footer><dl>{listed}</dl>{more}</footer>"
