"""A trivial program through the real engine and, when the engine is our build, our language host."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.engine.engine import MINIMUM, Engine
from tests.engine.fixtures import NewProject
from tests.engine.project import Project

pytestmark = pytest.mark.engine

GREETING = """
import pulumi
config = pulumi.Config()
pulumi.export("greeting", f"hello {config.require('name')}")
pulumi.export("secret", config.get_secret("token"))
"""

SLOW = """
import pathlib, time
pathlib.Path("started").touch()
time.sleep(60)
"""

LANGUAGE_HOST = Path(__file__).with_name("language_host.py")


def test_the_engine_is_new_enough(engine: Engine) -> None:
    version = subprocess.check_output([engine.folder / "pulumi", "version"], text=True).strip()
    assert version == engine.version
    assert tuple(map(int, version.lstrip("v").split("-")[0].split("."))) >= MINIMUM


def test_a_program_previews_and_runs_with_its_configuration(new_project: NewProject) -> None:
    project = new_project(GREETING, {"sample:name": "crane"})
    assert "hello crane" in project.preview().stdout
    project.up()
    assert project.outputs()["greeting"] == "hello crane"


def test_a_saved_plan_is_applied_and_pins_what_it_saw(new_project: NewProject) -> None:
    project = new_project(GREETING, {"sample:name": "crane"})
    plan = str(project.folder / "plan.json")
    project.preview("--save-plan", plan)
    project.up("--plan", plan)
    assert project.outputs()["greeting"] == "hello crane"

    project.configure({"sample:name": "heron"})
    refused = project.up("--plan", plan, code=None)
    assert refused.returncode != 0
    assert project.outputs()["greeting"] == "hello crane"


def test_a_failing_program_shows_its_own_error(new_project: NewProject) -> None:
    failed = new_project("raise RuntimeError('no such crane')").up(code=None)
    assert failed.returncode != 0
    assert "RuntimeError: no such crane" in failed.stdout + failed.stderr


def test_an_interrupted_run_shows_no_traceback(new_project: NewProject) -> None:
    project = new_project(SLOW)
    run = project.start("preview")
    wait_for(project.folder / "started")
    run.send_signal(signal.SIGINT)
    output, _ = run.communicate(timeout=30)
    assert run.returncode != 0
    assert "Traceback" not in output
    assert "language_host" not in output


def test_the_host_ends_quietly_on_sigint() -> None:
    host = start_host()
    host.send_signal(signal.SIGINT)
    assert host.communicate(timeout=10) == ("", "")
    assert host.returncode == 0


def test_the_host_ends_when_its_engine_is_gone() -> None:
    host = start_host("127.0.0.1:1")
    assert host.communicate(timeout=15) == ("", "")
    assert host.returncode == 0


def start_host(*arguments: str) -> subprocess.Popen[str]:
    """The host, after it has printed its port."""
    pipe = subprocess.PIPE
    command = [sys.executable, str(LANGUAGE_HOST), *arguments]
    host = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True)
    assert host.stdout is not None
    assert int(host.stdout.readline()) > 0
    return host


def wait_for(file: Path, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not file.exists():
        assert time.monotonic() < deadline, f"{file.name} did not appear within {seconds:.0f} s"
        time.sleep(0.05)


def test_a_project_keeps_what_the_engine_wrote_beside_its_configuration(new_project: NewProject) -> None:
    project: Project = new_project(GREETING, {"sample:name": "crane"})
    project.pulumi("config", "set", "--secret", "token", "a-secret")
    encrypted = (project.folder / "Pulumi.test.yaml").read_text()
    assert "a-secret" not in encrypted
    assert "encryptionsalt" in encrypted
    project.up()
    assert project.outputs()["secret"] == "a-secret"
