"""Which pieces of evidence may be judged in one decision, and the first gate each of the others failed.

Gates run in the order of `reasons.GATES`. What does not belong to this decision is listed, never used; what belongs to
it and was tampered with or withdrawn keeps its whole kind from being judged.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from pulumi_infercrane.guard.admission.binding import binding_problem
from pulumi_infercrane.guard.admission.freshness import stale_problem
from pulumi_infercrane.guard.evidence.envelope import Envelope, EvidenceFile, Subject
from pulumi_infercrane.guard.evidence.folder import EvidenceSet, LoadedEvidence
from pulumi_infercrane.guard.judging.rule import Member, Sides
from pulumi_infercrane.guard.policy import Policy
from pulumi_infercrane.guard.reasons import Problem, gate_rank
from pulumi_infercrane.guard.rules import find_kind, known_kinds
from pulumi_infercrane.guard.times import parse_time
from pulumi_infercrane.guard.trust.gate import vouchers

CLOCK_TOLERANCE = timedelta(minutes=5)
CLOCK_OFFSET_MS = 5000
COMPLETE_SHARE = 0.95
FORGED = ("tampered", "signature_invalid")
"""Somebody changed this evidence: nothing is judged beside it, however good the rest is."""
STANDING = {"limit_exceeded", "hard_event"}
"""Reasons of a fail that one piece can bring about alone."""


@dataclass(frozen=True)
class Question:
    """What is asked: may `candidate` take over from `baseline`, as seen at `as_of`? Digests are `sha256:…`."""

    policy: Policy
    candidate: str
    baseline: str
    as_of: datetime
    history: Sequence[Mapping[str, Any]] = ()
    stack: str = ""
    subjects: Mapping[str, Subject] = field(default_factory=dict)
    """What is known about revisions, by digest."""

    def revision(self, role: str) -> str:
        return self.candidate if role == "candidate" else self.baseline


@dataclass(frozen=True)
class Piece:
    """A piece of evidence after admission: used when it has neither a problem nor another reason to step back."""

    item: LoadedEvidence
    problem: Problem | None = None
    bound: bool = False
    """It claims to be about a revision of this decision, in the role that revision has."""
    signers: tuple[str, ...] = ()
    """Ids of the trusted keys whose signatures counted."""

    @property
    def used(self) -> bool:
        return self.problem is None

    @property
    def envelope(self) -> Envelope | None:
        return self.item.envelope


@dataclass(frozen=True)
class Admission:
    """All pieces, in an order that does not depend on the folder, and what blocks a kind as a whole."""

    pieces: tuple[Piece, ...]
    blocked: Mapping[str, Problem] = field(default_factory=dict)

    def sides(self, kind: str) -> Sides:
        """Admissible evidence of one kind."""
        candidate, baseline = (tuple(_members(self.pieces, kind, role)) for role in ("candidate", "baseline"))
        no_baseline = None if baseline else self._missing(kind, "baseline")
        return Sides(candidate, baseline, no_baseline, tuple(_superseded_members(self.pieces, kind)))

    def block(self, kind: str) -> Problem | None:
        """Why no rule of a kind can be judged; None when the candidate has admissible evidence."""
        if kind in self.blocked:
            return self.blocked[kind]
        return None if any(_members(self.pieces, kind, "candidate")) else self._missing(kind, "candidate")

    def _missing(self, kind: str, role: str) -> Problem:
        """The earliest gate that this side's own evidence failed; without any of its own, `no_evidence`."""
        own = [p.problem for p in self.pieces if p.problem and p.bound and _is(p, kind, role)]
        if own:
            return min(own, key=lambda problem: (gate_rank(problem.code), str(problem)))
        aside = Counter(p.problem.code for p in self.pieces if p.problem and (not p.envelope or _is(p, kind, role)))
        listed = "".join(f"; {number} set aside as {code}" for code, number in sorted(aside.items()))
        return Problem("no_evidence", f"no admissible {role} measurement{listed}")


def admit(question: Question, evidence: EvidenceSet) -> Admission:
    """Pass every piece of evidence through the gates."""
    pieces = [_piece(question, item) for item in sorted(evidence.items, key=_order)]
    pieces = _once(_without_shared_files(pieces))
    pieces = _without_other_comparisons(_without_incomplete_groups(pieces))
    pieces = _without_superseded(pieces)
    blocked = _rolled_back(question, pieces) | _withdrawn(question, pieces) | _forged(pieces)
    return Admission(tuple(pieces), blocked)


def _order(item: LoadedEvidence) -> tuple[str, str, str]:
    return item.evidence_id, item.sha256, str(item.problem)


def _is(piece: Piece, kind: str, role: str) -> bool:
    return piece.envelope is not None and piece.envelope.kind == kind and piece.envelope.role == role


def _members(pieces: Iterable[Piece], kind: str, role: str) -> Iterator[Member]:
    for piece in pieces:
        if piece.used and piece.envelope is not None and _is(piece, kind, role):
            yield Member(piece.envelope, piece.item.record)


def _superseded_members(pieces: Iterable[Piece], kind: str) -> Iterator[Member]:
    for piece in pieces:
        if piece.problem and piece.problem.code == "superseded" and piece.envelope and _is(piece, kind, "candidate"):
            yield Member(piece.envelope, piece.item.record)


# --- gates of a single piece ------------------------------------------------------------------------------------


def _piece(question: Question, item: LoadedEvidence) -> Piece:
    if item.envelope is None:
        return Piece(item, item.problem)
    signers, untrusted = vouchers(question.policy.trust, item.envelope, item.body)
    problems = [item.problem, untrusted, *_problems(question, item.envelope, item.record)]
    return Piece(item, _earliest(problems), _binding(question, item.envelope) is None, signers)


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


# --- gates that look at several pieces --------------------------------------------------------------------------


def _without_shared_files(pieces: Sequence[Piece]) -> list[Piece]:
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


def _once(pieces: Sequence[Piece]) -> list[Piece]:
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


def _without_incomplete_groups(pieces: Sequence[Piece]) -> list[Piece]:
    """A group of repeats counts whole or not at all: the best three of five prove nothing."""
    present: dict[tuple[str, str, str], set[int]] = {}
    for piece in pieces:
        if piece.used and piece.envelope and piece.envelope.run:
            present.setdefault(_group(piece.envelope), set()).add(piece.envelope.run.ordinal)
    return [_complete_or_not(piece, present) for piece in pieces]


def _group(envelope: Envelope) -> tuple[str, str, str]:
    return envelope.kind, envelope.role, envelope.run.group if envelope.run else ""


def _complete_or_not(piece: Piece, present: Mapping[tuple[str, str, str], set[int]]) -> Piece:
    if not piece.used or piece.envelope is None or piece.envelope.run is None:
        return piece
    found, of = len(present[_group(piece.envelope)]), piece.envelope.run.of
    if found == of:
        return piece
    return replace(piece, problem=Problem("truncated", f"{found} of {of} runs of its group are present and admissible"))


def _without_other_comparisons(pieces: Sequence[Piece]) -> list[Piece]:
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


def _without_superseded(pieces: Sequence[Piece]) -> list[Piece]:
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


# --- what blocks a kind -----------------------------------------------------------------------------------------


def _forged(pieces: Sequence[Piece]) -> dict[str, Problem]:
    return {
        piece.envelope.kind: piece.problem
        for piece in pieces
        if piece.envelope and piece.bound and piece.problem and piece.problem.code in FORGED
    }


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
        members = list(_members(pieces, kind, "candidate"))
        if members and all(member.envelope.window.started < newest for member in members):
            blocked[kind] = Problem("stale", "measured before this revision was rolled back; measure it again")
    return blocked


def _rolls_back(record: Mapping[str, Any], candidate: str) -> bool:
    """Away from a candidate that was active, or that had a share of the traffic."""
    kind = (record.get("decision_type"), record.get("action"))
    if kind == ("canary_step", "rollback"):
        return record.get("candidate") == candidate
    return kind[0] == "rollback" and record.get("baseline") == candidate
