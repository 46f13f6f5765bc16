"""A running proxy, found by the files it keeps in its folder, without ever signalling anybody else's process."""

import os
import signal
import socket
from pathlib import Path

from pulumi_infercrane.router.errors import ExportNotLive

_ANSWER_S = 5.0
_CHUNK = 65_536


def running(pid_file: Path, words: tuple[str, ...]) -> int | None:
    """The process of a pid file, if its command line has all the words: pids are given out again."""
    try:
        pid = int(pid_file.read_text())
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except (OSError, ValueError):
        return None
    return pid if all(word in command for word in words) else None


def signal_to(pid: int, number: signal.Signals) -> None:
    """Send a signal.

    Raises:
        ExportNotLive: not allowed to, or the process is gone.
    """
    try:
        os.kill(pid, number)
    except OSError as error:
        raise ExportNotLive(f"process {pid} cannot be told: {error.strerror}") from error


def ask(path: Path, message: bytes) -> bytes | None:
    """What a server on a Unix socket answers until it closes; None when nobody listens.

    Raises:
        ExportNotLive: it listens, but the exchange breaks or takes longer than 5 s.
    """
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_ANSWER_S)
        try:
            connection.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError):
            return None
        except OSError as error:
            raise ExportNotLive(f"{path}: {error}") from error
        try:
            connection.sendall(message)
            return b"".join(iter(lambda: connection.recv(_CHUNK), b""))
        except OSError as error:
            raise ExportNotLive(f"{path}: {error}") from error
