"""What a supervised process is doing: its record, checked against the processes that exist."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pulumi_infercrane.components.supervision.supervisor import STATE, boot_id, start_time

ALIVE = ("starting", "running", "backoff", "stopping", "unsupervised")


@dataclass(frozen=True)
class Snapshot:
    """What is known about a process at one moment."""

    state: str
    """Alive: `starting`, `running`, `backoff` (between crash and restart), `stopping`, `unsupervised` (its
    supervisor was killed). Not alive: `failed` (crashed too often), `stopped`."""
    digest: str
    port: int
    pid: int | None
    started_at: float | None
    """Unix time of the last start."""
    restarts: int
    last_exit: Mapping[str, Any] | None
    """`code` (negative for a signal, `None` when unknown) and `at` (Unix time) of the last exit."""
    reason: str

    @property
    def alive(self) -> bool:
        return self.state in ALIVE


def observe(folder: Path) -> Snapshot | None:
    """The process of this folder; `None` when none was ever started in it."""
    record = read_record(folder)
    if record is None:
        return None
    return Snapshot(
        state=_state(record),
        digest=record["digest"],
        port=record["port"],
        pid=record["child"]["pid"] if exists(record, "child") else None,
        started_at=record["started_at"],
        restarts=record["restarts"],
        last_exit=record["last_exit"],
        reason=record["reason"],
    )


def read_record(folder: Path) -> dict[str, Any] | None:
    """The supervisor's `state.json`; `None` when there is none."""
    try:
        record: dict[str, Any] = json.loads((folder / STATE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return record


def exists(record: Mapping[str, Any], role: str) -> bool:
    """Whether the very process recorded as `supervisor` or `child` runs: same boot, same pid, same start."""
    identity = record[role]
    if not identity or record["boot_id"] != boot_id():
        return False
    return bool(start_time(identity["pid"]) == identity["start_time"])


def _state(record: Mapping[str, Any]) -> str:
    if exists(record, "supervisor"):
        return str(record["state"])
    if exists(record, "child"):
        return "unsupervised"
    return "failed" if record["state"] == "failed" else "stopped"
