"""Computing decisions again, one or a whole ledger of them, and saying what came of it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pulumi_infercrane.guard import GuardError, Ledger, LedgerError, Policy
from pulumi_infercrane.guard.canonical import canonical_bytes
from pulumi_infercrane.guard.printable import one_line, short
from pulumi_infercrane.guard.verification import Archive, Past, differences, recompute


@dataclass(frozen=True)
class Checked:
    """One decision after it was, or was not, computed again."""

    decision_id: str
    result: Literal["equal", "different", "impossible", "not_computed"]
    detail: str = ""
    differences: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        return self.result in ("equal", "not_computed")

    def lines(self) -> Iterator[str]:
        words = {
            "impossible": f"cannot be computed again: {one_line(self.detail)}",
            "not_computed": f"not computed again, {self.detail}",
        }
        yield f"{short(self.decision_id)}: {words.get(self.result, self.result)}"
        yield from (f"  {line}" for line in self.differences)

    def document(self) -> dict[str, Any]:
        document = {"decision_id": self.decision_id, "result": self.result, "detail": self.detail}
        return document | {"differences": list(self.differences)}


@dataclass(frozen=True)
class Verified:
    """What verifying a file came to. `entries` and `problem` are about the chain of a ledger."""

    decisions: tuple[Checked, ...]
    entries: int | None = None
    problem: str = ""

    @property
    def holds(self) -> bool:
        """Something was computed again, and nothing contradicts."""
        return self.computed and not self.problem and all(one.holds for one in self.decisions)

    @property
    def computed(self) -> bool:
        """Whether at least one decision was computed again: a whole chain alone proves no verdict."""
        return any(one.result == "equal" for one in self.decisions)

    def lines(self) -> Iterator[str]:
        for one in self.decisions:
            yield from one.lines()
        if self.problem:
            yield self.problem
        elif self.entries is not None:
            yield f"chain of {self.entries} entries: whole" if self.entries else "an empty ledger: nothing to verify"
            if self.entries and all(one.result == "not_computed" for one in self.decisions):
                yield "not one decision could be computed again: give the policy and the evidence of one"

    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = {"holds": self.holds, "decisions": [one.document() for one in self.decisions]}
        if self.entries is not None:
            document["chain"] = {"entries": self.entries, "whole": not self.problem, "problem": self.problem}
        return document


def verify_record(
    record: Mapping[str, Any], policy: Policy, archive: Archive, history: Sequence[Mapping[str, Any]]
) -> Checked:
    """The decision computed again and compared byte by byte."""
    name = record["decision_id"]
    try:
        again = recompute(record, policy, archive.read(record), history, archive.read_windows(record))
    except GuardError as error:
        return Checked(name, "impossible", str(error))
    if canonical_bytes(record) == again.canonical:
        return Checked(name, "equal")
    return Checked(name, "different", differences=tuple(differences(record, again.record)))


def verify_ledger(file: Path, policy: Policy, archive: Archive) -> Verified:
    """The chain, and every decision made with this policy whose evidence is still there."""
    past, checked = Past(Ledger(file)), list[Checked]()
    try:
        for entry in past.ledger.entries():
            checked.append(_verify_entry(entry.decision, policy, archive, past))
            past.add(entry)
    except LedgerError as error:
        return Verified(tuple(checked), len(checked), str(error))
    return Verified(tuple(checked), len(checked))


def _verify_entry(document: Mapping[str, Any], policy: Policy, archive: Archive, past: Past) -> Checked:
    from pulumi_infercrane.guard.recorded import check_record  # types that `check` has no use for

    name = str(document.get("decision_id"))
    if document.get("policy_digest") != policy.digest:
        return Checked(name, "not_computed", "it was made with another policy")
    try:
        record = check_record(document)
    except GuardError as error:
        return Checked(name, "impossible", str(error))
    if not archive.holds(record):
        return Checked(name, "not_computed", _not_here(record, archive))
    return verify_record(record, policy, archive, past.read(record))


def _not_here(record: Mapping[str, Any], archive: Archive) -> str:
    if record.get("windows") and not archive.windows:
        return "the windows it saw are not here: name their folder with --windows"
    return "its evidence is not here"
