"""Files of other tools, offered as evidence and loaded as a decision would; and decisions on them."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pulumi_infercrane.guard import load_evidence

SAMPLES = Path(__file__).parents[2] / "samples"


def offer(
    folder: Any,
    tool: str,
    kind: str,
    parts: Mapping[str, str | bytes],
    *,
    role: str = "candidate",
    tool_version: str = "1.0",
    select: dict[str, Any] | None = None,
    envelope: Mapping[str, Any] | None = None,
    tools: Mapping[str, str] | None = None,
) -> Any:
    """The loaded piece. A part is a file name below its tool's samples, or bytes; `tools` names other parts' tools."""

    def change(document: dict[str, Any]) -> None:
        for file in document["files"]:
            file["tool"] = (tools or {}).get(file["part"], tool)
        document.update(envelope or {})

    contents = {
        part: one if isinstance(one, bytes) else (SAMPLES / tool / one).read_bytes() for part, one in parts.items()
    }
    path = folder.measured(role, tool, tool_version, contents, kind, select=select, change=change)
    return next(item for item in load_evidence(folder.root).items if item.path == path.name)


def sample(tool: str, name: str) -> Any:
    """A sample as parsed JSON."""
    return json.loads((SAMPLES / tool / name).read_bytes())


def changed(tool: str, name: str, change: Callable[[Any], object]) -> bytes:
    """A sample after `change(document)`."""
    document = sample(tool, name)
    change(document)
    return json.dumps(document).encode()


def decision(folder: Any, *rules: str, kind: str = "benchmark", head: str = "", **changes: Any) -> Any:
    """The decision on what was offered, however short it was measured, by these rules alone."""
    lines = "".join(f"  - {{{rule}}}\n" for rule in rules)
    policy = f"schema: infercrane.policy/v1\nrequired_kinds: [{kind}]\nmin_duration_s: 0\n{head}rules:\n{lines}"
    return folder.decide(policy=policy, **changes)


def judged(found: Any, rule: str) -> tuple[Any, ...]:
    """Outcome, reasons, bounds and numbers of one rule."""
    (record,) = [one for one in found.record["rules"] if one["rule"] == rule]
    return tuple(record.get(name) for name in ("outcome", "reasons", "lo", "hi", "n"))
