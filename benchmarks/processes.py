"""Programs that are measured: started on certain cores with all they start; what they use; ended with all of it."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

STOP_S = 10

PIN = """
import os, resource, sys
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
os.sched_setaffinity(0, map(int, sys.argv[1].split(",")))
os.execvp(sys.argv[2], sys.argv[2:])
"""


def start(
    command: Sequence[str | Path],
    cores: Sequence[int],
    output: int | IO[bytes] = subprocess.DEVNULL,
    environment: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Pinned before it begins, so that every thread and child of it stays there; in a process group of its own."""
    pinned = [sys.executable, "-c", PIN, ",".join(map(str, cores)), *map(str, command)]
    errors = None if output in (subprocess.DEVNULL, subprocess.PIPE) else output
    return subprocess.Popen(
        pinned, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, env=environment, start_new_session=True
    )


@contextmanager
def running(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """Asked to end at the end; what is left of its group is killed."""
    try:
        yield process
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_S)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def tree(pid: int) -> list[int]:
    """A process and all that descend from it."""
    found = [pid]
    for one in found:  # grows on the way
        for children in Path(f"/proc/{one}/task").glob("*/children"):
            found += map(int, _read(children).split())
    return found


def tasks(pid: int) -> list[Path]:
    """The folders of all threads of a process and of what it started; none of one that has ended."""
    return [task for one in tree(pid) for task in Path(f"/proc/{one}/task").glob("*")]


def cpu_s(pid: int) -> float:
    """Processor time of them, to the nanosecond."""
    return sum(int((_read(task / "schedstat") or "0").split()[0]) for task in tasks(pid)) / 1e9


def memory_mib(pid: int) -> float:
    """Resident, of a process and of what it started."""
    pages = sum(int((_read(Path(f"/proc/{one}/statm")) or "0 0").split()[1]) for one in tree(pid))
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def strays(pid: int, cores: Sequence[int]) -> set[int]:
    """Cores that a thread of it may run on, though it was not given them."""
    allowed: set[int] = set()
    for task in tasks(pid):
        with suppress(ProcessLookupError):
            allowed |= os.sched_getaffinity(int(task.name))
    return allowed - set(cores)


def machine_busy_s() -> float:
    """Processor time of everybody."""
    user, nice, system, _, _, irq, soft, steal = map(int, Path("/proc/stat").read_text().split("\n")[0].split()[1:9])
    return (user + nice + system + irq + soft + steal) / os.sysconf("SC_CLK_TCK")


def _read(path: Path) -> str:
    """Empty when the process has ended."""
    try:
        return path.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
