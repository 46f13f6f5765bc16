"""Seeds in formats of our own: small evidence of all five kinds, written by the builders of the tests."""

import functools
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.guard.conftest import Folder

LINES = 12
"""Enough for every shape of line; long files are slow."""


@functools.cache
def evidence(role: str = "candidate") -> dict[str, bytes]:
    """Name and content of every file of a small evidence folder."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Folder(Path(scratch))
        folder.benchmark(role, folder.seconds(LINES), failed=2)
        folder.quality(role, (1.0, 0.0, 0.5) * 4)
        folder.replay(role, LINES)
        folder.reliability(role, LINES, failed=1)
        folder.cost(role, n=LINES)
        return {path.name: path.read_bytes() for path in sorted(Path(scratch).iterdir())}


def every_kind() -> Iterator[tuple[dict[str, Any], list[bytes]]]:
    """Head and parts of one file of each kind."""
    for name, content in evidence().items():
        if name.endswith(".evidence.json"):
            envelope = json.loads(content)
            (file,) = envelope["files"]
            head = {"kind": envelope["kind"], "tool_version": "0.1", "planned": envelope["planned"]["requests"]}
            head |= {"parts": ["primary"], "window": envelope["window"]}
            yield head, [evidence()[file["path"]]]
