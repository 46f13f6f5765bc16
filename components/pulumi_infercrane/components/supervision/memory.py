"""How often the kernel killed for lack of memory in the control group of a process.

The count is of the group: a replica that shares it with others shares their kills.
"""

import re
from pathlib import Path

PROC = Path("/proc")
GROUPS = Path("/sys/fs/cgroup")

_KILLS = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)


def oom_kills(pid: int) -> int | None:
    """Kills so far in the group of process `pid` and the groups below it; None where the kernel does not count them."""
    try:
        groups = (PROC / str(pid) / "cgroup").read_text(encoding="ascii").splitlines()
        counted = next(_KILLS.search(file.read_text(encoding="ascii")) for file in _files(groups))
    except (OSError, ValueError, StopIteration):
        return None
    return int(counted[1]) if counted else None


def _files(groups: list[str]) -> list[Path]:
    """Where the memory controller counts: in its own hierarchy (version 1) where there is one, else in the only one."""
    found = [line.split(":", 2) for line in groups]
    own = [GROUPS / "memory" / path.lstrip("/") / "memory.oom_control" for _, names, path in found if names == "memory"]
    return own or [GROUPS / path.lstrip("/") / "memory.events" for number, _, path in found if number == "0"]
