"""One measurement counts once, and for one revision: whether its file is offered twice, or was written again.

Written again with requests left out or added, it is still the same measurement: two runs that share requests are not
independent, and together they would look like more data than there is.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from pulumi_infercrane.guard.admission.neighbours import Neighbours
from pulumi_infercrane.guard.admission.pieces import Piece, failures
from pulumi_infercrane.guard.evidence.envelope import Envelope, EvidenceFile
from pulumi_infercrane.guard.evidence.request_times import SHARE, shared
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
    own = [_own(piece, offered, measured) if piece.used else piece for piece in pieces]
    return _without_overlap(own)


def _without_overlap(pieces: Sequence[Piece]) -> list[Piece]:
    """The same for a run that has some of its requests in common with a run of another revision."""
    near = Neighbours([piece.item.times for piece in pieces])
    return [
        _beside_others(pieces, number, near.of(number)) if piece.used else piece for number, piece in enumerate(pieces)
    ]


def _beside_others(pieces: Sequence[Piece], number: int, near: Iterable[int]) -> Piece:
    """A piece that is used; of several runs that have requests of it the last is told."""
    piece = pieces[number]
    for other in sorted(near, reverse=True):
        if _revision(pieces[other]) != _revision(piece):
            one, two = (pieces[index].item.times for index in sorted((number, other)))
            common = shared(one, two)
            if common:
                detail = f"{common} requests of this run are also offered for another revision, in another file"
                return replace(piece, problem=Problem("binding_conflict", detail))
    return piece


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
    """The same envelope, the same run under two envelopes, or a copy of its file counts once: the first of them.

    A soak may be a load run too: for each kind its file counts once.
    """
    near = Neighbours([piece.item.times for piece in pieces])
    named: dict[str, list[int]] = {}
    """Numbers of the pieces so far by what a copy has in common with its original."""
    result: list[Piece] = []
    for number, piece in enumerate(pieces):
        counted = piece
        if piece.used and piece.envelope:
            names = (piece.envelope.primary.sha256, *piece.item.content)
            alike = {*near.of(number), *chain.from_iterable(named.get(name, ()) for name in names)}
            before = [result[other] for other in sorted(alike) if other < number and pieces[other].used]
            counted = _counted(piece, piece.envelope, before)
            for name in names:
                named.setdefault(name, []).append(number)
        result.append(counted)
    return result


def _counted(piece: Piece, envelope: Envelope, before: Iterable[Piece]) -> Piece:
    for other in before:
        other_envelope = other.envelope
        if other_envelope is None or other_envelope.kind != envelope.kind:
            continue
        detail = _copied(envelope, other_envelope) or _written_again(piece, other)
        overlaps = not detail and other.used and _may_overlap(envelope, other_envelope)
        common = shared(piece.item.times, other.item.times) if overlaps else 0
        if detail or common:
            return replace(piece, problem=_aside(piece, other, detail, common))
    return piece


def _aside(piece: Piece, other: Piece, detail: str, common: int) -> Problem:
    """What is not in the run that counts may be what is bad: it is not left out by itself."""
    requests = len(piece.item.times.distinct)
    if failures(piece) > failures(other) or (common and requests - common > SHARE * requests):
        what = f"{common} of its requests are in a run that counts" if common else "it is a run that counts"
        return Problem("conflict", f"{what}, others or failures are not: let it supersede that one, or take it away")
    return Problem("duplicate", detail or f"{common} of its requests are in a run that counts; counted once")


def _copied(one: Envelope, other: Envelope) -> str:
    same = one.primary.sha256 == other.primary.sha256 and _same_run(one.primary, other.primary)
    return "counted once" if same else ""


def _written_again(one: Piece, other: Piece) -> str:
    same = not one.item.content.isdisjoint(other.item.content)
    return "the same measurement in another file; counted once" if same else ""


def _may_overlap(one: Envelope, other: Envelope) -> bool:
    """Of two runs one of which supersedes the other, only one counts anyway."""
    return not (_names(one, other) or _names(other, one))


def _names(one: Envelope, other: Envelope) -> bool:
    return any(named.evidence_id == other.evidence_id for named in one.supersedes)
