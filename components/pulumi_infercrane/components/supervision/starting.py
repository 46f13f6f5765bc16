"""Starts supervised processes. One name in one place is at most one process.

Everything here blocks; call it from a thread.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, NoReturn

from pulumi_infercrane.components.errors import ComponentError
from pulumi_infercrane.components.supervision import ports, supervisor
from pulumi_infercrane.components.supervision.files import folder_of, locked
from pulumi_infercrane.components.supervision.observing import Snapshot, observe, read_record
from pulumi_infercrane.components.supervision.stopping import finish

PORT_TOKEN = "{port}"  # noqa: S105 - a placeholder
KEPT_ENVIRONMENT = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER")
"""What a process inherits. Everything else is given by name, so that a stray variable cannot change a revision."""
LOG_BYTES = 16 * 1024 * 1024
LAUNCH_TIMEOUT_S = 30.0
STOP_MARGIN_S = 5.0


class ProcessNotStarted(ComponentError):
    """The command could not be executed."""

    code = "process_not_started"


class ProcessDiffers(ComponentError):
    """A process of that name runs with another specification."""

    code = "process_differs"


class PortTaken(ComponentError):
    """Somebody else listens on the port asked for."""

    code = "port_taken"


@dataclass(frozen=True)
class Specification:
    """What to run. Two specifications with the same digest are the same process."""

    name: str
    place: Path
    argv: tuple[str, ...]
    """Arguments, program first; `{port}` in them stands for the port."""
    env: Mapping[str, str]
    host: str
    port: int
    """0 = any free one; the choice is kept over restarts."""
    stop_grace_s: float
    max_restarts: int
    """How many crashes within `window_s` are answered with a restart."""
    window_s: float
    backoff_s: float
    """Pause before the first restart; it doubles with every further crash in the window."""

    @property
    def folder(self) -> Path:
        return folder_of(self.place, self.name)

    @property
    def needs_port(self) -> bool:
        return self.port != 0 or any(PORT_TOKEN in part for part in self.argv)

    @property
    def digest(self) -> str:
        """Over everything but name and place."""
        content = [list(self.argv), dict(self.env), self.host, self.port]
        bounds = [self.stop_grace_s, self.max_restarts, self.window_s, self.backoff_s]
        return "sha256:" + sha256(json.dumps([content, bounds], sort_keys=True).encode()).hexdigest()


def ensure(specification: Specification) -> tuple[Snapshot, bool]:
    """The running process of this specification, and whether this call started it.

    A process whose supervisor was killed is taken over by a new one, not restarted.

    Raises:
        ProcessDiffers, PortTaken, ProcessNotStarted, ProcessBusy
    """
    folder = specification.folder
    with locked(folder):
        seen = observe(folder)
        if seen is not None and seen.state == "stopping":
            finish(folder)
            seen = observe(folder)
        if seen is None or not seen.alive:
            port = _choose_port(specification, seen)
            _clean(folder)
            _launch(specification, port, adopt=None)
            return _observed(folder), True
        if seen.digest != specification.digest:
            raise ProcessDiffers(_difference(specification))
        if seen.state == "unsupervised":
            _launch(specification, seen.port, adopt=_record(folder)["child"])
        return _observed(folder), False


def _difference(specification: Specification) -> str:
    supervisor_pid = _record(specification.folder)["supervisor"]["pid"]
    return (
        f"process {specification.name} already runs in {specification.folder} with another specification: "
        f"give the new one another name, or stop the old one with `kill {supervisor_pid}` (its supervisor)"
    )


def find_program(program: str) -> str | None:
    """Absolute path of an executable; names without a slash are looked up on PATH."""
    return shutil.which(program) if "/" not in program or program.startswith("/") else None


def log_text(folder: Path, limit: int = 256 * 1024) -> str:
    """The end of the log, at most `limit` bytes."""
    try:
        with (folder / supervisor.LOG).open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - limit))
            return log.read().decode("utf-8", errors="replace")
    except OSError:
        return ""


def _observed(folder: Path) -> Snapshot:
    return observe(folder) or _lost(folder)


def _record(folder: Path) -> dict[str, Any]:
    return read_record(folder) or _lost(folder)


def _lost(folder: Path) -> NoReturn:
    raise ProcessNotStarted(f"{folder / supervisor.STATE} disappeared while the process was started")


def _choose_port(specification: Specification, seen: Snapshot | None) -> int:
    if not specification.needs_port:
        return 0
    host, wanted = specification.host, specification.port
    if wanted == 0:
        earlier = seen.port if seen else 0
        return earlier if earlier and ports.is_free(host, earlier) else ports.free_port(host)
    if not ports.is_free(host, wanted):
        by = ports.holder(wanted) or "a process of another user"
        raise PortTaken(f"{host}:{wanted} is taken by {by}: stop it, or give {specification.name} another port")
    return wanted


def _clean(folder: Path) -> None:
    """Make the folder ready for a new start; the log of the last one stays beside the new one."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    log = folder / supervisor.LOG
    if log.exists():
        log.replace(folder / supervisor.OLDER_LOG)


def _launch(specification: Specification, port: int, *, adopt: Mapping[str, Any] | None) -> None:
    request = {
        "folder": str(specification.folder),
        "argv": [part.replace(PORT_TOKEN, str(port)) for part in specification.argv],
        "env": _environment(specification.env),
        "digest": specification.digest,
        "port": port,
        "stop_grace_s": specification.stop_grace_s,
        "max_restarts": specification.max_restarts,
        "window_s": specification.window_s,
        "backoff_s": specification.backoff_s,
        "log_bytes": LOG_BYTES,
        "adopt": adopt,
    }
    launched = subprocess.run(
        [sys.executable, "-I", "-S", supervisor.__file__],
        input=json.dumps(request),
        env=_environment({}),
        cwd="/",
        capture_output=True,
        text=True,
        timeout=LAUNCH_TIMEOUT_S,
        check=False,
    )
    if launched.returncode != 0:
        raise ProcessNotStarted(f"{specification.name}: {launched.stderr.strip() or launched.returncode}")


def _environment(given: Mapping[str, str]) -> dict[str, str]:
    kept = {name: os.environ[name] for name in KEPT_ENVIRONMENT if name in os.environ}
    return kept | dict(given)
