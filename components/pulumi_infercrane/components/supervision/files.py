"""Where a supervised process keeps its files, and the lock that orders those who change it."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pulumi_infercrane.components.errors import ComponentError

LOCK_TIMEOUT_S = 120.0
LOCK_POLL_S = 0.05


class ProcessBusy(ComponentError):
    """Another command is starting or stopping the same process."""

    code = "process_busy"


def folder_of(place: Path, name: str) -> Path:
    """Folder of the process `name` in the place of a stack."""
    return place / "processes" / name


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the process's lock; it lies beside the folder and goes with it.

    Raises:
        ProcessBusy: when somebody else holds it for two minutes.
    """
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder.with_name(f".{folder.name}.lock")
    give_up = time.monotonic() + LOCK_TIMEOUT_S
    while (lock := _try_lock(path)) is None:
        if time.monotonic() > give_up:
            raise ProcessBusy(f"{path} is held by another command: wait for it, or find it with `fuser {path}`")
        time.sleep(LOCK_POLL_S)
    try:
        yield
        if not folder.exists():
            path.unlink(missing_ok=True)
    finally:
        os.close(lock)


def _try_lock(path: Path) -> int | None:
    """Descriptor of the locked file; `None` when it is held, or was removed before we had it."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if path.exists() and os.fstat(lock).st_ino == path.stat().st_ino:
            return lock
    except BlockingIOError:
        pass
    os.close(lock)
    return None
