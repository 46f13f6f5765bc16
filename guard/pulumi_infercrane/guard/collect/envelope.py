"""Writing evidence: raw records and the envelope that vouches for them, complete or not at all."""

import hashlib
import json
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pulumi_infercrane.guard.collect.load import Comparison, Side
from pulumi_infercrane.guard.collect.target import CollectError
from pulumi_infercrane.guard.evidence.writing import file_entry, write_envelope
from pulumi_infercrane.guard.files import why, write_whole
from pulumi_infercrane.guard.times import format_time

TOOL = "infercrane"
TOOL_VERSION = "0.1"


@dataclass(frozen=True)
class Findings:
    """What a collector has to say about one side: header fields of its own and one record per request."""

    header: Mapping[str, Any]
    records: tuple[Mapping[str, Any], ...]


def write_evidence(
    out: Path,
    *,
    kind: str,
    comparison: Comparison,
    scenario: Mapping[str, Any],
    findings: Mapping[str, Findings],
    more: Mapping[str, Any] = MappingProxyType({}),
) -> list[Path]:
    """Write all sides below `out` and return the envelopes; `findings` is by role, `more` are further envelope fields.

    The envelopes come last, when everything they vouch for is on disk.

    Raises:
        CollectError: when the folder cannot be written.
    """
    try:
        raw = {role: _write_raw(out, kind, role, side, comparison, findings[role]) for role, side in comparison.sides}
        return [
            _write_envelope(
                raw[role],
                kind,
                {**_envelope(raw[role], kind, role, side, comparison, scenario, len(findings[role].records)), **more},
            )
            for role, side in comparison.sides
        ]
    except OSError as error:
        raise CollectError(f"{out}: evidence cannot be written: {why(error)}") from error


def _write_raw(out: Path, kind: str, role: str, side: Side, comparison: Comparison, findings: Findings) -> Path:
    folder = out / side.target.label
    folder.mkdir(parents=True, exist_ok=True)
    header = {
        "schema": f"infercrane.{kind}/v1",
        "tool_version": TOOL_VERSION,
        "revision_digest": side.target.revision_digest,
        "planned": len(findings.records),
        **findings.header,
        **_window(comparison),
    }
    path = _free_path(folder, f"{kind}-{role}-{_stamp(comparison.ended_at)}", f".{kind}.jsonl")
    write_whole(path, _json_lines([header, *findings.records]))
    return path


def _envelope(
    raw: Path, kind: str, role: str, side: Side, comparison: Comparison, scenario: Mapping[str, Any], planned: int
) -> dict[str, Any]:
    return {
        "schema": "infercrane.evidence/v1",
        "kind": kind,
        "role": role,
        "files": [_file(raw)],
        "subject": {**side.target.subject, "revision_digest": side.target.revision_digest},
        "scenario": {**scenario, "path": "replica-direct", "replicas": 1},
        "window": _window(comparison),
        "runner": {"host": _runner(), "clock_offset_ms": 0},
        "planned": {"requests": planned},
        "run": {"group": comparison.id, "ordinal": 1, "of": 1},
        "probes": {"before": side.before, "after": side.after},
    }


def _write_envelope(raw: Path, kind: str, envelope: dict[str, Any]) -> Path:
    path = raw.with_name(raw.name.removesuffix(f".{kind}.jsonl") + ".evidence.json")
    return write_envelope(path, envelope)


def _file(path: Path) -> dict[str, Any]:
    made_by = {"media": "application/jsonl", "tool": TOOL, "tool_version": TOOL_VERSION}
    return file_entry(path.name, path.read_bytes(), part="primary", **made_by)


def _window(comparison: Comparison) -> dict[str, str]:
    return {"started_at": format_time(comparison.started_at), "ended_at": format_time(comparison.ended_at)}


def _stamp(time: datetime) -> str:
    return time.strftime("%Y%m%dT%H%M%SZ")


def _runner() -> str:
    """The measuring machine, recognisable but not named."""
    return "host-" + hashlib.sha256(socket.gethostname().encode()).hexdigest()[:12]


def _json_lines(records: Iterable[Mapping[str, Any]]) -> bytes:
    return b"".join(json.dumps(record, separators=(",", ":")).encode() + b"\n" for record in records)


def _free_path(folder: Path, stem: str, suffix: str) -> Path:
    """Two runs may end within one second; none may replace the other."""
    path, number = folder / f"{stem}{suffix}", 1
    while path.exists():
        number += 1
        path = folder / f"{stem}-{number}{suffix}"
    return path
