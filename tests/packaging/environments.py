"""Environments into which the distribution is installed as a user would, without a network."""

import subprocess
import sys
import sysconfig
import venv
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOMS = ("components", "guard", "router", "stacks")
PACKAGES = tuple(f"pulumi_infercrane.{room}" for room in ROOMS)


@dataclass(frozen=True)
class Environment:
    """A virtual environment: its dependencies are those of the running one, our package is installed by the test."""

    folder: Path

    @classmethod
    def create(cls, folder: Path) -> "Environment":
        venv.create(folder, with_pip=False)
        environment = cls(folder)
        dependencies = sysconfig.get_path("purelib")
        (environment.site_packages / "dependencies.pth").write_text(f"{dependencies}\n")
        return environment

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def site_packages(self) -> Path:
        return next((self.folder / "lib").glob("python3.*")) / "site-packages"

    def install(self, *what: str) -> None:
        pip = [sys.executable, "-m", "pip", "--python", str(self.python), "--quiet"]
        checked(*pip, "install", "--no-deps", "--no-index", "--no-build-isolation", *what, cwd=self.folder)

    def run(self, code: str, *, cwd: Path) -> str:
        """What `python -c code` prints, run in `cwd`."""
        return checked(str(self.python), "-W", "error", "-c", code, cwd=cwd)

    def run_module(self, module: str, *arguments: str, cwd: Path) -> str:
        return checked(str(self.python), "-m", module, *arguments, cwd=cwd)


def checked(*command: str, cwd: Path) -> str:
    """Standard output of a command that must succeed; its failure shows everything it said."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout
