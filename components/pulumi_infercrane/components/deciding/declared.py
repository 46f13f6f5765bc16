"""What a program declares of a Release, and what its ledger holds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pulumi_infercrane.guard import EvidenceReference, Ledger

BEFORE_ALL_EVIDENCE = "1970-01-01T00:00:00Z"
"""`asOf` of a decision that saw no evidence and was given no time: nothing in it can age."""


@dataclass(frozen=True)
class Declared:
    """The program's inputs of a Release, read from the wire. Paths are absolute."""

    service: str
    stack: str
    candidate: str
    revisions: tuple[str, ...]
    policy_text: str
    policy_source: str
    evidence_folder: Path
    evidence: tuple[EvidenceReference, ...]
    ledger: Path
    windows: Path | None = None
    """Folder with traffic windows."""
    as_of: str = ""
    initial_active: str = ""
    rollback_to: str = ""
    rollback_reason: str = ""
    override: str = ""
    """A signed override, as text."""

    def records(self) -> list[Mapping[str, Any]]:
        """The decisions of the ledger, oldest first.

        Raises:
            LedgerError: the chain is broken.
        """
        return [entry.decision for entry in Ledger(self.ledger).entries()]


def declared_from(news: Mapping[str, Any], root: Path) -> Declared:
    """The program's inputs as they travel on the wire; relative paths are meant from `root`, the project's folder."""
    policy = news["policy"]
    return Declared(
        service=news["service"],
        stack=news["stack"],
        candidate=news.get("candidate", ""),
        revisions=tuple(news["revisions"]),
        policy_text=policy["text"],
        policy_source=policy["source"],
        evidence_folder=root / news["evidenceFolder"],
        evidence=_references(news.get("evidence") or []),
        ledger=root / news["ledger"],
        windows=root / news["windows"] if news.get("windows") else None,
        as_of=news.get("asOf", ""),
        initial_active=news.get("initialActive", ""),
        rollback_to=news.get("rollbackTo", ""),
        rollback_reason=news.get("rollbackReason", ""),
        override=news.get("override", ""),
    )


def _references(values: Sequence[Mapping[str, Any]]) -> tuple[EvidenceReference, ...]:
    return tuple(EvidenceReference(path=value["path"], sha256=value["sha256"]) for value in values)
