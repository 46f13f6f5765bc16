"""Reader of our own collectors' files, JSON Lines: `infercrane.<kind>/v1`, one module per kind, found by its name.

A module exposes `read(header, lines) -> Record`; `lines` are pairs of line number and object, with unique ids, and are
parsed while they are read.
"""

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from pulumi_infercrane.guard.evidence.envelope import Envelope
from pulumi_infercrane.guard.evidence.reading.fields import count, field, number
from pulumi_infercrane.guard.evidence.reading.stated import Stated
from pulumi_infercrane.guard.evidence.records import Record
from pulumi_infercrane.guard.reasons import Inadmissible
from pulumi_infercrane.guard.strict_json import parse_lines
from pulumi_infercrane.guard.times import parse_time

VERSIONS = ("0.1",)
READS = "JSON Lines of `infercrane collect`, `infercrane.<kind>/v1`: every request, item or event of a run."
CANNOT_KNOW = "What happened outside the requests it sent, such as other load on the same machine."

TOLERATED_CLOCK_S = 60.0

Line = tuple[int, dict[str, Any]]


def read(parts: Mapping[str, bytes], envelope: Envelope) -> Record:
    """The canonical record of one file, cross-checked with its envelope.

    Raises:
        Inadmissible: with the reason code and the line or field.
    """
    if envelope.kind not in _kinds():
        raise Inadmissible("tool_unknown", f"infercrane writes no evidence of kind {envelope.kind!r}")
    lines = parse_lines(parts["primary"])
    header = next(lines)
    if header.get("schema") != f"infercrane.{envelope.kind}/v1":
        raise Inadmissible("schema_unknown", f"line 1: schema is not infercrane.{envelope.kind}/v1")
    planned = _check_header(header, envelope)
    record: Record = importlib.import_module(f"{__name__}.{envelope.kind}").read(header, _numbered(lines, planned))
    return record


def stated(parts: Mapping[str, bytes]) -> Stated:
    """Version, window and number of planned lines, from the first line."""
    header = next(parse_lines(parts["primary"]))
    text = {name: str(header.get(name, "")) for name in ("tool_version", "started_at", "ended_at")}
    planned = header.get("planned")
    return Stated(**text, planned=planned if isinstance(planned, int) else None)


@cache
def _kinds() -> frozenset[str]:
    return frozenset(module.name for module in pkgutil.iter_modules(__path__))


def window_s(header: Mapping[str, Any]) -> float:
    """Seconds from `started_at` to `ended_at` of a header."""
    started, ended = (_time(field(header, name, str, "line 1")) for name in ("started_at", "ended_at"))
    return float((ended - started).total_seconds())


def duration_s(header: Mapping[str, Any]) -> float:
    """The `duration_s` of a header: less than its window where the run was interrupted or took turns, never more."""
    duration = number(header, "duration_s", "line 1")
    if not 0 < duration <= window_s(header) + TOLERATED_CLOCK_S:
        text = f"line 1: duration_s {duration:g} does not fit between started_at and ended_at"
        raise Inadmissible("inconsistent", text)
    return duration


def _check_header(header: Mapping[str, Any], envelope: Envelope) -> int:
    """What the file says of itself must be what its envelope says; the number of planned requests."""
    if envelope.planned is None:
        raise Inadmissible("binding_missing", "the envelope does not say how many requests were planned")
    if field(header, "revision_digest", str, "line 1") != envelope.subject.revision_digest:
        raise Inadmissible("binding_conflict", "the file names another revision than its envelope")
    planned = count(header, "planned", "line 1")
    if planned != envelope.planned.requests:
        raise Inadmissible("counters_disagree", "the file plans another number of requests than its envelope")
    for name, declared in (("started_at", envelope.window.started), ("ended_at", envelope.window.ended)):
        written = _time(field(header, name, str, "line 1"))
        if abs((written - declared).total_seconds()) > TOLERATED_CLOCK_S:
            raise Inadmissible("inconsistent", f"{name} of the file and of its envelope differ by more than a minute")
    _check_accelerators(header, envelope)
    return planned


def _check_accelerators(header: Mapping[str, Any], envelope: Envelope) -> None:
    """What is priced is what the revision runs on, once or several times over."""
    of_revision = envelope.subject.accelerator.count
    priced = count(header, "gpu_count", "line 1") if "gpu_count" in header else of_revision
    if of_revision and priced % of_revision:
        detail = f"the file prices {priced} accelerators, a replica of the revision has {of_revision}"
        raise Inadmissible("binding_conflict", detail)


def _time(text: str) -> Any:
    try:
        return parse_time(text)
    except ValueError as error:
        raise Inadmissible("clock", f"line 1: {error}") from error


def _numbered(lines: Iterator[dict[str, Any]], planned: int) -> Iterator[Line]:
    """The lines after the header. An id that occurs twice, or more lines than were planned, are refused."""
    seen: set[str] = set()
    for line_number, line in enumerate(lines, start=2):
        identifier = line.get("id")
        if not isinstance(identifier, str):
            raise Inadmissible("bad_value", f"line {line_number}: id is missing or not a text")
        if identifier in seen:
            raise Inadmissible("counters_disagree", f"line {line_number}: id {identifier!r} occurs twice")
        seen.add(identifier)
        if len(seen) > planned:
            raise Inadmissible("counters_disagree", f"more than the {planned} lines that were planned")
        yield line_number, line
