"""Stops supervised processes, and removes what they leave.

Everything here blocks; call it from a thread.
"""

import contextlib
import os
import select
import shutil
import signal
from pathlib import Path

from pulumi_infercrane.components.supervision import supervisor
from pulumi_infercrane.components.supervision.files import locked
from pulumi_infercrane.components.supervision.observing import exists, read_record

STOP_MARGIN_S = 5.0
"""What a supervisor may need beyond the grace period of its process."""


def stop(folder: Path) -> None:
    """Stop the process gracefully, by force after its grace period. Does nothing when it is not running."""
    if not folder.exists():
        return
    with locked(folder):
        finish(folder)


def stop_all(place: Path) -> None:
    """Stop every process of a place, one after the other."""
    for folder in sorted((place / "processes").glob("*/")):
        stop(folder)


def remove(folder: Path) -> None:
    """Stop the process and remove its files, except the last log."""
    if not folder.exists():
        return
    with locked(folder):
        finish(folder)
        for path in folder.iterdir():
            if path.name != supervisor.LOG:
                _delete(path)
        if not any(folder.iterdir()):
            folder.rmdir()


def finish(folder: Path) -> None:
    """Stop the process; the caller holds the lock."""
    record = read_record(folder)
    if record is None:
        return
    grace_s = record["stop_grace_s"]
    if exists(record, "supervisor"):
        _end(record["supervisor"]["pid"], grace_s + STOP_MARGIN_S)
        record = read_record(folder) or record
    if exists(record, "child"):
        _end(record["child"]["pid"], grace_s)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(record["child"]["pid"], signal.SIGKILL)


def _end(pid: int, patience_s: float) -> None:
    """Ask a process to end; end it by force when that takes longer than `patience_s`."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(handle, signal.SIGTERM)
        if not select.select([handle], [], [], patience_s)[0]:
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            select.select([handle], [], [], STOP_MARGIN_S)
    os.close(handle)


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
