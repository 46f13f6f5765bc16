"""One measurement counts once, and for one revision: whether its file is offered twice, or was written again."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pulumi_infercrane.guard.admission.pieces import Piece
from pulumi_infercrane.guard.evidence.envelope import EvidenceFile
from pulumi_infercrane.guard.reasons import Problem

# --- for one revision -------------------------------------------------------------------------------------------


def without_shared(pieces: Sequence[Piece]) -> list[Piece]:
    """One file, one of the runs in it, or what was measured, offered for two revisions is evidence for neither."""
    offered: dict[str, list[tuple[str, EvidenceFile]]] = {}
    measured: dict[str, set[str]] = {}
    for piece in pieces:
        for file in _measured_files(piece):
            offered.setdefault(file.sha256, []).append((_revision(piece), file))
        for content in piece.item.content:
            measured.setdefault(content, set()).add(_revision(piece))
    return [_own(piece, offered, measured) if piece.used else piece for piece in pieces]


def _own(
    piece: Piece, offered: Mapping[str, Sequence[tuple[str, EvidenceFile]]], measured: Mapping[str, set[str]]
) -> Piece:
    if _is_shared(piece, offered):
        return replace(piece, problem=Problem("binding_conflict", "the same file is offered for two revisions"))
    if any(len(measured[content]) > 1 for content in piece.item.content):
        detail = "the same measurement is offered for two revisions, in two files"
        return replace(piece, problem=Problem("binding_conflict", detail))
    return piece


def _measured_files(piece: Piece) -> Iterator[EvidenceFile]:
    """Files that no two measurements have in common. Answers (`samples`) may be the same, and so may `validation`."""
    return (file for file in (piece.envelope.files if piece.envelope else ()) if file.part in ("primary", "details"))


def _revision(piece: Piece) -> str:
    return piece.envelope.subject.revision_digest if piece.envelope else ""


def _is_shared(piece: Piece, offered: Mapping[str, Sequence[tuple[str, EvidenceFile]]]) -> bool:
    return any(
        revision != _revision(piece) and _same_run(other, file)
        for file in _measured_files(piece)
        for revision, other in offered[file.sha256]
    )


def _same_run(one: EvidenceFile, other: EvidenceFile) -> bool:
    """Two selections from one file are different runs only if they say different things about the same key."""
    first, second = one.select or {}, other.select or {}
    return all(str(first[key]) == str(second[key]) for key in first.keys() & second.keys())


# --- once -------------------------------------------------------------------------------------------------------


def once(pieces: Sequence[Piece]) -> list[Piece]:
    """The same envelope, the same run under two envelopes, or a copy of its file counts once."""
    files: dict[str, list[EvidenceFile]] = {}
    measured: set[str] = set()
    result: list[Piece] = []
    for piece in pieces:
        envelope = piece.envelope if piece.used else None
        if envelope is None:
            result.append(piece)
            continue
        known = files.setdefault(envelope.primary.sha256, [])
        result.append(_counted(piece, envelope.primary, known, measured))
        known.append(envelope.primary)
        measured |= piece.item.content
    return result


def _counted(piece: Piece, file: EvidenceFile, known: Sequence[EvidenceFile], measured: set[str]) -> Piece:
    if any(_same_run(other, file) for other in known):
        return replace(piece, problem=Problem("duplicate", "counted once"))
    if not measured.isdisjoint(piece.item.content):
        return replace(piece, problem=Problem("duplicate", "the same measurement in another file; counted once"))
    return piece
