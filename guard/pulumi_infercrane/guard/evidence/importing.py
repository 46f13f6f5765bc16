"""An envelope round the file of a tool: who says what was measured, and what the guard will read from it.

Nothing is copied and nothing guessed: what neither the file nor the person says is asked for. A file is imported only
if the guard itself can read it, and did not change meanwhile.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pulumi_infercrane.guard.errors import CanonicalError, GuardError
from pulumi_infercrane.guard.evidence.envelope import SCHEMA, Envelope, Subject, parse_envelope
from pulumi_infercrane.guard.evidence.folder import SUFFIX
from pulumi_infercrane.guard.evidence.identity import revision_digest, seal
from pulumi_infercrane.guard.evidence.readers import find_reader, known_tools, read_record
from pulumi_infercrane.guard.evidence.reading.stated import Stated, stated_in
from pulumi_infercrane.guard.evidence.recognising import knowing
from pulumi_infercrane.guard.evidence.records import Record
from pulumi_infercrane.guard.evidence.writing import file_entry, write_envelope
from pulumi_infercrane.guard.files import why
from pulumi_infercrane.guard.judging.rule import Member
from pulumi_infercrane.guard.reasons import GATES, Inadmissible
from pulumi_infercrane.guard.rules import known_kinds
from pulumi_infercrane.guard.strict_json import MAX_BYTES
from pulumi_infercrane.guard.times import parse_time

SETTLING_S = 0.2
"""A file that is still being written has usually grown after this."""
TOLERATED_CLOCK_S = 60.0
TOLERATED_SHARE, TOLERATED_ROUNDING_S = 0.01, 2.0
"""By which a run may be longer than its window: people write whole seconds."""

_MEDIA = {".json": "application/json", ".jsonl": "application/jsonl", ".csv": "text/csv", ".yaml": "application/yaml"}
_OWN = ("schema", "kind", "role", "files", "subject", "scenario", "window", "evidence_id", "attestation")
_SUBJECT_NEEDS = tuple(
    name for name, field in Subject.model_fields.items() if field.is_required() and name != "revision_digest"
)
_ANY_TIME = "1970-01-01T00:00:00Z"


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
        raise ImportRefused(f"{path}: cannot be written: {why(error)}") from error
    return Imported(path, seal(envelope), record, tool, guessed=not said.tool)


def _name(primary: Path, said: Said) -> str:
    words = [said.kind, said.role, primary.stem, *(str(value) for value in said.select.values())]
    plain = "-".join("".join(sign if sign.isalnum() or sign in "._-" else "-" for sign in word) for word in words)
    return plain + SUFFIX


# --- the files --------------------------------------------------------------------------------------------------


def _inside(path: Path, out: Path) -> str:
    if path.is_symlink() or not path.is_file():
        there = path.is_symlink() or path.exists()
        raise ImportRefused(f"{path}: {'not a regular file' if there else 'no such file'}")
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
        raise ImportRefused(f"{error.filename}: cannot be read: {why(error)}") from error


# --- what they say ----------------------------------------------------------------------------------------------


def _read(content: _Content, said: Said) -> tuple[str, Mapping[str, Any], Record]:
    """Tool, envelope and record. What was said is checked first: what is wrong there, no reader could tell."""
    _check_said(content, said)
    if said.tool:
        return _taken(content, said, said.tool)
    tool = _recognised(content, said)
    try:
        return _taken(content, said, tool)
    except Inadmissible as error:
        text = f"read as a file of {tool} the guard would refuse it: {error.problem}; or name another --tool"
        raise ImportRefused(f"{content.paths['primary']}: {text}") from error


def _recognised(content: _Content, said: Said) -> str:
    """The only tool that knows the file; of several, the only one that takes it."""
    tools = _tools(content, said)
    if not tools:
        known = ", ".join(known_tools())
        text = f"no reader knows such a file: name its --tool to see why, one of {known}"
        raise ImportRefused(f"{content.paths['primary']}: {text}")
    taking = [tool for tool in tools if _takes(content, said, tool)] if len(tools) > 1 else tools
    if len(taking) == 1:
        return taking[0]
    what = "take the file" if taking else "know such a file, and do not take it as it is described"
    readers = " and ".join(taking or tools)
    raise ImportRefused(f"{content.paths['primary']}: readers of {readers} {what}: say which it is with --tool")


def _check_said(content: _Content, said: Said) -> None:
    """Everything that holds whatever the tool: kind, subject, scenario, window, group and further fields."""
    if said.kind not in known_kinds():
        raise ImportRefused(f"--kind {said.kind}: known are {', '.join(known_kinds())}")
    if said.run.get("ordinal", 1) > said.run.get("of", 1):
        raise ImportRefused(f"run group: there is no run {said.run['ordinal']} of {said.run['of']}")
    lacking = [name for name in _SUBJECT_NEEDS if name not in said.subject]
    if lacking:
        raise ImportRefused(f"the subject lacks {', '.join(lacking)}: docs/readers.md shows a whole one")
    _supposed(content, said, "", said.kind)


def _tools(content: _Content, said: Said) -> list[str]:
    """Tools that know the file as the kind it is said to be; else, so that one can say it gives another, as any."""

    def described(tool: str, kind: str) -> Envelope:
        return _supposed(content, said, tool, kind)

    by_said = knowing(known_tools(), [said.kind], content.parts, described)
    return by_said or knowing(known_tools(), known_kinds(), content.parts, described)


def _supposed(content: _Content, said: Said, tool: str, kind: str) -> Envelope:
    """An envelope in which stands something wherever nobody said anything."""
    supposed = replace(
        said,
        kind=kind,
        tool_version=said.tool_version or "0",
        started_at=said.started_at or said.ended_at or _ANY_TIME,
        ended_at=said.ended_at or said.started_at or _ANY_TIME,
    )
    return parse_envelope(seal(_written(content, supposed, Stated(), tool or "any")))[0]


def _takes(content: _Content, said: Said, tool: str) -> bool:
    try:
        _taken(content, said, tool)
    except (ImportRefused, Inadmissible):
        return False
    return True


def _taken(content: _Content, said: Said, tool: str) -> tuple[str, Mapping[str, Any], Record]:
    envelope = _envelope(content, said, tool)
    typed, _ = parse_envelope(seal(envelope))
    record = read_record(content.parts, typed)
    _check_length(said, Member(typed, record))
    return tool, envelope, record


def _check_length(said: Said, member: Member) -> None:
    """A window that was said and cannot hold the run would make it count as a shorter one."""
    duration: float | None = getattr(member.record, "duration_s", None)
    if said.started_at and duration and duration > member.window_s * (1 + TOLERATED_SHARE) + TOLERATED_ROUNDING_S:
        text = f"the window lasts {member.window_s:g} s, the file is about {duration:.4g} s: give the whole --window"
        raise ImportRefused(text)


def _envelope(content: _Content, said: Said, tool: str) -> Mapping[str, Any]:
    if tool.replace("_", "-") not in known_tools():
        raise ImportRefused(f"no reader for {tool!r}, only for {', '.join(known_tools())}")
    stated = stated_in(find_reader(tool), content.parts)
    for name in ("started_at", "ended_at"):
        _check_time(name, getattr(said, name), getattr(stated, name))
    lacking = [
        *([] if said.tool_version or stated.tool_version else ["--tool-version"]),
        *([] if all(_window(said, stated).values()) else ["--window START/END, in UTC with Z"]),
    ]
    if lacking:
        _refuse_unreadable(content, said, tool)
        text = f"a file of {tool} does not say which version of the tool wrote it, or when it was measured"
        raise ImportRefused(f"{text}: give {' and '.join(lacking)}")
    return _written(content, said, stated, tool)


def _refuse_unreadable(content: _Content, said: Said, tool: str) -> None:
    """A file that is not one run is told as such before anything is asked for: no answer could make it one."""
    try:
        find_reader(tool).read(content.parts, _supposed(content, said, tool, said.kind))
    except Inadmissible as error:
        if error.problem.code in GATES["parse"]:
            raise


def _written(content: _Content, said: Said, stated: Stated, tool: str) -> Mapping[str, Any]:
    """The envelope as it is written."""
    version = said.tool_version or stated.tool_version
    planned = said.planned if said.planned is not None else stated.planned
    window = _window(said, stated)
    _check_order(window)
    envelope: dict[str, Any] = {
        **_further(said.more),
        "schema": SCHEMA,
        "kind": said.kind,
        "role": said.role,
        "files": [_file(content, part, tool, version, said) for part in content.parts],
        "subject": _subject(said.subject),
        "scenario": dict(said.scenario),
        "window": window,
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
    return {name: getattr(said, name) or getattr(stated, name) for name in ("started_at", "ended_at")}


def _check_order(window: Mapping[str, str]) -> None:
    try:
        ordered = parse_time(window["started_at"]) <= parse_time(window["ended_at"])
    except ValueError as error:
        raise ImportRefused(f"--window: {error}") from error
    if not ordered:
        raise ImportRefused(f"--window: it ends at {window['ended_at']}, before it starts at {window['started_at']}")


def _check_time(name: str, said: str, stated: str) -> None:
    if not said or not stated:
        return
    try:
        apart = abs((parse_time(said) - parse_time(stated)).total_seconds())
    except ValueError as error:
        raise ImportRefused(f"{name}: {error}") from error
    if apart > TOLERATED_CLOCK_S:
        raise ImportRefused(f"{name}: {said} was said, the file says {stated}")
