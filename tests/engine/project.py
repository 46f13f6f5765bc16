"""A Pulumi project on disk for tests: written, run and destroyed with the real engine."""

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

TIMEOUT_S = 240.0


class PulumiFailed(AssertionError):
    """A `pulumi` command ended with a code nobody expected; the message holds everything it said."""


@dataclass(frozen=True)
class Project:
    """A program in `folder`, the stack it is run for, and the environment `pulumi` runs in."""

    folder: Path
    environment: Mapping[str, str]
    stack: str = "test"

    def write(self, program: str, *, name: str, python: str, **settings: Any) -> None:
        """Write Pulumi.yaml and the program; `settings` are further keys of Pulumi.yaml, such as `plugins`."""
        runtime = {"name": "python", "options": {"toolchain": "pip", "virtualenv": python}}
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "Pulumi.yaml").write_text(yaml.safe_dump({"name": name, "runtime": runtime, **settings}))
        (self.folder / "__main__.py").write_text(program)

    def configure(self, values: Mapping[str, Any]) -> None:
        """Replace the stack's configuration; keys without a namespace belong to the project, as `pulumi` has it."""
        file = self.folder / f"Pulumi.{self.stack}.yaml"
        settings = (yaml.safe_load(file.read_text()) or {}) if file.exists() else {}
        file.write_text(yaml.safe_dump({**settings, "config": dict(values)}, allow_unicode=True))

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start `pulumi` and leave it to the test; standard error goes where standard output goes."""
        return subprocess.Popen(
            self._command(arguments),
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def pulumi(self, *arguments: str, code: int | None = 0) -> subprocess.CompletedProcess[str]:
        """Run `pulumi` to its end; `code` is the exit code that must come out, None for any."""
        done = subprocess.run(
            self._command(arguments),
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        if code is not None and done.returncode != code:
            command = " ".join(("pulumi", *arguments))
            raise PulumiFailed(f"{command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
        return done

    def init(self) -> None:
        """Create the stack and select it."""
        self.pulumi("stack", "init", self.stack)

    def preview(self, *arguments: str, code: int | None = 0) -> subprocess.CompletedProcess[str]:
        return self.pulumi("preview", *arguments, code=code)

    def up(self, *arguments: str, code: int | None = 0) -> subprocess.CompletedProcess[str]:
        return self.pulumi("up", "--yes", *arguments, code=code)

    def destroy(self) -> None:
        """Remove everything the stack holds."""
        self.pulumi("destroy", "--yes")

    def outputs(self) -> dict[str, Any]:
        """The stack's outputs, secrets included."""
        outputs: dict[str, Any] = json.loads(self.pulumi("stack", "output", "--json", "--show-secrets").stdout)
        return outputs

    def resources(self) -> list[dict[str, Any]]:
        """The resources in the state, as `pulumi stack export` shows them."""
        deployment = json.loads(self.pulumi("stack", "export").stdout)["deployment"]
        resources: list[dict[str, Any]] = deployment.get("resources") or []
        return resources

    def _command(self, arguments: tuple[str, ...]) -> list[str]:
        program = next(
            candidate
            for folder in self.environment["PATH"].split(":")
            if (candidate := Path(folder, "pulumi")).is_file()
        )
        return [str(program), *arguments, "--non-interactive", "--color", "never"]
