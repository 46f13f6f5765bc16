"""The good files below `tests/guard/samples`, with the part of their envelope that is not the same for all."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SAMPLES = Path(__file__).parents[1] / "guard" / "samples"


@dataclass(frozen=True)
class Sample:
    tool: str
    head: Mapping[str, Any]
    parts: Mapping[str, bytes]


def samples_of(tool: str) -> Iterator[Sample]:
    """Those of the tool's `sample.json`, then every other file of its folder as the primary part of the first."""
    folder = SAMPLES / tool
    entries = json.loads((folder / "sample.json").read_text()) if folder.is_dir() else []
    used = {"sample.json"}
    for entry in entries:
        used |= set(entry["parts"].values())
        yield Sample(tool, _head(entry), {part: (folder / name).read_bytes() for part, name in entry["parts"].items()})
    for other in sorted(folder.glob("*")) if entries else ():
        if other.name not in used:
            yield Sample(tool, _head(entries[0]), {"primary": other.read_bytes()})


def _head(entry: Mapping[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = {
        name: entry[name] for name in ("kind", "tool_version", "select", "planned") if name in entry
    }
    return {**plain, **entry.get("envelope", {})}
