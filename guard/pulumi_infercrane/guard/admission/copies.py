"""One measurement counts once, and for one revision."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pulumi_infercrane.guard.admission.pieces import Piece
from pulumi_infercrane.guard.evidence.envelope import EvidenceFile
from pulumi_infercrane.guard.reasons import Problem


def without_shared_files(pieces: Sequence[Piece]) -> list[Piece]:
    """One file, or one of the runs in it, offered for two revisions is evidence for neither."""
    offered: dict[str, list[tuple[str, EvidenceFile]]] = {}
    for piece in pieces:
        for file in _measured_files(piece):
            offered.setdefault(file.sha256, []).append((_revision(piece), file))
    problem = Problem("binding_conflict", "the same file is offered for two revisions")
    return [replace(piece, problem=problem) if piece.used and _is_shared(piece, offered) else piece for piece in pieces]


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


def once(pieces: Sequence[Piece]) -> list[Piece]:
    """The same envelope, or the same run under two envelopes, counts once."""
    seen: dict[str, list[EvidenceFile]] = {}
    result: list[Piece] = []
    for piece in pieces:
        file = piece.envelope.primary if piece.used and piece.envelope else None
        before = seen.setdefault(file.sha256, []) if file else []
        repeated = file is not None and any(_same_run(other, file) for other in before)
        result.append(replace(piece, problem=Problem("duplicate", "counted once")) if repeated else piece)
        if file:
            before.append(file)
    return result
