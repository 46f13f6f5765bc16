"""Loopback ports: a free one, and who holds one that is not."""

import random
import socket
from pathlib import Path

LISTENING = "0A"
EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
LOWEST, TRIES = 20_000, 100


def free_port(host: str = "127.0.0.1") -> int:
    """A port nobody listens on at the moment.

    It lies below the range the kernel gives to outgoing connections and to servers that name no port: one of
    those would sooner or later hold the port of a process that is being started again.
    """
    below = range(LOWEST, _first_ephemeral())
    for port in random.sample(below, min(TRIES, len(below))):
        if is_free(host, port):
            return port
    with socket.socket() as probe:
        probe.bind((host, 0))
        chosen: int = probe.getsockname()[1]
        return chosen


def is_free(host: str, port: int) -> bool:
    """Whether a server could listen on the port now; connections of an earlier one do not count."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True


def holder(port: int) -> str:
    """ "pid 123 (llama-server)" when one of our own processes listens on the port, else ""."""
    inodes = _listening_inodes(port)
    for process in Path("/proc").glob("[0-9]*"):
        if inodes & _socket_inodes(process):
            return f"pid {process.name} ({_command_name(process)})"
    return ""


def _first_ephemeral() -> int:
    """Where the kernel's own range begins; LOWEST where it cannot be read."""
    try:
        return max(LOWEST, int(EPHEMERAL.read_text(encoding="ascii").split()[0]))
    except (OSError, ValueError, IndexError):
        return LOWEST


def _listening_inodes(port: int) -> set[str]:
    found = set()
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        for line in table.read_text(encoding="ascii").splitlines()[1:] if table.exists() else ():
            fields = line.split()
            if fields[3] == LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                found.add(fields[9])
    return found


def _socket_inodes(process: Path) -> set[str]:
    """Sockets of a process; empty for one that is gone or not ours to look at."""
    found = set()
    try:
        for descriptor in (process / "fd").iterdir():
            target = str(descriptor.readlink())
            if target.startswith("socket:["):
                found.add(target[8:-1])
    except OSError:
        return found
    return found


def _command_name(process: Path) -> str:
    try:
        return (process / "comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return "gone meanwhile"
