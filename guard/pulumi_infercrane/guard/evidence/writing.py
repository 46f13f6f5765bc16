"""Writing an envelope: sealed, whole or not there, never over another one."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pulumi_infercrane.guard.evidence.identity import seal
from pulumi_infercrane.guard.files import write_whole


def write_envelope(path: Path, envelope: Mapping[str, Any]) -> Path:
    """Seal an envelope and write it, when everything it vouches for is on disk.

    Raises:
        OSError: when it cannot be written.
        CanonicalError: when it has no canonical form.
    """
    write_whole(path, json.dumps(seal(envelope), indent=2).encode() + b"\n")
    return path


def file_entry(path: str, data: bytes, *, part: str, media: str, tool: str, tool_version: str) -> dict[str, Any]:
    """One entry of `files`; `path` is relative to the envelope's folder, `data` what is there."""
    return {
        "part": part,
        "path": path,
        "sha256": hashlib.sha256(data).hexdigest(),
        "size": len(data),
        "media": media,
        "tool": tool,
        "tool_version": tool_version,
    }
