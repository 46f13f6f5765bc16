"""What keeps a whole kind from being judged: spoilt or withdrawn evidence, and a rollback since it was measured."""

from collections.abc import Mapping, Sequence
from typing import Any

from pulumi_infercrane.guard.admission.pieces import Piece, Question, members
from pulumi_infercrane.guard.reasons import Problem, gate_rank
from pulumi_infercrane.guard.rules import known_kinds
from pulumi_infercrane.guard.times import parse_time

SPOILT = ("tampered", "signature_invalid", "binding_conflict", "conflict")
"""Somebody changed this evidence, offers it for two revisions, or beside a part of it that counts: nothing is judged
beside it, however good the rest is, or a bad result could be made to not count."""
STANDING = {"limit_exceeded", "hard_event"}
"""Reasons of a fail that one piece can bring about alone."""


def blocked_kinds(question: Question, pieces: Sequence[Piece]) -> Mapping[str, Problem]:
    """By kind, why none of its rules can be judged, however good its pieces are."""
    return _rolled_back(question, pieces) | _withdrawn(question, pieces) | _spoilt(pieces)


def _spoilt(pieces: Sequence[Piece]) -> dict[str, Problem]:
    """The earliest gate of each kind, the candidate's own before the baseline's."""
    found = [
        (gate_rank(piece.problem.code), piece.envelope.role, piece.envelope.kind, piece.problem)
        for piece in pieces
        if piece.envelope and piece.bound and piece.problem and piece.problem.code in SPOILT
    ]
    weightiest_last = sorted(found, key=lambda one: (one[0], one[1] == "baseline"), reverse=True)
    return {kind: problem for _, _, kind, problem in weightiest_last}


def used_before(history: Sequence[Mapping[str, Any]]) -> set[str]:
    """Ids of the evidence that earlier decisions used."""
    return {entry["evidence_id"] for record in history for entry in record.get("evidence", ()) if entry["used"]}


def _withdrawn(question: Question, pieces: Sequence[Piece]) -> dict[str, Problem]:
    """Evidence an earlier decision on this candidate used, and which is gone now without a successor's reason.

    Gone is also what lost the signature it counted by: else a bad result could be made to not count by taking it off.
    What broke a hard limit must stay even then: it counts beside its successor.
    """
    named = {one.evidence_id for piece in pieces if piece.used and piece.envelope for one in piece.envelope.supersedes}
    replaced = named - _broke_a_limit(question.history)
    present: dict[str, list[Piece]] = {}
    for piece in pieces:
        present.setdefault(piece.item.evidence_id, []).append(piece)
    blocked: dict[str, Problem] = {}
    for record in question.history:
        if record.get("candidate") != question.candidate:
            continue
        for entry in record.get("evidence", ()):
            if entry["used"] and entry["evidence_id"] not in replaced and not _is_there(entry, present):
                detail = f"{entry['evidence_id'][:19]}…, used by decision {record['decision_id'][:19]}…, is gone"
                blocked[entry["kind"]] = Problem("evidence_withdrawn", detail)
    return blocked


def _is_there(entry: Mapping[str, Any], present: Mapping[str, Sequence[Piece]]) -> bool:
    signers = set(entry.get("signers", ()))
    return any(signers <= _signatures(piece) for piece in present.get(entry["evidence_id"], ()))


def _signatures(piece: Piece) -> set[str]:
    """Ids of all keys a piece claims to be signed by, whether they count or not."""
    attestation = piece.envelope.attestation if piece.envelope else None
    return {signature.keyid for signature in attestation.signatures} if attestation else set()


def _broke_a_limit(history: Sequence[Mapping[str, Any]]) -> set[str]:
    """Evidence behind the hard fails of earlier decisions that did not compare two sides."""
    return {
        identifier
        for record in history
        for rule in record.get("rules", ())
        if rule["outcome"] == "fail" and rule["class"] == "H" and set(rule["reasons"]) & STANDING
        for identifier in rule.get("evidence", ())
    }


def _rolled_back(question: Question, pieces: Sequence[Piece]) -> dict[str, Problem]:
    """After a rollback the failed candidate needs a measurement that began later."""
    times = [parse_time(record["as_of"]) for record in question.history if _rolls_back(record, question.candidate)]
    if not times:
        return {}
    newest = max(times)
    blocked: dict[str, Problem] = {}
    for kind in known_kinds():
        found = list(members(pieces, kind, "candidate"))
        if found and all(member.envelope.window.started < newest for member in found):
            blocked[kind] = Problem("stale", "measured before this revision was rolled back; measure it again")
    return blocked


def _rolls_back(record: Mapping[str, Any], candidate: str) -> bool:
    """Away from a candidate that was active, or that had a share of the traffic."""
    kind = (record.get("decision_type"), record.get("action"))
    if kind == ("canary_step", "rollback"):
        return record.get("candidate") == candidate
    return kind[0] == "rollback" and record.get("baseline") == candidate
