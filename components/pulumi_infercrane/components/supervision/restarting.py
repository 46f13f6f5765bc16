"""Restarts a supervised process on purpose: the same command on the same port, and no crash.

Everything here blocks; call it from a thread.
"""

import contextlib
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pulumi_infercrane.components.errors import ComponentError
from pulumi_infercrane.components.supervision.files import locked
from pulumi_infercrane.components.supervision.observing import exists, read_record

MARGIN_S = 5.0
"""What a supervisor may need beyond the grace period of its process."""
POLL_S = 0.01


class ProcessNotRestarted(ComponentError):
    """There is nothing to restart, or it was not."""

    code = "process_not_restarted"


def restart(folder: Path) -> float:
    """End the process gracefully, by force after its grace period, and start it again; Unix time of the start.

    Raises:
        ProcessNotRestarted, ProcessBusy
    """
    with locked(folder):
        record = _restartable(folder)
        _hang_up(record["supervisor"]["pid"])
        give_up = time.monotonic() + record["stop_grace_s"] + MARGIN_S
        while time.monotonic() < give_up:
            time.sleep(POLL_S)
            now = read_record(folder) or record
            if now["state"] == "running" and now["child"] != record["child"]:
                return float(now["started_at"])
            if now["state"] == "failed":
                raise ProcessNotRestarted(f"{folder.name}: {now['reason']}")
    raise ProcessNotRestarted(f"{folder.name}: its supervisor did not start it again, see {folder}")


def _restartable(folder: Path) -> Mapping[str, Any]:
    record = read_record(folder)
    if record is None or not exists(record, "supervisor") or not exists(record, "child"):
        raise ProcessNotRestarted(f"{folder.name} is not running under supervision: run `infercrane up` first")
    if not record.get("restarts_on_hangup"):
        raise ProcessNotRestarted(f"{folder.name}: its supervisor is of an earlier version; stop it and deploy again")
    return record


def _hang_up(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        handle = os.pidfd_open(pid)
        try:
            signal.pidfd_send_signal(handle, signal.SIGHUP)
        finally:
            os.close(handle)
