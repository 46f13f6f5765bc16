"""The demo's own Pulumi project in `.demo/`: its files, its environment, and how it is taken away again."""

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

STACK = "demo"
SERVICE = "chat"
HERE = Path(__file__).parent


@dataclass(frozen=True)
class Workspace:
    """Everything the demo makes lies below `root`."""

    root: Path
    engine: Mapping[str, str]
    """Environment in which `pulumi` is found."""
    listen: str

    @property
    def project(self) -> Path:
        return self.root / "project"

    @property
    def evidence(self) -> Path:
        return self.project / "evidence"

    @property
    def environment(self) -> dict[str, str]:
        return {**self.engine, **state_environment(self.root)}

    def create(self) -> None:
        """A three-line program, a policy and a task file: what a user's repository holds."""
        for folder in (self.project, self.root / "state"):
            folder.mkdir(parents=True, exist_ok=True)
        runtime = {"name": "python", "options": {"toolchain": "pip", "virtualenv": sys.prefix}}
        (self.project / "Pulumi.yaml").write_text(yaml.safe_dump({"name": "demo", "runtime": runtime}))
        (self.project / "__main__.py").write_text("from pulumi_infercrane.stacks.program import main\n\nmain()\n")
        shutil.copy(HERE / "policy.yaml", self.project / "policy.yaml")
        self._pulumi("stack", "init", STACK)

    def declare(self, revisions: Mapping[str, Any], candidate: str | None) -> None:
        """Write `Pulumi.demo.yaml`, as a user would edit it."""
        settings = self.project / f"Pulumi.{STACK}.yaml"
        kept = yaml.safe_load(settings.read_text()) if settings.exists() else {}
        config: dict[str, Any] = {
            "infercrane:service": SERVICE,
            "infercrane:initialActive": "r1",
            "infercrane:router": {"listen": self.listen, "drainS": 20.0},
            "infercrane:revisions": dict(revisions),
        }
        if candidate:
            config["infercrane:candidate"] = candidate
        settings.write_text(yaml.safe_dump((kept or {}) | {"config": config}, sort_keys=False))

    def infercrane(self, *arguments: str) -> tuple[int, dict[str, Any]]:
        """Run the command line; its progress goes to the terminal, its JSON answer comes back."""
        command = [
            sys.executable,
            "-m",
            "pulumi_infercrane",
            *arguments,
            "--json",
            "-s",
            STACK,
            "-C",
            str(self.project),
        ]
        answer = subprocess.run(command, env=self.environment, stdout=subprocess.PIPE, text=True, check=False)
        if answer.returncode not in (0, 3, 4):
            raise SystemExit(f"infercrane {' '.join(arguments)} ended with {answer.returncode}")
        document: dict[str, Any] = json.loads(answer.stdout)
        return answer.returncode, document

    def _pulumi(self, *arguments: str) -> None:
        subprocess.run(["pulumi", *arguments], cwd=self.project, env=self.environment, check=True, capture_output=True)


def state_environment(root: Path) -> dict[str, str]:
    """Processes, router and journal of the demo stay apart from the user's own."""
    return {"INFERCRANE_STATE_DIR": str(root / "state")}
