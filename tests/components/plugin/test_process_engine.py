"""Process under the real engine: what a user sees with `pulumi up`."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pulumi_infercrane.components.supervision.observing import observe

pytestmark = pytest.mark.engine

PROGRAM = """
import json
from pathlib import Path
import pulumi
from pulumi_infercrane.components.process import Process

declared = json.loads(Path("process.json").read_text())
secrets = declared.pop("secrets", {})
declared["env"] = declared.get("env", {}) | {name: pulumi.Output.secret(text) for name, text in secrets.items()}
process = Process("one", **declared)
pulumi.export("url", pulumi.get(process, "url"))
"""


class World:
    """A stack with one process in it; `declare` is what the user edits."""

    def __init__(self, project: Any, place: Path, argv: tuple[str, ...]) -> None:
        self.project = project
        self.folder = place / "processes" / "one"
        self.declared: dict[str, Any] = {
            "place": str(place),
            "process": "one",
            "argv": list(argv),
            "readiness": {"path": "/health"},
            "startTimeoutS": 20,
        }
        self.declare()

    def declare(self, **changes: Any) -> None:
        self.declared |= changes
        (self.project.folder / "process.json").write_text(json.dumps(self.declared))

    @property
    def recorded(self) -> dict[str, Any]:
        [found] = [r for r in self.project.resources() if r["type"] == "infercrane:index:Process"]
        return found


@pytest.fixture
def world(new_project: Any, place: Path, child: Callable[..., tuple[str, ...]]) -> World:
    plugin = {"name": "infercrane", "path": str(Path(sys.prefix, "bin"))}
    project = new_project(PROGRAM, plugins={"providers": [plugin]})
    return World(project, place, child("serve", "{port}"))


def test_up_starts_it_and_a_second_up_changes_nothing(world: World) -> None:
    assert "url" in world.project.preview().stdout
    world.project.up()
    pid = observe(world.folder).pid
    assert world.recorded["outputs"]["pid"] == pid
    assert world.project.outputs()["url"] == world.recorded["outputs"]["url"]
    world.project.up("--skip-preview", "--expect-no-changes")
    assert observe(world.folder).pid == pid


def test_what_died_between_two_runs_comes_back_without_refresh(
    world: World, supervisor_of: Any, eventually: Any
) -> None:
    world.project.up()
    url = world.project.outputs()["url"]
    os.kill(supervisor_of(world.folder), signal.SIGKILL)
    os.kill(observe(world.folder).pid, signal.SIGKILL)
    eventually(lambda: not observe(world.folder).alive)
    preview = world.project.preview().stdout
    assert "process one is stopped" in preview
    assert "update" in preview
    world.project.up()
    assert observe(world.folder).state == "running"
    assert world.project.outputs()["url"] == url


def test_a_failed_start_leaves_no_ghost_and_is_tried_again(world: World, child: Callable[..., Any]) -> None:
    flag = world.folder.parent.parent / "repaired"
    script = f"test -e {flag} && exec {' '.join(child('serve'))} $0; echo not yet; exit 4"
    world.declare(argv=["/bin/sh", "-c", script, "{port}"])
    failed = world.project.up("--skip-preview", code=None)
    assert failed.returncode != 0
    assert "engine_exited: one: the process ended before it was ready (exit code 4)" in failed.stdout + failed.stderr
    assert "not yet" in failed.stdout + failed.stderr
    assert world.recorded["initErrors"]
    assert not observe(world.folder).alive
    assert world.project.up("--skip-preview", code=None).returncode != 0
    flag.touch()
    world.project.up("--skip-preview")
    assert "initErrors" not in world.recorded
    assert observe(world.folder).state == "running"


def test_patience_is_changed_in_place_and_a_command_by_replacement(world: World) -> None:
    world.project.up("--skip-preview")
    first = observe(world.folder).pid
    world.declare(startTimeoutS=30)
    world.project.up("--skip-preview")
    assert observe(world.folder).pid == first
    world.declare(env={"A": "1"})
    assert "replace" in world.project.up().stdout
    assert observe(world.folder).pid != first


def test_secrets_are_encrypted_in_the_state(world: World) -> None:
    world.declare(secrets={"KEY": "hunter2"})
    world.project.up("--skip-preview")
    assert "hunter2" not in json.dumps(world.recorded)
    assert "KEY=hunter2" in Path(f"/proc/{observe(world.folder).pid}/environ").read_text()


def test_an_interrupted_up_is_recorded_and_goes_on(world: World, child: Any, eventually: Any) -> None:
    flag = world.folder.parent.parent / "awake"
    script = f"while ! test -e {flag}; do sleep 0.1; done; exec {' '.join(child('serve'))} $0"
    world.declare(argv=["/bin/sh", "-c", script, "{port}"])
    with world.project.start("up", "--yes", "--skip-preview") as run:
        eventually(lambda: observe(world.folder), seconds=30)
        run.send_signal(signal.SIGINT)
        assert run.wait(timeout=30) != 0
        run.stdout.read()
    pid = observe(world.folder).pid
    assert world.recorded["id"] == str(world.folder)
    flag.touch()
    world.project.up("--skip-preview")
    assert observe(world.folder).pid == pid


def test_a_killed_up_ends_in_one_process(world: World, child: Any, eventually: Any, is_running: Any) -> None:
    flag = world.folder.parent.parent / "awake"
    script = f"while ! test -e {flag}; do sleep 0.1; done; exec {' '.join(child('serve'))} $0"
    world.declare(argv=["/bin/sh", "-c", script, "{port}"])
    with world.project.start("up", "--yes", "--skip-preview") as run:
        eventually(lambda: observe(world.folder), seconds=30)
        [provider] = _plugins_of(run.pid)
        run.kill()
        run.wait(timeout=10)
        eventually(lambda: not is_running(provider), seconds=20)
    pid = observe(world.folder).pid
    flag.touch()
    world.project.pulumi("cancel", "--yes")
    world.project.up("--skip-preview")
    assert observe(world.folder).pid == pid


def test_the_engine_accepts_our_schema(world: World) -> None:
    plugin = str(Path(sys.prefix, "bin", "pulumi-resource-infercrane"))
    schema = world.project.folder / "schema.json"
    schema.write_text(world.project.pulumi("package", "get-schema", plugin).stdout)
    world.project.pulumi("schema", "check", str(schema))
    assert "infercrane:index:Process" in json.loads(schema.read_text())["resources"]


def test_destroy_stops_it_and_keeps_the_log(world: World, is_running: Any) -> None:
    world.project.up("--skip-preview")
    pid = observe(world.folder).pid
    world.project.pulumi("destroy", "--yes")
    assert not is_running(pid)
    assert [path.name for path in world.folder.iterdir()] == ["output.log"]


def _plugins_of(engine: int) -> list[int]:
    command = ["ps", "-ww", "-o", "pid=,args=", "--ppid", str(engine)]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [int(line.split()[0]) for line in listed.splitlines() if "pulumi-resource-infercrane" in line]
