"""Which revision an option means: a digest, the beginning of one that is known, or the only one in its role."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from pulumi_infercrane.guard import EvidenceSet, GuardError

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def revision_in(evidence: EvidenceSet, folder: Path, role: str, given: str | None) -> str:
    """The digest of the revision in a role: the one `given` means, else the only one the evidence holds.

    Raises:
        GuardError: lists the revisions of the evidence; where it has none in this role, why.
    """
    if given:
        return named(given, f"--{role}", _revisions(evidence), "the evidence has")
    found = _revisions(evidence, role)
    if len(found) == 1:
        return found[0]
    if not found:
        raise GuardError(_why_none(evidence, folder, role))
    raise GuardError(f"say with --{role} which revision is meant; the evidence has:{_listed(found)}")


def named(given: str, option: str, known: Iterable[str], where: str) -> str:
    """The full digest that `given` is, or is the beginning of; reports show the first twelve digits.

    Raises:
        GuardError: none or several of the `known` begin so; `where` begins the list of them.
    """
    if _DIGEST.fullmatch(given):
        return given
    known = sorted(set(known))
    start = "sha256:" + given.removeprefix("sha256:")
    found = [digest for digest in known if digest.startswith(start)]
    if len(found) == 1:
        return found[0]
    problem = "more than one revision digest begins so" if found else "not a revision digest, or the beginning of one"
    raise GuardError(f"{option} {given}: {problem}; {where}:{_listed(found or known)}")


def _revisions(evidence: EvidenceSet, role: str = "") -> list[str]:
    envelopes = [item.envelope for item in evidence.items if item.envelope]
    return sorted({one.subject.revision_digest for one in envelopes if role in ("", one.role)})


def _listed(digests: Sequence[str]) -> str:
    return "".join(f"\n  {digest}" for digest in digests) or " none"


def _why_none(evidence: EvidenceSet, folder: Path, role: str) -> str:
    if not evidence.items:
        return (
            f"{folder}: no *.evidence.json in it or below: "
            "make one of a tool's file with `infercrane guard import`, or measure with `infercrane collect`"
        )
    unread = [f"\n  {item.path}: {item.problem}" for item in evidence.items if not item.envelope]
    if unread:
        return f"{folder}: no envelope that can be read has the role {role}; these cannot be read:{''.join(unread)}"
    return f"{folder}: no envelope has the role {role}: say with --{role} which revision is meant"
