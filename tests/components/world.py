"""State, ledger and evidence of a Release between runs."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from pulumi_infercrane.components.deciding import Declared, Outcome, check
from pulumi_infercrane.guard import Ledger, reference_folder
from tests.guard.conftest import POLICY, Folder


class World:
    """State, ledger and evidence between runs, as engine and provider keep them."""

    def __init__(self, root: Path) -> None:
        self.evidence = Folder(root / "evidence")
        self.evidence.root.mkdir()
        self.ledger = Ledger(root / "ledger.jsonl")
        self.windows = root / "windows"
        self.r1, self.r2 = self.evidence.baseline, self.evidence.candidate
        self.policy = "bootstrap: true\n" + POLICY
        self.state: dict[str, Any] = {}

    def declared(self, **changes: Any) -> Declared:
        declared = Declared(
            service="chat",
            stack="lab/dev",
            candidate=self.r1,
            revisions=(self.r1, self.r2),
            policy_text=self.policy,
            policy_source="policy.yaml",
            evidence_folder=self.evidence.root,
            evidence=reference_folder(self.evidence.root),
            ledger=self.ledger.path,
            windows=self.windows,
            as_of="2026-11-30T05:00:00Z",
        )
        return replace(declared, **changes)

    def preview(self, **changes: Any) -> Outcome:
        return check(self.declared(**changes), self.state)

    def up(self, **changes: Any) -> Outcome:
        """Check, then what Update does: keep the record, then the fields."""
        outcome = self.preview(**changes)
        assert not outcome.problems, outcome.problems
        if outcome.decision:
            self.ledger.append(outcome.decision.record)
        declared = self.declared(**changes)
        self.state = {"service": declared.service, "candidate": declared.candidate} | outcome.fields
        return outcome

    def serving_r1(self) -> "World":
        self.up(revisions=(self.r1,))
        return self

    def serving_r2(self) -> "World":
        self.serving_r1()
        self.evidence.both()
        self.up(candidate=self.r2)
        assert self.state["activeRevision"] == self.r2
        return self


def problem(outcome: Outcome) -> tuple[str, str]:
    (only,) = outcome.problems
    return only
