"""Computing recorded decisions again, from the policy and the evidence they name.

A ledger may hold more than fits into memory: of evidence and earlier decisions only their places are kept, and they are
read when a decision asks for them.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pulumi_infercrane.guard.decision import Decision, bootstrap, decide, rollback
from pulumi_infercrane.guard.errors import GuardError
from pulumi_infercrane.guard.evidence.folder import EvidenceReference, EvidenceSet, load_evidence, reference_folder
from pulumi_infercrane.guard.evidence.window import LoadedWindow, load_windows, reference_windows
from pulumi_infercrane.guard.ledger import Ledger, LedgerEntry
from pulumi_infercrane.guard.overrides import override, override_from
from pulumi_infercrane.guard.policy import Policy
from pulumi_infercrane.guard.rollout.canary import CANARY_STEP, canary_step
from pulumi_infercrane.guard.rollout.watch import POST_PROMOTION, post_promotion


@dataclass(frozen=True)
class Archive:
    """The evidence and the windows of folders, unread: paths of their files by sha256."""

    root: Path
    paths: Mapping[str, Sequence[str]]
    windows: Mapping[str, Path] = field(default_factory=dict)

    def holds(self, record: Mapping[str, Any]) -> bool:
        """Whether every piece and every window a record saw is still there."""
        pieces_there = all(entry["sha256"] in self.paths for entry in record["evidence"])
        return pieces_there and _window_names(record) <= self.windows.keys()

    def read(self, record: Mapping[str, Any]) -> EvidenceSet:
        """The pieces a record saw, as far as they are still there."""
        wanted = {entry["sha256"] for entry in record["evidence"]}
        found = [EvidenceReference(path, sha256) for sha256 in wanted for path in self.paths.get(sha256, ())]
        return load_evidence(self.root, found)

    def read_windows(self, record: Mapping[str, Any]) -> tuple[LoadedWindow, ...]:
        """The windows a record saw, as far as they are still there."""
        names = sorted(_window_names(record) & self.windows.keys())
        return load_windows([self.windows[name] for name in names])


def archive_of(root: Path, windows: Path | None = None) -> Archive:
    """Find the envelopes below a folder, and the windows below another.

    Raises:
        EvidenceError: when a folder, an envelope or a window cannot be read.
    """
    paths: dict[str, list[str]] = {}
    for reference in reference_folder(root):
        paths.setdefault(reference.sha256, []).append(reference.path)
    return Archive(root, paths, reference_windows(windows) if windows else {})


@dataclass(frozen=True)
class Past:
    """The decisions of a ledger up to here, unread: where each one is."""

    ledger: Ledger
    offsets: dict[str, int] = field(default_factory=dict)

    def add(self, entry: LedgerEntry) -> None:
        self.offsets[str(entry.decision.get("decision_id"))] = entry.offset

    def read(self, record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """The earlier decisions a record names, as far as they are in the ledger."""
        named = [self.offsets[name] for name in record.get("history", ()) if name in self.offsets]
        return [self.ledger.decision_at(offset) for offset in named]


def recompute(
    record: Mapping[str, Any],
    policy: Policy,
    evidence: EvidenceSet,
    history: Sequence[Mapping[str, Any]] = (),
    windows: Sequence[LoadedWindow] = (),
) -> Decision:
    """The decision that the recorded inputs give now. `evidence` and `windows` may hold more than the record saw.

    Raises:
        GuardError: when evidence, a window or an earlier decision it names is not at hand, or its type is not known.
    """
    common = {name: record[name] for name in ("service", "stack", "as_of")}
    common["previous_decision_id"] = record.get("prev_decision_id", "")
    if record["decision_type"] == "bootstrap":
        past = _named(record.get("history", ()), history)
        return bootstrap(policy, seen_by(record, evidence), candidate=record["candidate"], history=past, **common)
    if record["decision_type"] == "rollback":
        return _rollback_again(record, common)
    if record["decision_type"] == "override":
        return override(policy, override_from(record.get("override")), active=record["baseline"], **common)
    if record["decision_type"] in (CANARY_STEP, POST_PROMOTION):
        return _on_traffic(record, policy, _named(record["history"], history), windows_of(record, windows), common)
    if record["decision_type"] != "promotion":
        raise GuardError(f"decisions of type {record['decision_type']!r} are not known to this version")
    return decide(
        policy,
        seen_by(record, evidence),
        candidate=record["candidate"],
        baseline=record["baseline"],
        history=_named(record["history"], history),
        **common,
    )


def _on_traffic(
    record: Mapping[str, Any],
    policy: Policy,
    history: Sequence[Mapping[str, Any]],
    windows: Sequence[LoadedWindow],
    common: Mapping[str, Any],
) -> Decision:
    if record["decision_type"] == CANARY_STEP:
        step = {"weight": record["step"]["weight"], "started_at": record["step"]["started_at"], "history": history}
        return canary_step(
            policy, windows, candidate=record["candidate"], baseline=record["baseline"], **step, **common
        )
    (promoted,) = _named([record["promoted"]], history)
    return post_promotion(
        policy,
        windows,
        promoted,
        as_of=record["as_of"],
        started_at=record["started_at"],
        history=history,
        previous_decision_id=common["previous_decision_id"],
    )


def windows_of(record: Mapping[str, Any], windows: Sequence[LoadedWindow]) -> list[LoadedWindow]:
    """The windows a record saw, and those its frozen baseline comes from, by the names they had then.

    Raises:
        GuardError: when one of them is not there, or not as it was.
    """
    wanted = _window_names(record)
    missing = sorted(wanted - {loaded.sha256 for loaded in windows})
    if missing:
        raise GuardError(f"window {missing[0][:19]}… is gone or was changed ({len(missing)} of them)")
    files = {entry["sha256"]: entry.get("file", "") for entry in record.get("windows", ())}
    return [replace(one, file=files.get(one.sha256, "")) for one in windows if one.sha256 in wanted]


def _window_names(record: Mapping[str, Any]) -> set[str]:
    return {entry["sha256"] for entry in record.get("windows", ())} | set(record.get("frozen", ()))


def _rollback_again(record: Mapping[str, Any], common: Mapping[str, Any]) -> Decision:
    return rollback(
        target=record["candidate"],
        active=record["baseline"],
        policy_digest=record["policy_digest"],
        reason=record["reasons"][0].removeprefix("rollback: "),
        **common,
    )


def seen_by(record: Mapping[str, Any], evidence: EvidenceSet) -> EvidenceSet:
    """The pieces a record saw, by the digest of their envelopes.

    Raises:
        GuardError: when one of them is not there, or not as it was.
    """
    wanted = Counter(entry["sha256"] for entry in record["evidence"])
    found = []
    for item in evidence.items:
        if wanted[item.sha256] > 0:
            wanted[item.sha256] -= 1
            found.append(item)
    missing = sorted(+wanted)
    if missing:
        raise GuardError(f"evidence {missing[0][:19]}… is gone or was changed ({len(missing)} of them)")
    return EvidenceSet(tuple(found))


def _named(identifiers: Sequence[str], history: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    by_id = {record["decision_id"]: record for record in history}
    missing = [identifier for identifier in identifiers if identifier not in by_id]
    if missing:
        raise GuardError(f"earlier decision {missing[0][:19]}… is needed: give the ledger that holds it")
    return [by_id[identifier] for identifier in identifiers]


def differences(recorded: Any, again: Any, path: str = "") -> Iterator[str]:
    """Fields in which two JSON values differ, as `rules[1].estimate: 0.5 recorded, 0.6 computed`."""
    if isinstance(recorded, Mapping) and isinstance(again, Mapping):
        for key in sorted(recorded.keys() | again.keys()):
            yield from differences(recorded.get(key), again.get(key), f"{path}.{key}".lstrip("."))
    elif isinstance(recorded, list) and isinstance(again, list) and len(recorded) == len(again):
        for index, (one, other) in enumerate(zip(recorded, again, strict=True)):
            yield from differences(one, other, f"{path}[{index}]")
    elif recorded != again:
        yield f"{path}: {recorded!r} recorded, {again!r} computed"
