"""Files that survive a crash: replaced in one step, what was there kept.

Killed at any point, a restart finds the old content or the new, whole.
"""

import os
from pathlib import Path


def replace(current: Path, content: bytes, previous: Path) -> None:
    """Write `content` to `current`, and what was there to `previous`; returns when it is on disk.

    Raises:
        OSError: `current` is as it was.
    """
    temporary = current.with_suffix(".tmp")
    _write_synced(temporary, content)
    _keep(current, previous)
    temporary.replace(current)
    sync(current.parent)


def sync(directory: Path) -> None:
    """Make renamed and removed entries durable."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _keep(current: Path, previous: Path) -> None:
    if not current.exists():
        return
    link = current.with_suffix(".link.tmp")
    link.unlink(missing_ok=True)
    os.link(current, link)
    link.replace(previous)


def _write_synced(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
