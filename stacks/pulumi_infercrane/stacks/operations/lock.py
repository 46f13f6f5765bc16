"""One operation at a time per stack and backend: an flock that lives as long as any process holding its descriptor."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from pulumi_infercrane.guard.files import why
from pulumi_infercrane.stacks.errors import StackBusy, StateUnusable


@contextmanager
def stack_lock(folder: Path, what: str) -> Iterator[int]:
    """Hold the lock of `folder` and yield its descriptor, to be passed on to every child that touches the stack.

    The file is never deleted (that would split the lock) and never unlocked explicitly: unlocking any copy of the
    descriptor would free it for all holders. Closing the last copy does.

    Raises:
        StackBusy: naming the holder.
        StateUnusable: the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(folder / "stack.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StateUnusable(f"{folder}: {why(error)}: set INFERCRANE_STATE_DIR to a folder of yours") from error
    try:
        _acquire(descriptor, folder)
        _announce(folder, what)
        yield descriptor
    finally:
        os.close(descriptor)


def _acquire(descriptor: int, folder: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise StackBusy(f"another operation holds this stack: {_holder(folder)}; wait for it to end") from error


def _announce(folder: Path, what: str) -> None:
    """For people only; the lock itself is what counts."""
    holder = {"pid": os.getpid(), "what": what, "since": datetime.now(UTC).isoformat(timespec="seconds")}
    (folder / "holder.json").write_text(json.dumps(holder), encoding="utf-8")


def _holder(folder: Path) -> str:
    try:
        holder = json.loads((folder / "holder.json").read_text(encoding="utf-8"))
        return f"{holder['what']} (pid {holder['pid']}, since {holder['since']})"
    except (OSError, ValueError, KeyError):
        return "unknown"
