"""The supervisor program: keeps one command running, in a session of its own.

Started as a file and with nothing but the standard library, because it stays resident beside every process and has
to survive an upgrade of this package. The specification comes on stdin as one JSON object, so that secrets in the
environment of the command are never written to disk:

    {"folder", "argv", "env", "digest", "port", "stop_grace_s", "max_restarts", "window_s", "backoff_s",
     "log_bytes", "adopt": null | {"pid", "start_time"}}

What happens is written to `state.json` in the folder. SIGTERM stops the command and then the supervisor; SIGHUP stops
the command and starts it again. An exit nobody asked for is a crash, exit code 0 included.
"""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

STATE = "state.json"
LOG = "output.log"
OLDER_LOG = "output.log.1"
OWN_LOG = "supervisor.log"
HOUSEKEEPING_S = 2.0
MAX_BACKOFF_S = 30.0


def boot_id() -> str:
    """Identifies the running kernel; pids and start times of an earlier boot mean nothing."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def start_time(pid: int) -> int | None:
    """When process `pid` started, in clock ticks since boot; `None` when it is gone or a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def write_atomically(path: Path, content: dict[str, Any]) -> None:
    """Replace `path` so that a reader, or a crash, finds the old or the new content and nothing between."""
    fresh = path.with_name(path.name + ".new")
    with fresh.open("w", encoding="utf-8") as file:
        json.dump(content, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


class Supervisor:
    """Runs the command of one specification until told to stop or until it has crashed too often."""

    def __init__(self, specification: dict[str, Any]) -> None:
        self._spec = specification
        self._folder = Path(specification["folder"])
        self._child: subprocess.Popen[bytes] | None = None
        self._group = 0
        self._handle = -1
        self._crashes: list[float] = []
        self._state: dict[str, Any] = {
            "schema": "infercrane.process/v1",
            "state": "starting",
            "digest": specification["digest"],
            "port": specification["port"],
            "stop_grace_s": specification["stop_grace_s"],
            "restarts_on_hangup": True,
            "boot_id": boot_id(),
            "supervisor": {"pid": os.getpid(), "start_time": start_time(os.getpid())},
            "child": None,
            "started_at": None,
            "restarts": 0,
            "last_exit": None,
            "reason": "",
        }
        self._wake, self._waker = os.pipe()

    def start(self) -> None:
        """Start the command, or take over the one named in the specification.

        Raises:
            OSError: when the command cannot be executed, or is gone already.
        """
        os.set_blocking(self._waker, False)
        signal.set_wakeup_fd(self._waker)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: None)
        adopted = self._spec["adopt"]
        if adopted is None:
            self._spawn()
        else:
            self._watch(adopted["pid"])

    def run(self) -> None:
        """Return when the command is gone for good."""
        while True:
            asked = self._asked_before_exit()
            if asked == signal.SIGHUP:
                self._end_command("starting")
            elif asked:
                return self._end_command("stopped")
            elif not self._goes_on_after_crash():
                return None
            try:
                self._spawn()
            except OSError as error:
                return self._record(state="failed", reason=f"not startable any more: {error}")

    def abandon(self) -> None:
        """Leave nothing running when the start failed half-way."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()

    def _spawn(self) -> None:
        """The command leads a process group, so that a forced stop reaches everything it started."""
        with (self._folder / LOG).open("ab") as log:
            self._child = subprocess.Popen(
                self._spec["argv"],
                env=self._spec["env"],
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._watch(self._child.pid)

    def _watch(self, pid: int) -> None:
        self._handle, self._group = os.pidfd_open(pid), pid
        child = {"pid": pid, "start_time": start_time(pid)}
        self._record(state="running", child=child, started_at=time.time())

    def _asked_before_exit(self) -> int:
        """The signal that came while the command ran; 0 when it ended by itself."""
        while not (asked := self._signal(HOUSEKEEPING_S, self._handle)):
            if self._exited(0):
                return 0
            self._bound_log()
        return asked

    def _signal(self, seconds: float, *others: int) -> int:
        """The first signal not yet heeded; 0 when none came in `seconds`, or before one of `others` was readable."""
        readable = select.select([self._wake, *others], [], [], seconds)[0]
        return os.read(self._wake, 1)[0] if self._wake in readable else 0

    def _exited(self, seconds: float) -> bool:
        return bool(select.select([self._handle], [], [], seconds)[0])

    def _goes_on_after_crash(self) -> bool:
        """Wait before the next start, unless it crashed too often or is stopped meanwhile."""
        now = time.monotonic()
        self._crashes = [at for at in self._crashes if now - at < self._spec["window_s"]] + [now]
        last_exit = {"code": self._collect(), "at": time.time()}
        self._record(state="backoff", child=None, last_exit=last_exit)
        if len(self._crashes) > self._spec["max_restarts"]:
            reason = f"crashed {len(self._crashes)} times in {self._spec['window_s']:g} s"
            self._record(state="failed", reason=reason)
            return False
        if self._signal(self._delay_s()) not in (0, signal.SIGHUP):
            self._record(state="stopped")
            return False
        self._record(restarts=self._state["restarts"] + 1)
        return True

    def _delay_s(self) -> float:
        delay: float = self._spec["backoff_s"] * 2 ** (len(self._crashes) - 1)
        return min(MAX_BACKOFF_S, delay)

    def _end_command(self, then: str) -> None:
        """Ask the command to end; after the grace period end its whole group by force."""
        self._record(state="stopping")
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, signal.SIGTERM)
        self._exited(self._spec["stop_grace_s"])
        last_exit = {"code": self._collect(), "at": time.time()}
        self._record(state=then, child=None, last_exit=last_exit)

    def _collect(self) -> int | None:
        """Exit code, negative for a signal; `None` for an adopted command. Nothing of its group is left."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._group, signal.SIGKILL)
        os.close(self._handle)
        code = None if self._child is None else self._child.wait()
        self._child = None
        return code

    def _bound_log(self) -> None:
        """Copy a full log aside and empty it in place: the command keeps its descriptor, opened for appending."""
        log, limit = self._folder / LOG, self._spec["log_bytes"]
        size = log.stat().st_size if log.exists() else 0
        if size <= limit:
            return
        with log.open("rb") as full:
            full.seek(size - limit)
            (self._folder / OLDER_LOG).write_bytes(full.read(limit))
        os.truncate(log, 0)

    def _record(self, **changes: Any) -> None:
        self._state |= changes
        write_atomically(self._folder / STATE, self._state)


def main() -> None:
    """Detach and supervise. The process that was started ends once the command runs, or says why it does not."""
    specification = json.load(sys.stdin)
    os.umask(0o077)
    ready, report = os.pipe()
    if os.fork() != 0:
        os.close(report)
        with os.fdopen(ready, encoding="utf-8") as answer:
            sys.exit(answer.read() or None)
    os.setsid()
    supervisor = Supervisor(specification)
    try:
        supervisor.start()
    except OSError as error:
        supervisor.abandon()
        os.write(report, f"{error.strerror}: {error.filename or specification['argv'][0]}".encode())
        sys.exit(1)
    _leave_streams(Path(specification["folder"]))
    os.close(report)
    supervisor.run()


def _leave_streams(folder: Path) -> None:
    """Let go of the starter's pipes; a defect of this program leaves its trace in a file."""
    nothing = os.open(os.devnull, os.O_RDWR)
    own_log = os.open(folder / OWN_LOG, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for stream, target in ((0, nothing), (1, nothing), (2, own_log)):
        os.dup2(target, stream)


if __name__ == "__main__":
    main()
