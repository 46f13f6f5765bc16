"""Which pieces of evidence may be judged in one decision, and the first gate each of the others failed.

Gates run in the order of `reasons.GATES`. What does not belong to this decision is listed, never used; what belongs to
it and was tampered with or withdrawn keeps its whole kind from being judged.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from pulumi_infercrane.guard.admission.binding import binding_problem
from pulumi_infercrane.guard.admission.blocking import blocked_kinds, used_before
from pulumi_infercrane.guard.admission.copies import once, without_shared
from pulumi_infercrane.guard.admission.freshness import stale_problem
from pulumi_infercrane.guard.admission.groups import (
    without_incomplete_groups,
    without_other_comparisons,
    without_superseded,
)
from pulumi_infercrane.guard.admission.pieces import Piece, Question, failures, is_of, members
from pulumi_infercrane.guard.evidence.envelope import Envelope
from pulumi_infercrane.guard.evidence.folder import EvidenceSet, LoadedEvidence
from pulumi_infercrane.guard.judging.rule import Member, Sides
from pulumi_infercrane.guard.reasons import Problem, gate_rank
from pulumi_infercrane.guard.rules import find_kind, known_kinds
from pulumi_infercrane.guard.trust.dsse import EVIDENCE_TYPE
from pulumi_infercrane.guard.trust.gate import Statement, vouchers

CLOCK_TOLERANCE = timedelta(minutes=5)
CLOCK_OFFSET_MS = 5000
COMPLETE_SHARE = 0.95


@dataclass(frozen=True)
class Admission:
    """All pieces, in an order that does not depend on the folder, and what blocks a kind as a whole."""

    pieces: tuple[Piece, ...]
    blocked: Mapping[str, Problem] = field(default_factory=dict)

    def sides(self, kind: str) -> Sides:
        """Admissible evidence of one kind."""
        candidate, baseline = (tuple(members(self.pieces, kind, role)) for role in ("candidate", "baseline"))
        no_baseline = None if baseline else self._missing(kind, "baseline")
        return Sides(candidate, baseline, no_baseline, tuple(_superseded_members(self.pieces, kind)))

    def block(self, kind: str) -> Problem | None:
        """Why no rule of a kind can be judged; None when the candidate has admissible evidence."""
        if kind in self.blocked:
            return self.blocked[kind]
        return None if any(members(self.pieces, kind, "candidate")) else self._missing(kind, "candidate")

    def _missing(self, kind: str, role: str) -> Problem:
        """The earliest gate that this side's own evidence failed; without any of its own, `no_evidence`."""
        own = [p.problem for p in self.pieces if p.problem and p.bound and is_of(p, kind, role)]
        if own:
            return min(own, key=lambda problem: (gate_rank(problem.code), str(problem)))
        aside = Counter(p.problem.code for p in self.pieces if p.problem and (not p.envelope or is_of(p, kind, role)))
        listed = "".join(f"; {number} set aside as {code}" for code, number in sorted(aside.items()))
        return Problem("no_evidence", f"no admissible {role} measurement{listed}")


def admit(question: Question, evidence: EvidenceSet) -> Admission:
    """Pass every piece of evidence through the gates."""
    pieces = [_piece(question, item) for item in sorted(evidence.items, key=_order)]
    pieces = once(_used_first(question, without_shared(pieces)))
    pieces = without_other_comparisons(without_incomplete_groups(pieces))
    pieces = without_superseded(pieces)
    in_order = sorted(pieces, key=lambda piece: _order(piece.item))
    return Admission(tuple(in_order), blocked_kinds(question, in_order))


def _used_first(question: Question, pieces: Iterable[Piece]) -> list[Piece]:
    """Of a measurement and its copies counts what counted before: a copy with other counts must not take its place.

    Else, of the candidate, the one with the most failures: they have no times, so a run without them that gained others
    looks like the longer one. Else the longest: it holds the others where a tool appends to its file.
    """
    before = used_before(question.history)

    def rank(piece: Piece) -> tuple[bool, int, int]:
        return piece.item.evidence_id not in before, -failures(piece), -_attempted(piece)

    return sorted(pieces, key=rank)


def _attempted(piece: Piece) -> int:
    return getattr(piece.item.record, "attempted", None) or 0


def _order(item: LoadedEvidence) -> tuple[str, str, str]:
    return item.evidence_id, item.sha256, str(item.problem)


def _superseded_members(pieces: Iterable[Piece], kind: str) -> Iterator[Member]:
    for piece in pieces:
        if piece.problem and piece.problem.code == "superseded" and piece.envelope and is_of(piece, kind, "candidate"):
            yield Member(piece.envelope, piece.item.record)


# --- gates of a single piece ------------------------------------------------------------------------------------


def _piece(question: Question, item: LoadedEvidence) -> Piece:
    if item.envelope is None:
        return Piece(item, item.problem)
    envelope = item.envelope
    statement = Statement(EVIDENCE_TYPE, item.body, envelope.kind, envelope.window.ended)
    signers, untrusted = vouchers(question.policy.trust, envelope.attestation, statement)
    problems = [item.problem, untrusted, *_problems(question, envelope, item.record)]
    return Piece(item, _earliest(problems), _binding(question, envelope) is None, signers)


def _earliest(problems: Iterable[Problem | None]) -> Problem | None:
    found = [problem for problem in problems if problem]
    return min(found, key=lambda problem: gate_rank(problem.code)) if found else None


def _problems(question: Question, envelope: Envelope, record: Any) -> Iterator[Problem | None]:
    yield _binding(question, envelope)
    yield _probes(envelope)
    yield _clock(question, envelope)
    if envelope.kind in known_kinds() and record is not None:
        member = Member(envelope, record)
        yield stale_problem(question.policy, question.stack, member, question.as_of)
        yield _truncated(envelope, record.attempted)
        yield find_kind(envelope.kind).check(member, question.policy.settings)


def _binding(question: Question, envelope: Envelope) -> Problem | None:
    asked = question.revision(envelope.role)
    return binding_problem(envelope, asked, question.subjects.get(asked), question.stack)


def _probes(envelope: Envelope) -> Problem | None:
    if envelope.probes is None:
        return None
    before, after = envelope.probes.before, envelope.probes.after
    for name in ("models", "version", "restarts"):
        if getattr(before, name) != getattr(after, name):
            return Problem("subject_changed", f"{name} before the run differ from those after it")
    return None


def _clock(question: Question, envelope: Envelope) -> Problem | None:
    window = envelope.window
    if window.ended > question.as_of + CLOCK_TOLERANCE:
        return Problem("clock", f"measured until {window.ended_at}, which is after the time of this decision")
    if window.ended < window.started:
        return Problem("clock", f"the window ends at {window.ended_at}, before it starts")
    offset = envelope.runner.clock_offset_ms if envelope.runner else None
    if offset is not None and abs(offset) > CLOCK_OFFSET_MS:
        return Problem("clock", f"the measuring machine's clock was off by {offset / 1000:g} s")
    return None


def _truncated(envelope: Envelope, attempted: int | None) -> Problem | None:
    """A file that does not say what was attempted is left to the rules that need to know."""
    if attempted is None:
        return None
    planned = envelope.planned.requests if envelope.planned else attempted
    if attempted and attempted >= COMPLETE_SHARE * planned:
        return None
    return Problem("truncated", f"{attempted} of {planned} planned requests are in the file")
