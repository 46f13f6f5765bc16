"""An envelope round the file of a tool: who says what was measured, and what the guard will read from it.

Nothing is copied and nothing guessed: what neither the file nor the person says is asked for. A file is imported only
if the guard itself can read it, and did not change meanwhile.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pulumi_infercrane.guard.errors import CanonicalError, GuardError
from pulumi_infercrane.guard.evidence.envelope import SCHEMA, parse_envelope
from pulumi_infercrane.guard.evidence.folder import SUFFIX
from pulumi_infercrane.guard.evidence.identity import revision_digest, seal
from pulumi_infercrane.guard.evidence.readers import find_reader, known_tools, reader_for
from pulumi_infercrane.guard.evidence.reading.stated import Stated, stated_in
from pulumi_infercrane.guard.evidence.records import Record
from pulumi_infercrane.guard.evidence.writing import file_entry, write_envelope
from pulumi_infercrane.guard.reasons import Inadmissible, Problem, gate_rank
from pulumi_infercrane.guard.strict_json import MAX_BYTES
from pulumi_infercrane.guard.times import parse_time

SETTLING_S = 0.2
"""A file that is still being written has usually grown after this."""
TOLERATED_CLOCK_S = 60.0

_MEDIA = {".json": "application/json", ".jsonl": "application/jsonl", ".csv": "text/csv", ".yaml": "application/yaml"}
_OWN = ("schema", "kind", "role", "files", "subject", "scenario", "window", "evidence_id", "attestation")


class ImportRefused(GuardError):
    """No envelope was written: something is missing, contradicts the file, or the guard could not read the file."""

    code = "not_imported"


@dataclass(frozen=True)
class Said:
    """What a person says about a measurement. Empty where the file is to speak for itself."""

    kind: str
    role: str
    subject: Mapping[str, Any]
    """The revision, as in an envelope; its digest is computed when it is not there."""
    scenario: Mapping[str, Any]
    tool: str = ""
    tool_version: str = ""
    started_at: str = ""
    ended_at: str = ""
    planned: int | None = None
    exit_code: int | None = None
    run: Mapping[str, Any] = field(default_factory=dict)
    select: Mapping[str, int | str] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the envelope, such as `slo` or `probes`."""


@dataclass(frozen=True)
class Imported:
    """What was written, and what the guard reads from it."""

    path: Path
    envelope: Mapping[str, Any]
    record: Record
    tool: str
    guessed: bool
    """The tool was found as the only one whose reader takes the file."""


@dataclass(frozen=True)
class _Content:
    """The files by part: where they lie from the envelope's folder, and their bytes."""

    paths: Mapping[str, str]
    parts: Mapping[str, bytes]


def import_file(files: Mapping[str, Path], out: Path, said: Said) -> Imported:
    """Write an envelope into `out` for files that lie there or below, by their part.

    Raises:
        ImportRefused: says what is missing or wrong, and what to do.
    """
    try:
        return _import(files, out, said)
    except Inadmissible as error:
        raise ImportRefused(f"{files['primary']}: the guard would refuse it: {error.problem}") from error
    except CanonicalError as error:
        raise ImportRefused(str(error)) from error


def _import(files: Mapping[str, Path], out: Path, said: Said) -> Imported:
    content = _Content({part: _inside(path, out) for part, path in files.items()}, _settled(files))
    tool, envelope, record = _read(content, said)
    path = out / _name(files["primary"], said)
    if path.exists():
        raise ImportRefused(
            f"{path} exists already; an envelope is never overwritten: remove it, or choose another --out"
        )
    if _bytes_of(files) != content.parts:
        raise ImportRefused(f"{files['primary']}: changed while it was read: wait until the tool has ended")
    try:
        write_envelope(path, envelope)
    except OSError as error:
        raise ImportRefused(f"{path}: cannot be written: {error.strerror}") from error
    return Imported(path, seal(envelope), record, tool, guessed=not said.tool)


def _name(primary: Path, said: Said) -> str:
    words = [said.kind, said.role, primary.stem, *(str(value) for value in said.select.values())]
    plain = "-".join("".join(sign if sign.isalnum() or sign in "._-" else "-" for sign in word) for word in words)
    return plain + SUFFIX


# --- the files --------------------------------------------------------------------------------------------------


def _inside(path: Path, out: Path) -> str:
    if path.is_symlink() or not path.is_file():
        raise ImportRefused(f"{path}: not a regular file")
    try:
        return path.resolve().relative_to(out.resolve()).as_posix()
    except ValueError as error:
        raise ImportRefused(
            f"{path}: lies outside {out}: an envelope vouches for files beside it, move it there"
        ) from error


def _settled(files: Mapping[str, Path]) -> Mapping[str, bytes]:
    before = _stamps(files)
    parts = _bytes_of(files)
    time.sleep(SETTLING_S)
    if _stamps(files) != before:
        raise ImportRefused(f"{files['primary']}: still changing: wait until the tool has ended")
    return parts


def _stamps(files: Mapping[str, Path]) -> list[tuple[int, int]]:
    return [(status.st_size, status.st_mtime_ns) for status in (path.stat() for path in files.values())]


def _bytes_of(files: Mapping[str, Path]) -> Mapping[str, bytes]:
    try:
        for path in files.values():
            if path.stat().st_size > MAX_BYTES:
                raise ImportRefused(f"{path}: {path.stat().st_size} bytes, at most {MAX_BYTES} are read")
        return {part: path.read_bytes() for part, path in files.items()}
    except OSError as error:
        raise ImportRefused(f"{error.filename}: cannot be read: {error.strerror}") from error


# --- what they say ----------------------------------------------------------------------------------------------


def _read(content: _Content, said: Said) -> tuple[str, Mapping[str, Any], Record]:
    """Tool, envelope and record."""
    if said.tool:
        envelope = _envelope(content, said, said.tool)
        return said.tool, envelope, _record(content, envelope)
    tried = {tool: _try(content, said, tool) for tool in known_tools()}
    accepted = {tool: found for tool, found in tried.items() if isinstance(found, tuple)}
    if len(accepted) == 1:
        tool, (envelope, record) = accepted.popitem()
        return tool, envelope, record
    if accepted:
        raise ImportRefused(f"readers of {' and '.join(sorted(accepted))} take the file: say which with --tool")
    known_by = {tool: problem for tool, problem in tried.items() if isinstance(problem, Problem)}
    if len(known_by) == 1:
        tool, problem = known_by.popitem()
        raise ImportRefused(f"read as a file of {tool} the guard would refuse it: {problem}; or name another --tool")
    known = ", ".join(known_tools())
    raise ImportRefused(f"no reader takes the file as it is described: name its --tool to see why, one of {known}")


def _try(content: _Content, said: Said, tool: str) -> tuple[Mapping[str, Any], Record] | Problem | None:
    """Envelope and record; why a reader that knows such files refuses this one; None from any other reader."""
    try:
        envelope = _envelope(content, said, tool)
        return envelope, _record(content, envelope)
    except ImportRefused:
        return None
    except Inadmissible as error:
        foreign = error.problem.code != "ambiguous_run" and gate_rank(error.problem.code) <= gate_rank("schema_unknown")
        return None if foreign else error.problem


def _record(content: _Content, envelope: Mapping[str, Any]) -> Record:
    typed, _ = parse_envelope(seal(envelope))
    primary = typed.primary
    return reader_for(primary.tool, primary.tool_version).read(content.parts, typed)


def _envelope(content: _Content, said: Said, tool: str) -> Mapping[str, Any]:
    if tool.replace("_", "-") not in known_tools():
        raise ImportRefused(f"no reader for {tool!r}, only for {', '.join(known_tools())}")
    stated = stated_in(find_reader(tool), content.parts)
    version = said.tool_version or stated.tool_version
    if not version:
        raise ImportRefused("the file does not say which version of the tool wrote it: give --tool-version")
    files = [_file(content, part, tool, version, said) for part in content.parts]
    planned = said.planned if said.planned is not None else stated.planned
    envelope: dict[str, Any] = {
        **_further(said.more),
        "schema": SCHEMA,
        "kind": said.kind,
        "role": said.role,
        "files": files,
        "subject": _subject(said.subject),
        "scenario": dict(said.scenario),
        "window": _window(said, stated),
        "binding": "declared_by_importer",
    }
    optional = {
        "source": stated.source,
        "planned": {"requests": planned} if planned is not None else None,
        "run": dict(said.run),
    }
    return envelope | {name: value for name, value in optional.items() if value}


def _further(more: Mapping[str, Any]) -> Mapping[str, Any]:
    taken = sorted(set(more) & set(_OWN))
    if taken:
        raise ImportRefused(f"{taken[0]} has an option of its own and cannot be given among further fields")
    return more


def _file(content: _Content, part: str, tool: str, version: str, said: Said) -> Mapping[str, Any]:
    path = content.paths[part]
    media = _MEDIA.get(Path(path).suffix, "application/octet-stream")
    entry = file_entry(path, content.parts[part], part=part, media=media, tool=tool, tool_version=version)
    if part != "primary":
        return entry
    optional = {"select": dict(said.select) or None, "exit_code": said.exit_code}
    return entry | {name: value for name, value in optional.items() if value is not None}


def _subject(subject: Mapping[str, Any]) -> Mapping[str, Any]:
    computed = revision_digest(subject)
    if subject.get("revision_digest", computed) != computed:
        raise ImportRefused(f"the subject's revision_digest is not that of the subject, which is {computed}")
    return {**subject, "revision_digest": computed}


def _window(said: Said, stated: Stated) -> Mapping[str, str]:
    for name in ("started_at", "ended_at"):
        _check_time(name, getattr(said, name), getattr(stated, name))
    window = {name: getattr(said, name) or getattr(stated, name) for name in ("started_at", "ended_at")}
    if not all(window.values()):
        raise ImportRefused("the file does not say when it was measured: give --window START/END, in UTC with Z")
    return window


def _check_time(name: str, said: str, stated: str) -> None:
    if not said or not stated:
        return
    try:
        apart = abs((parse_time(said) - parse_time(stated)).total_seconds())
    except ValueError as error:
        raise ImportRefused(f"{name}: {error}") from error
    if apart > TOLERATED_CLOCK_S:
        raise ImportRefused(f"{name}: {said} was said, the file says {stated}")
