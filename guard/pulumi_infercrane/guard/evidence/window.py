"""Traffic windows (`infercrane.window/v1`): what a router counted for every revision behind one route, side by side.

One JSON object a file, written when the window closes. It is no evidence of the five kinds: nobody sent these requests
to measure something, and both revisions answered them at the same time.
"""

import json
import math
import os
import stat
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import ValidationError

from pulumi_infercrane.guard.canonical import canonical_bytes, digest_bytes
from pulumi_infercrane.guard.errors import CanonicalError, EvidenceError
from pulumi_infercrane.guard.evidence.reading.fields import bad, count, field, number
from pulumi_infercrane.guard.evidence.records import Column
from pulumi_infercrane.guard.files import why
from pulumi_infercrane.guard.findings import findings
from pulumi_infercrane.guard.reasons import Inadmissible, Problem
from pulumi_infercrane.guard.strict_json import parse
from pulumi_infercrane.guard.times import parse_time
from pulumi_infercrane.guard.trust.attestation import Attestation

SCHEMA = "infercrane.window/v1"
SUFFIX = ".window.json"
VERSIONS = ("0.1",)
MAX_BYTES = 64 * 1024 * 1024
MAX_BINDINGS = 100
MAX_REQUESTS = 10_000_000
"""Of one revision: more than a file of `MAX_BYTES` holds values of, and no more than memory does."""
MAX_STACK = 302
"""Characters of the name of a stack, written out in full."""
LOST = ("worker", "router")
"""Processes whose counts may be missing."""
LONGEST_S = 86400.0
"""A figure beyond a day is no measurement."""

ERROR_CLASSES = (
    "connect_failed",
    "error_event",
    "first_byte_timeout",
    "http_error",
    "idle_timeout",
    "upstream_closed",
    "upstream_protocol",
)
"""How a model fails; `http_error` is a status from 500. Streams that ended early are counted in `cut_streams` alone."""

FIGURES = ("ttft_s", "tpot_s", "e2e_s")
_WINDOW_KEYS = {
    "schema",
    "tool_version",
    "service",
    "stack",
    "decision_id",
    "generation",
    "started_at",
    "ended_at",
    "lost",
    "bindings",
    "attestation",
}
_BINDING_KEYS = {
    "revision",
    "weight",
    "attempted",
    "completed",
    "failed_by_class",
    "cut_streams",
    "client_faults",
    "client_cancelled",
    "unobserved",
    "restarts",
    *FIGURES,
}


@dataclass(frozen=True)
class Buckets:
    """A histogram: `counts[i]` values are at most `edges[i]` seconds, the last count lies beyond every edge."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]

    def beyond(self, edge: float) -> int | None:
        """Values above an edge; None when it is none of the edges."""
        return sum(self.counts[self.edges.index(edge) + 1 :]) if edge in self.edges else None


Values: TypeAlias = "Column | Buckets"
"""A value for every completed request, NaN for one that has none; or buckets."""


@dataclass(frozen=True)
class Binding:
    """What one revision was asked and answered in a window. `weight` is its share of the route in percent."""

    revision: str
    weight: int
    attempted: int
    """Everything bound to this revision: all the counts below together."""
    completed: int
    failed_by_class: Mapping[str, int]
    cut_streams: int
    client_faults: Mapping[str, int]
    """By status, `400` to `499`: the client's doing, no failure of the model."""
    client_cancelled: int
    unobserved: int
    """Requests of which the router cannot say how they ended."""
    restarts: int
    """Of all replicas of this revision."""
    figures: Mapping[str, Values]
    """By `ttft_s`, `tpot_s`, `e2e_s`; what the router does not know is left out."""

    @property
    def failed(self) -> int:
        return sum(self.failed_by_class.values()) + self.cut_streams

    @property
    def judged(self) -> int:
        """Requests that say something about the model."""
        return self.completed + self.failed

    def late(self, slo: Mapping[str, float]) -> int | None:
        """Completed requests beyond any objective; None when the figures cannot say."""
        figures = [self.figures.get(name) for name in slo]
        columns = [figure for figure in figures if isinstance(figure, array)]
        if len(columns) == len(slo):
            rows = zip(*columns, strict=True)
            return sum(any(v > most for v, most in zip(row, slo.values(), strict=True)) for row in rows)
        only = figures[0] if len(figures) == 1 else None
        return only.beyond(next(iter(slo.values()))) if isinstance(only, Buckets) else None


@dataclass(frozen=True)
class Window:
    """One window of one route. Nothing in it is from before `started` or after `ended`."""

    service: str
    started: datetime
    ended: datetime
    generations: tuple[int, int]
    """Of the route table when the window opened and when it closed."""
    bindings: Mapping[str, Binding]
    """By revision digest."""
    lost: str = ""
    """What counted too and was lost, one of `LOST`; empty when everything is here."""
    stack: str = ""
    """The stack whose route this was; empty where the route's table names none."""

    @property
    def seconds(self) -> float:
        return (self.ended - self.started).total_seconds()


@dataclass(frozen=True)
class LoadedWindow:
    """A window file as it was found: read, or with the problem that keeps it from being read."""

    sha256: str
    """`sha256:…` of its bytes."""
    window: Window | None = None
    problem: Problem | None = None
    file: str = ""
    """Its name, for people; empty when it came from no file."""
    attestation: Attestation | None = None
    body: bytes = b""
    """What signatures are made over, and what `window` was read from; empty without any."""


def load_windows(paths: Iterable[Path]) -> tuple[LoadedWindow, ...]:
    """Windows from files, and from `*.window.json` anywhere below folders.

    Raises:
        EvidenceError: when a file or folder cannot be read. Bad content is no error but a problem of its window.
    """
    files = [file for path in paths for file in _files(path)]
    return tuple(replace(read_window(_bytes(file)), file=file.name) for file in files)


def reference_windows(folder: Path) -> dict[str, Path]:
    """Paths of the window files below a folder by `sha256:…`, without reading what they say.

    Raises:
        EvidenceError: when a file or the folder cannot be read.
    """
    return {digest_bytes(_bytes(file)): file for file in _files(folder)}


def read_window(data: bytes) -> LoadedWindow:
    """The window in the bytes of one file."""
    sha256 = digest_bytes(data)
    try:
        document = parse(data, max_bytes=MAX_BYTES)
        window, attestation = _window(document), _attestation(document)
        return LoadedWindow(sha256, window, attestation=attestation, body=_body(document) if attestation else b"")
    except Inadmissible as error:
        return LoadedWindow(sha256, problem=error.problem)


def signable(document: Any) -> tuple[Attestation | None, bytes]:
    """The signatures of a window, and the bytes they are made over: RFC 8785 form of everything else in it.

    Raises:
        Inadmissible: this is no window, or what is beside it are no signatures.
    """
    _window(document)
    return _attestation(document), _body(document)


def _attestation(document: Mapping[str, Any]) -> Attestation | None:
    if "attestation" not in document:
        return None
    try:
        return Attestation.model_validate_json(json.dumps(document["attestation"]))
    except ValidationError as error:
        first = findings(error, Attestation)[0]
        where = ".".join(filter(None, ("attestation", first.field)))
        raise Inadmissible("bad_value", f"{where}: {first.text}") from error


def _body(document: Mapping[str, Any]) -> bytes:
    try:
        return canonical_bytes({name: value for name, value in document.items() if name != "attestation"})
    except CanonicalError as error:
        raise Inadmissible("bad_value", str(error)) from error


# --- files ------------------------------------------------------------------------------------------------------


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = [Path(folder, name) for folder, _, names in os.walk(path, onerror=_unreadable) for name in names]
    return sorted(file for file in found if file.name.endswith(SUFFIX))


def _unreadable(error: OSError) -> None:
    raise EvidenceError(f"{error.filename}: cannot be read: {why(error)}") from error


def _bytes(file: Path) -> bytes:
    """One byte more than is read at most tells a file that is too big."""
    try:
        with file.open("rb") as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise EvidenceError(f"{file}: cannot be read: not a regular file")
            return stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise EvidenceError(f"{file}: cannot be read: {why(error)}") from error


# --- fields -----------------------------------------------------------------------------------------------------


def _window(value: Any) -> Window:
    if not isinstance(value, dict) or value.get("schema") != SCHEMA:
        raise Inadmissible("schema_unknown", f"the schema is not {SCHEMA}")
    version = field(value, "tool_version", str, "")
    if version not in VERSIONS:
        raise Inadmissible("version_unknown", f"{SCHEMA} of version {version}; known is {', '.join(VERSIONS)}")
    _only(value, _WINDOW_KEYS, "window")
    started, ended = (_time(value, name) for name in ("started_at", "ended_at"))
    if ended <= started:
        raise Inadmissible("clock", "the window does not end after it starts")
    generation = field(value, "generation", dict, "")
    _only(generation, {"opened", "closed"}, "generation")
    return Window(
        service=field(value, "service", str, ""),
        started=started,
        ended=ended,
        generations=(count(generation, "opened", "generation"), count(generation, "closed", "generation")),
        bindings=_bindings(field(value, "bindings", list, "")),
        lost=_lost(value),
        stack=_stack(value),
    )


def _lost(value: Mapping[str, Any]) -> str:
    lost = field(value, "lost", str, "") if "lost" in value else ""
    if "lost" in value and lost not in LOST:
        raise bad("lost", f"{lost!r} is none of {' and '.join(LOST)}")
    return lost


def _stack(value: Mapping[str, Any]) -> str:
    stack = field(value, "stack", str, "") if "stack" in value else ""
    if "stack" in value and not 1 <= len(stack) <= MAX_STACK:
        raise bad("stack", f"{len(stack)} characters, 1 to {MAX_STACK} are read")
    return stack


def _bindings(values: list[Any]) -> dict[str, Binding]:
    if not 1 <= len(values) <= MAX_BINDINGS:
        raise bad("bindings", f"{len(values)} of them, 1 to {MAX_BINDINGS} are read")
    bindings = [_binding(value, f"bindings[{index}]") for index, value in enumerate(values)]
    if len({binding.revision for binding in bindings}) < len(bindings):
        raise Inadmissible("inconsistent", "a revision is bound twice")
    if sum(binding.weight for binding in bindings) != 100:
        raise Inadmissible("inconsistent", "the weights do not add up to 100")
    return {binding.revision: binding for binding in bindings}


def _binding(value: Any, where: str) -> Binding:
    if not isinstance(value, dict):
        raise bad(where, "an object was expected")
    _only(value, _BINDING_KEYS, where)
    completed = count(value, "completed", where)
    binding = Binding(
        revision=field(value, "revision", str, where),
        weight=count(value, "weight", where),
        attempted=count(value, "attempted", where),
        completed=completed,
        failed_by_class=_counts(value, "failed_by_class", frozenset(ERROR_CLASSES), where),
        cut_streams=count(value, "cut_streams", where),
        client_faults=_counts(value, "client_faults", _CLIENT_STATUSES, where),
        client_cancelled=count(value, "client_cancelled", where),
        unobserved=count(value, "unobserved", where),
        restarts=count(value, "restarts", where),
        figures={name: _figure(value[name], completed, f"{where}.{name}") for name in FIGURES if name in value},
    )
    _check_sum(binding, where)
    return binding


_CLIENT_STATUSES = frozenset(str(status) for status in range(400, 500))


def _check_sum(binding: Binding, where: str) -> None:
    if binding.attempted > MAX_REQUESTS:
        raise bad(where, f"{binding.attempted} requests in one window, at most {MAX_REQUESTS} are read")
    faults = sum(binding.client_faults.values())
    parts = binding.judged + faults + binding.client_cancelled + binding.unobserved
    if parts != binding.attempted:
        text = f"{where}: {binding.attempted} requests were attempted, but {parts} are accounted for"
        raise Inadmissible("counters_disagree", text)


def _counts(mapping: Mapping[str, Any], name: str, known: frozenset[str], where: str) -> dict[str, int]:
    counts = field(mapping, name, dict, where)
    _only(counts, known, f"{where}.{name}")
    return {key: count(counts, key, f"{where}.{name}") for key in counts}


def _figure(value: Any, completed: int, where: str) -> Values:
    figure = _buckets(value, where) if isinstance(value, dict) else _column(value, where)
    size = sum(figure.counts) if isinstance(figure, Buckets) else len(figure)
    if size > completed or (isinstance(figure, array) and size < completed):
        raise Inadmissible("counters_disagree", f"{where}: {size} values for {completed} completed requests")
    return figure


def _column(value: Any, where: str) -> Column:
    if not isinstance(value, list):
        raise bad(where, "a list, or an object with edges and counts, was expected")
    column = array("d")
    for index, one in enumerate(value):
        column.append(math.nan if one is None else _seconds({"value": one}, f"{where}[{index}]"))
    return column


def _seconds(mapping: Mapping[str, Any], where: str) -> float:
    seconds = number(mapping, "value", where)
    if not 0 < seconds <= LONGEST_S:
        raise bad(where, f"{seconds:g} is no duration in seconds")
    return seconds


def _buckets(value: Mapping[str, Any], where: str) -> Buckets:
    _only(value, {"edges", "counts"}, where)
    edges = tuple(_seconds({"value": edge}, f"{where}.edges") for edge in field(value, "edges", list, where))
    counts = tuple(count({"count": one}, "count", where) for one in field(value, "counts", list, where))
    if not edges or list(edges) != sorted(set(edges)):
        raise bad(where, "edges must be there, and rise")
    if len(counts) != len(edges) + 1:
        raise bad(where, "there must be one count more than edges: for what lies beyond the last")
    return Buckets(edges, counts)


def _only(mapping: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    unknown = sorted(mapping.keys() - set(known))
    if unknown:
        raise Inadmissible("schema_unknown", f"{where}: unknown field {unknown[0]!r}")


def _time(mapping: Mapping[str, Any], name: str) -> datetime:
    try:
        return parse_time(field(mapping, name, str, ""))
    except ValueError as error:
        raise bad("", f"{name}: {error}") from error
