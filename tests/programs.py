"""Programs of others that tests start: found on PATH, or installed once where that is possible."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

LOCK_SECONDS = 120
PLACES = os.pathsep.join(("/usr/sbin", "/usr/local/sbin"))
"""Where Debian puts servers, which is not on everybody's PATH."""


class ProgramMissing(Exception):
    """There is no such program, and none could be installed."""

    code = "program_missing"


def on_path(*names: str) -> Path | None:
    """The first of them that there is."""
    path = os.environ.get("PATH", "") + os.pathsep + PLACES
    return next((Path(found) for name in names if (found := shutil.which(name, path=path))), None)


def prepare(names: tuple[str, ...], packages: tuple[str, ...], marker: str) -> Path:
    """A program's executable: one on PATH, else Debian's, installed by root.

    Raises:
        ProgramMissing: with the ways out; `marker` is that of the tests that need it.
    """
    found = on_path(*names)
    way_out = f"install one (Debian: {packages[0]}), or leave its tests out with -m 'not {marker}'"
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        _install(packages, way_out)
        found = on_path(*names)
    if found is None:
        raise ProgramMissing(f"there is no {names[0]} on PATH; {way_out}")
    return found


def _install(packages: tuple[str, ...], way_out: str) -> None:
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    print(f"installing {packages[0]} with apt-get, once", file=sys.stderr)
    for arguments in (["update"], ["install", "--yes", "--no-install-recommends", *packages]):
        command = ["apt-get", "--quiet=2", f"--option=DPkg::Lock::Timeout={LOCK_SECONDS}", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        if done.returncode != 0:
            raise ProgramMissing(f"{' '.join(command)} failed; {way_out}:\n{done.stderr.strip()[-1000:]}")
