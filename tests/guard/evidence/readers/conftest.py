"""Reading one file of a tool, as it is or with changes, through a sealed envelope."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pulumi_infercrane.guard import load_evidence


@pytest.fixture
def read(folder: Any, samples: Path) -> Callable[..., Any]:
    """`read("vllm-bench", "0.33.0", primary="ok.json")`: names are of samples, bytes and objects are content."""

    def content(tool: str, source: Any) -> Any:
        return (samples / tool / source).read_bytes() if isinstance(source, str) else source

    def reading(tool: str, version: str, envelope: dict[str, Any] | None = None, **parts: Any) -> Any:
        files = {part: content(tool, source) for part, source in parts.items()}
        folder.measured("candidate", tool, version, files, name="run", **(envelope or {}))
        (item,) = load_evidence(folder.root).items
        return item

    return reading


@pytest.fixture
def document(samples: Path) -> Callable[..., Any]:
    """A sample as an object, with changes of its top level; a change to None removes the key."""

    def loaded(tool: str, name: str, **changes: Any) -> Any:
        found = json.loads((samples / tool / name).read_text()) | changes
        return {key: value for key, value in found.items() if key not in changes or value is not None}

    return loaded
