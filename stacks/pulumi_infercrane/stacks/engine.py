"""Runs the pulumi engine as its own process over a project on disk, with its output in files.

Never through pipes: a dead command line must not be able to kill an update in the middle (docs/operations.md).
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from pulumi_infercrane.components.place import state_directory
from pulumi_infercrane.guard.files import why
from pulumi_infercrane.stacks.errors import EngineError
from pulumi_infercrane.stacks.project import Project

MINIMUM = (3, 272, 0)
"""The version of the Python SDK we depend on; the engine should not be older than it."""

POLL_S = 0.05
LAST_LINES = 20
DEFEATING = ("PULUMI_DISABLE_REFRESH_BEFORE_UPDATE", "PULUMI_DISABLE_PROVIDER_PREVIEW", "PULUMI_SKIP_CHECKPOINTS")
"""Variables under which a decision would rest on stale state, or a crash would leave no trace."""

FINISHED = re.compile(r"\s*([-+~]+)\s+(\S+:\S+)\s+(\S+)\s+((?:created|updated|deleted|replaced|\*\*\w+).*)")
"""A finished step in the engine's output: sign, type, name, and what was done."""

NOT_LOGGED_IN = "PULUMI_ACCESS_TOKEN must be set"
"""Of all backends the engine asks for the one in the cloud."""
INPUT = re.compile(r"(?:error: )?(\S+) resource '([^']*)': property (\S+) value \{.*?\} has a problem: ", re.DOTALL)
"""How the engine begins what a check of ours says: with the value it looked at, in the words of Go."""

GONE = "Resource monitor has terminated, shutting down"
"""What the engine says after every failed check."""

AMBIENT = "using pulumi-resource-infercrane from $PATH"
"""A warning of the engine about where it found our provider: on PATH, as meant."""

Echo = Callable[[str], None]


@dataclass(frozen=True)
class Step:
    """One step of a preview: what the engine would do with one resource."""

    op: str
    urn: str
    type: str
    old: Mapping[str, Any] = field(default_factory=dict)
    """Old state: `inputs`, `outputs`, `id`; empty for a create."""
    new: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.urn.rpartition("::")[2]


@dataclass(frozen=True)
class Preview:
    """What `up` would do, and the plan file that holds it to that."""

    steps: tuple[Step, ...]
    plan: Path
    outputs_differ: bool = False
    """Whether outputs of the stack would change though no resource does: a run was killed before it wrote them."""

    @property
    def is_empty(self) -> bool:
        return not self.changes and not self.outputs_differ

    @property
    def changes(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if step.op not in ("same", "read", "refresh"))

    def of_type(self, token: str) -> Step | None:
        """What would be done with the resource of that type. For an unchanged one only the read before it is shown."""
        return next((step for step in reversed(self.steps) if step.type == token), None)


@dataclass(frozen=True)
class Engine:
    """The engine for one stack of one project."""

    project: Project
    environment: Mapping[str, str]
    """Added to this process's own for every run."""

    def preview(self, folder: Path, keep_open: Sequence[int] = ()) -> Preview:
        """Preview, save the plan in `folder`, and return the steps.

        Raises:
            EngineError: with the diagnostics of the engine, for example a failed check of the configuration.
        """
        plan = folder / "plan.json"
        output = folder / "preview.json"
        arguments = ["preview", "--json", "--save-plan", str(plan)]
        code = self._run(arguments, folder, output=output, keep_open=keep_open)
        document = _parse_preview(output)
        if code != 0:
            raise EngineError(
                _diagnostics(document) or _tail(folder / "preview.err") or f"pulumi preview ended with {code}"
            )
        return Preview(tuple(_step(step) for step in document.get("steps", ())), plan, _outputs_differ(plan))

    def up(self, plan: Path, folder: Path, echo: Echo, keep_open: Sequence[int] = ()) -> None:
        """Apply the plan, passing on what the engine prints.

        Raises:
            EngineError: the update failed; what was done before the failure is in the state.
            KeyboardInterrupt: after the engine ended in good order.
        """
        arguments = ["up", "--plan", str(plan), "--yes", "--skip-preview", "--suppress-outputs"]
        code = self._run(arguments, folder, output=folder / "up.out", echo=echo, keep_open=keep_open)
        if code != 0:
            raise EngineError(_failure(folder / "up.out", folder / "up.err", code))

    def _run(
        self,
        arguments: Sequence[str],
        folder: Path,
        *,
        output: Path,
        echo: Echo | None = None,
        keep_open: Sequence[int] = (),
    ) -> int:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        command = [engine_path(), *arguments, "--stack", self.project.stack, "--non-interactive", "--color", "never"]
        with output.open("wb") as out, output.with_suffix(".err").open("wb") as err:
            child = subprocess.Popen(
                command,
                cwd=self.project.folder,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
                pass_fds=keep_open,
            )
            return _wait(child, output, echo)

    def _environment(self) -> dict[str, str]:
        ours = {"PULUMI_EXPERIMENTAL": "true", "INFERCRANE_STATE_DIR": str(state_directory())}
        environment = {**os.environ, **self.environment, **ours}
        environment["PATH"] = search_path()
        for name in DEFEATING:
            if environment.get(name, "").lower() in ("1", "true"):
                raise EngineError(f"{name} is set: decisions would rest on stale state; unset it")
        return environment


def search_path() -> str:
    """PATH of the engine and of all it starts: this installation's scripts come first, the provider is one of them."""
    return os.pathsep.join([str(Path(sys.prefix) / "bin"), os.environ.get("PATH", os.defpath)])


def engine_path() -> str:
    """The `pulumi` on PATH.

    Raises:
        EngineError: with the way to get one.
    """
    found = shutil.which("pulumi")
    if found is None:
        raise EngineError(f"no `pulumi` on PATH: install the Pulumi CLI, {'.'.join(map(str, MINIMUM))} or newer")
    return found


def _wait(child: subprocess.Popen[bytes], output: Path, echo: Echo | None) -> int:
    """Wait for the engine, passing on what it prints. Raises KeyboardInterrupt once an interrupted one has ended."""
    with output.open(encoding="utf-8", errors="replace") as lines, _forwarding(child) as interrupted:
        while not _ended(child):
            _pass_on(lines, echo)
        _pass_on(lines, echo)
    if interrupted:
        raise KeyboardInterrupt
    return child.returncode


@contextmanager
def _forwarding(child: subprocess.Popen[bytes]) -> Iterator[list[int]]:
    """Hand the first interrupt on to the engine and swallow the rest: a second would make it drop what it is doing.

    Yields the list of signals that came.
    """
    came: list[int] = []

    def forward(number: int, _: object) -> None:
        if not came:
            child.send_signal(signal.SIGINT)
        came.append(number)

    before = {number: signal.signal(number, forward) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _ended(child: subprocess.Popen[bytes]) -> bool:
    try:
        child.wait(POLL_S)
    except subprocess.TimeoutExpired:
        return False
    return True


def _pass_on(lines: TextIO, echo: Echo | None) -> None:
    """Finished steps only: the rest is in the file, and failures are reported with their diagnostics."""
    for line in lines if echo else ():
        step = FINISHED.match(line)
        if step and echo and not step[2].startswith("pulumi:"):
            sign, kind, name, what = step.groups()
            echo(f"{sign} {kind.rpartition(':')[2]} {name} {what}")


def _parse_preview(output: Path) -> Mapping[str, Any]:
    try:
        document: dict[str, Any] = json.loads(output.read_text(encoding="utf-8") or "{}")
    except ValueError:
        return {}
    return document


def _outputs_differ(plan: Path) -> bool:
    try:
        resources = json.loads(plan.read_text(encoding="utf-8")).get("resourcePlans", {})
    except OSError as error:
        raise EngineError(f"the engine saved no plan that can be read: {why(error)}") from error
    except ValueError as error:
        raise EngineError(f"the engine saved no plan that can be read: not JSON: {error}") from error
    goals = [resource.get("goal") or {} for resource in resources.values()]
    return any(goal.get("type") == "pulumi:pulumi:Stack" and goal.get("outputDiff") for goal in goals)


def _step(step: Mapping[str, Any]) -> Step:
    state = step.get("newState") or step.get("oldState") or {}
    return Step(step["op"], step["urn"], state.get("type", ""), step.get("oldState") or {}, step.get("newState") or {})


def _diagnostics(document: Mapping[str, Any]) -> str:
    found = [entry["message"].strip() for entry in document.get("diagnostics", ()) if entry.get("severity") == "error"]
    said = dict.fromkeys(_readable(message) for message in found)
    return "\n".join([message for message in said if message != GONE] or said)


def _readable(message: str) -> str:
    """`Process r1-0a1b2c3d: files[0]: …` instead of the value of all files and the type's full name."""
    begins = INPUT.match(message)
    if begins is None:
        return message.removeprefix("error: ")
    kind, name, key = begins.groups()
    text = message[begins.end() :]
    return f"{kind.rpartition(':')[2]} {name}: {key}{'' if text.startswith('[') else ': '}{text}"


def _failure(output: Path, errors: Path, code: int) -> str:
    """The lines of the engine's own report that say what failed."""
    text = output.read_text(encoding="utf-8", errors="replace")
    report = text.partition("Diagnostics:")[2].partition("\nOutputs:")[0].partition("\nResources:")[0]
    said = [line for line in report.splitlines() if line.strip() and AMBIENT not in line]
    if any("error" in line for line in said):
        return "\n".join(said).strip()
    return _tail(errors) or f"pulumi up ended with {code} and named no error; all it said is in {output}"


def _tail(path: Path) -> str:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    except OSError:
        return ""
    if any(NOT_LOGGED_IN in line for line in lines):
        return "pulumi is not logged in: run `pulumi login --local`, or log in to the backend that has your stacks"
    return "\n".join(lines[-LAST_LINES:]).removeprefix("error: ")
