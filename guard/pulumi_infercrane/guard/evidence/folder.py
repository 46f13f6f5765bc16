"""Reading an evidence folder. Bad content never raises: it stays beside the good as a piece with its problem.

Every file is read once, and the bytes that were hashed are the bytes that are judged.
"""

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

from pulumi_infercrane.guard.canonical import digest, digest_bytes
from pulumi_infercrane.guard.errors import EvidenceError
from pulumi_infercrane.guard.evidence.content import content_of
from pulumi_infercrane.guard.evidence.envelope import Envelope, EvidenceFile, parse_envelope
from pulumi_infercrane.guard.evidence.identity import revision_digest
from pulumi_infercrane.guard.evidence.readers import read_record
from pulumi_infercrane.guard.evidence.request_times import RequestTimes, request_times
from pulumi_infercrane.guard.files import why
from pulumi_infercrane.guard.reasons import Inadmissible, Problem
from pulumi_infercrane.guard.strict_json import MAX_BYTES, parse

SUFFIX = ".evidence.json"
MAX_ENVELOPE_BYTES = 1024 * 1024


@dataclass(frozen=True)
class EvidenceReference:
    """An envelope by place and content: a posix path relative to the evidence root, and `sha256:…` of its bytes."""

    path: str
    sha256: str


@dataclass(frozen=True)
class LoadedEvidence:
    """One envelope as it was found. Without `envelope` it could not even be read; with a problem it never counts."""

    path: str
    sha256: str
    file_digests: tuple[str, ...] = ()
    envelope: Envelope | None = None
    record: Any = None
    """A canonical record of `records.py`; None when a problem was found."""
    problem: Problem | None = None
    body: bytes = b""
    """What `evidence_id` is the digest of, what was signed, and what `envelope` was typed from."""

    @property
    def evidence_id(self) -> str:
        return self.envelope.evidence_id if self.envelope else ""

    @cached_property
    def content(self) -> frozenset[str]:
        """What was measured, see `content.py`; empty without a record."""
        return content_of(self.record, self.times) if self.record is not None else frozenset()

    @cached_property
    def times(self) -> RequestTimes:
        """Of the single requests, see `request_times.py`; empty without a record."""
        return request_times(self.record)


@dataclass(frozen=True)
class EvidenceSet:
    """Everything found in one evidence folder, or a part of it."""

    items: tuple[LoadedEvidence, ...]

    @property
    def digest(self) -> str:
        """`sha256:…` over the bytes seen, whatever their order and names."""
        return digest(sorted([item.sha256, *sorted(item.file_digests)] for item in self.items))

    def about(self, revision: str) -> "EvidenceSet":
        """The pieces whose envelope speaks of one revision digest."""
        return EvidenceSet(tuple(item for item in self.items if _speaks_of(item) == revision))

    @property
    def problem_lines(self) -> tuple[str, ...]:
        """`path: code: detail` of every piece that cannot count."""
        return tuple(f"{item.path}: {item.problem}" for item in self.items if item.problem)


def reference_folder(root: Path) -> tuple[EvidenceReference, ...]:
    """References to every envelope below a folder, sorted by path.

    Raises:
        EvidenceError: when the folder cannot be read, or holds a symbolic link.
    """
    return tuple(EvidenceReference(path, digest_bytes(_read_envelope(root, path))) for path in _envelope_paths(root))


def load_evidence(root: Path, references: Sequence[EvidenceReference] | None = None) -> EvidenceSet:
    """Read the envelopes named by `references`, or all below `root`, with the files they vouch for.

    Bad content becomes the `problem` of its piece. A reference whose file has another sha256 now is `tampered`.

    Raises:
        EvidenceError: when the folder cannot be read.
    """
    if references is None:
        references = [EvidenceReference(path, "") for path in _envelope_paths(root)]
    elif not root.is_dir() and references:
        raise EvidenceError(f"{root}: no such evidence folder")
    return EvidenceSet(tuple(_load(root, reference) for reference in sorted(references, key=lambda r: r.path)))


def newest_end(evidence: EvidenceSet) -> str | None:
    """The newest `window.ended_at` among the pieces without a problem of their own; None without one."""
    windows = [item.envelope.window for item in evidence.items if item.envelope and not item.problem]
    return max(windows, key=lambda window: window.ended).ended_at if windows else None


def _speaks_of(item: LoadedEvidence) -> str:
    return item.envelope.subject.revision_digest if item.envelope else ""


def _envelope_paths(root: Path) -> list[str]:
    try:
        return sorted(_walk(root, root))
    except OSError as error:
        raise EvidenceError(f"{root}: the evidence folder cannot be read: {why(error)}") from error


def _walk(root: Path, folder: Path) -> Iterator[str]:
    with os.scandir(folder) as scanned:
        entries = list(scanned)
    for entry in entries:
        if entry.is_symlink():
            raise EvidenceError(f"{entry.path}: an evidence folder may not hold symbolic links")
        if not entry.name.isprintable():
            raise EvidenceError(f"{folder}: a file name is not printable text ({entry.name!a}): rename it")
        if entry.is_dir():
            yield from _walk(root, Path(entry.path))
        elif entry.name.endswith(SUFFIX):
            yield Path(entry.path).relative_to(root).as_posix()


def _read_envelope(root: Path, path: str) -> bytes:
    try:
        return _read_confined(root, path, MAX_ENVELOPE_BYTES)
    except Inadmissible as error:
        raise EvidenceError(f"{root / path}: {error.problem.detail}") from error


def _load(root: Path, reference: EvidenceReference) -> LoadedEvidence:
    seen: list[str] = []
    envelope: Envelope | None = None
    data = body = b""
    try:
        data = _read_confined(root, reference.path, MAX_ENVELOPE_BYTES)
        document = parse(data, max_bytes=MAX_ENVELOPE_BYTES)
        envelope, body = parse_envelope(document)
        _check_reference(data, reference.sha256)
        _check_seal(envelope, body, document["subject"])
        files = [_checked_file(root, reference.path, file, seen) for file in envelope.files]
        record = _record(envelope, files)
    except Inadmissible as error:
        return LoadedEvidence(reference.path, digest_bytes(data), tuple(seen), envelope, None, error.problem, body)
    return LoadedEvidence(reference.path, digest_bytes(data), tuple(seen), envelope, record, None, body)


def _check_reference(data: bytes, expected: str) -> None:
    if expected and digest_bytes(data) != expected:
        raise Inadmissible("tampered", "the envelope is not the one that was referenced")


def _check_seal(envelope: Envelope, body: bytes, subject: Mapping[str, Any]) -> None:
    if digest_bytes(body) != envelope.evidence_id:
        raise Inadmissible("tampered", "the envelope was edited: its content does not give its evidence_id")
    if revision_digest(subject) != envelope.subject.revision_digest:
        raise Inadmissible("binding_conflict", "subject.revision_digest is not the digest of the subject")


def _checked_file(root: Path, envelope_path: str, file: EvidenceFile, seen: list[str]) -> bytes:
    path = _beside(envelope_path, file.path)
    data = _read_confined(root, path, MAX_BYTES)
    actual = hashlib.sha256(data).hexdigest()
    seen.append("sha256:" + actual)
    if actual != file.sha256 or len(data) != file.size:
        text = f"{file.path} was changed after it was measured (sha256 {actual[:12]}…, declared {file.sha256[:12]}…)"
        raise Inadmissible("tampered", text)
    return data


def _record(envelope: Envelope, files: Sequence[bytes]) -> Any:
    return read_record({file.part: data for file, data in zip(envelope.files, files, strict=True)}, envelope)


def _beside(envelope_path: str, path: str) -> str:
    if path.startswith("/") or "\\" in path or "\0" in path:
        raise Inadmissible("bad_value", f"{path!r} is not a relative path with forward slashes")
    parts: list[str] = [*PurePosixPath(envelope_path).parent.parts]
    for part in PurePosixPath(path).parts:
        if part == "..":
            if not parts:
                raise Inadmissible("bad_value", f"{path!r} leaves the evidence folder")
            parts.pop()
        else:
            parts.append(part)
    return "/".join(parts)


def _read_confined(root: Path, path: str, max_bytes: int) -> bytes:
    """A regular file below `root`, reached without following a link.

    Raises:
        Inadmissible: `bad_value` for a link or an escape, `tampered` when the file is gone, `oversize`.
    """
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or "\0" in path:
        raise Inadmissible("bad_value", f"{path!r} leaves the evidence folder")
    name = parts[-1]
    try:
        return _read_below(root, parts, max_bytes)
    except FileNotFoundError as error:
        raise Inadmissible("tampered", f"{name} is gone") from error
    except OSError as error:
        raise Inadmissible("bad_value", f"{name} cannot be read without following a link: {why(error)}") from error


def _read_below(root: Path, parts: Sequence[str], max_bytes: int) -> bytes:
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for part in parts[:-1]:
        folder = _step(folder, part, os.O_DIRECTORY)
    file = _step(folder, parts[-1], os.O_NONBLOCK)
    try:
        _check_status(os.fstat(file), parts[-1], max_bytes)
        with os.fdopen(file, "rb", closefd=False) as stream:
            return stream.read(max_bytes + 1)
    finally:
        os.close(file)


def _check_status(status: os.stat_result, name: str, max_bytes: int) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise Inadmissible("bad_value", f"{name} is not a regular file")
    if status.st_size > max_bytes:
        raise Inadmissible("oversize", f"{name}: {status.st_size} bytes, at most {max_bytes} are read")


def _step(folder: int, name: str, flags: int) -> int:
    """Open `name` in an open folder, never through a link, and close the folder."""
    try:
        return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | flags, dir_fd=folder)
    finally:
        os.close(folder)
