"""Pieces that count only beside others, or not beside others: groups of repeats, comparisons, successors."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pulumi_infercrane.guard.admission.pieces import Piece
from pulumi_infercrane.guard.evidence.envelope import Envelope, Run
from pulumi_infercrane.guard.reasons import Problem

_Group = tuple[str, str, str, int]
"""Kind, role, name and size."""


def without_incomplete_groups(pieces: Sequence[Piece]) -> list[Piece]:
    """A group of repeats counts whole or not at all: the best three of five prove nothing."""
    present: dict[_Group, set[int]] = {}
    for piece in pieces:
        if piece.used and piece.envelope and piece.envelope.run:
            present.setdefault(_group(piece.envelope, piece.envelope.run), set()).add(piece.envelope.run.ordinal)
    return [_complete_or_not(piece, present) for piece in pieces]


def _group(envelope: Envelope, run: Run) -> _Group:
    """Of another size it is another group: a run that says so makes no complete group incomplete."""
    return envelope.kind, envelope.role, run.group, run.of


def _complete_or_not(piece: Piece, present: Mapping[_Group, set[int]]) -> Piece:
    if not piece.used or piece.envelope is None or piece.envelope.run is None:
        return piece
    of, ordinals = piece.envelope.run.of, present[_group(piece.envelope, piece.envelope.run)]
    found = sum(ordinal <= of for ordinal in ordinals)
    if found == of:
        return piece
    text = f"{found} of {of} runs of its group are present and admissible"
    return replace(piece, problem=Problem("truncated", text, f"all {of} runs of the group"))


def without_other_comparisons(pieces: Sequence[Piece]) -> list[Piece]:
    """A baseline measured in turn with one candidate is not the baseline of another: the machine was another one then.

    Both sides of a comparison carry one run group. Evidence without a group is left alone.
    """
    candidates = {
        (piece.envelope.kind, piece.envelope.run.group)
        for piece in pieces
        if piece.used and piece.envelope and piece.envelope.run and piece.envelope.role == "candidate"
    }
    kinds = {kind for kind, _ in candidates}
    return [_beside_candidate_or_not(piece, candidates) if _kind(piece) in kinds else piece for piece in pieces]


def _kind(piece: Piece) -> str:
    return piece.envelope.kind if piece.envelope else ""


def _beside_candidate_or_not(piece: Piece, candidates: set[tuple[str, str]]) -> Piece:
    envelope = piece.envelope
    if not piece.used or envelope is None or envelope.role != "baseline" or envelope.run is None:
        return piece
    if (envelope.kind, envelope.run.group) in candidates:
        return piece
    return replace(piece, problem=Problem("not_comparable", "measured in turn with another candidate"))


def without_superseded(pieces: Sequence[Piece]) -> list[Piece]:
    """A piece steps back for a newer one of the same side that names it, with a reason."""
    reasons: dict[tuple[str, str, str], str] = {
        (supersedes.evidence_id, piece.envelope.kind, piece.envelope.role): supersedes.reason
        for piece in pieces
        if piece.used and piece.envelope
        for supersedes in piece.envelope.supersedes
    }
    return [_superseded(piece, reasons) for piece in pieces]


def _superseded(piece: Piece, reasons: Mapping[tuple[str, str, str], str]) -> Piece:
    if not piece.used or piece.envelope is None:
        return piece
    reason = reasons.get((piece.envelope.evidence_id, piece.envelope.kind, piece.envelope.role))
    return replace(piece, problem=Problem("superseded", reason)) if reason else piece
