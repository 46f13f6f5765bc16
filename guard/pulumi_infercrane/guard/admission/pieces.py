"""Pieces of evidence in one decision: what is asked, and what admission found out about each piece."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pulumi_infercrane.guard.evidence.envelope import Envelope, Subject
from pulumi_infercrane.guard.evidence.folder import LoadedEvidence
from pulumi_infercrane.guard.evidence.records import Replay
from pulumi_infercrane.guard.judging.rule import Member
from pulumi_infercrane.guard.policy import Policy
from pulumi_infercrane.guard.reasons import Problem


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


def is_of(piece: Piece, kind: str, role: str) -> bool:
    """Whether a piece claims to be of this kind and role, used or not."""
    return piece.envelope is not None and piece.envelope.kind == kind and piece.envelope.role == role


def members(pieces: Iterable[Piece], kind: str, role: str) -> Iterator[Member]:
    """What is used of this kind and role."""
    for piece in pieces:
        if piece.used and piece.envelope is not None and is_of(piece, kind, role):
            yield Member(piece.envelope, piece.item.record)


def failures(piece: Piece) -> int:
    """Failed requests that a piece tells about the candidate; 0 for the baseline, and for what has no requests."""
    if piece.envelope is None or piece.envelope.role != "candidate":
        return 0
    if isinstance(piece.item.record, Replay):
        return sum(not one.ok for one in piece.item.record.requests.values())
    return getattr(piece.item.record, "failed", None) or 0
