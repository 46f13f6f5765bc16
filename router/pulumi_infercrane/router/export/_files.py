"""The folder of an exported proxy: files replaced one by one in whole, with a record of what they are."""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pulumi_infercrane.router.errors import ExportRefused
from pulumi_infercrane.router.tables.table import RouteTable

RECORD = "infercrane.json"
SCHEMA = "infercrane.export/v1"
_LARGEST = 4 * 1024 * 1024


def record(target: str, table: RouteTable, files: Mapping[str, bytes], *, delivered: bool) -> bytes:
    """Which table the files say: service, generation, decision, digests; and whether that came to an end."""
    document = {
        "schema": SCHEMA,
        "target": target,
        "service": table.service,
        "generation": str(table.generation),
        "decision_id": table.decision_id,
        "digest": table.digest,
        "delivered": delivered,
        "files": {name: f"sha256:{hashlib.sha256(content).hexdigest()}" for name, content in sorted(files.items())},
    }
    return json.dumps(document, indent=2).encode() + b"\n"


def read_folder(folder: Path, target: str, table: RouteTable) -> tuple[dict[str, bytes], bool]:
    """What was exported here before, and whether that was delivered; nothing when the folder is new or empty.

    Raises:
        ExportRefused: the folder is of another target or service, of a newer generation, or not ours.
    """
    before = _read_record(folder)
    if before is None:
        return {}, False
    if (before["target"], before["service"]) != (target, table.service):
        raise ExportRefused(f"{folder} holds {before['service']} for {before['target']}: take another folder")
    if int(before["generation"]) > table.generation:
        raise ExportRefused(f"{folder} holds generation {before['generation']}, this table is {table.generation}")
    files = {name: content for name in before["files"] if (content := _read(folder / _inside(name))) is not None}
    return files, before["delivered"] is True


def _read_record(folder: Path) -> dict[str, Any] | None:
    content = _read(folder / RECORD)
    if content is None:
        if folder.is_dir() and any(folder.iterdir()):
            raise ExportRefused(f"{folder} is not empty and was not written by an export: take another folder")
        return None
    try:
        document = json.loads(content)
        names = {"target", "service", "generation", "files", "delivered"}
        if document["schema"] == SCHEMA and names <= document.keys() and int(document["generation"]) > 0:
            return dict(document)
    except (ValueError, TypeError, KeyError, AttributeError):
        pass
    raise ExportRefused(f"{folder / RECORD} cannot be read: remove it to write the folder anew")


def _inside(name: str) -> str:
    if "/" in name or name in ("", ".", ".."):
        raise ExportRefused(f"{RECORD} names {name!r}, which is not a file of its folder")
    return name


def _read(path: Path) -> bytes | None:
    try:
        with path.open("rb") as file:
            return file.read(_LARGEST)
    except FileNotFoundError:
        return None


def changed(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> Iterator[str]:
    """Names whose content is new, in the order of `after`."""
    return (name for name, content in after.items() if before.get(name) != content)


def replace_file(folder: Path, name: str, content: bytes) -> None:
    """Write beside, synchronise, rename: a proxy that watches sees the whole file or the one before."""
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f".{name}.tmp"
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(folder / name)
