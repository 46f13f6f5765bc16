"""Running the engine: what is read from a preview, and how a run is waited for."""

import json
import os
import signal
import stat
import threading
import time
from pathlib import Path

import pytest

from pulumi_infercrane.stacks.engine import Engine
from pulumi_infercrane.stacks.errors import EngineError
from pulumi_infercrane.stacks.project import Project


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """An engine whose `pulumi` is whatever script a test writes."""
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return Engine(Project(tmp_path, "lab", "dev", ""), {})


def script(tmp_path: Path, body: str) -> None:
    path = tmp_path / "pulumi"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_a_preview_becomes_steps(engine: Engine, tmp_path: Path) -> None:
    steps = [
        {"op": "refresh", "urn": "urn:a::one", "newState": {"type": "t:i:A", "inputs": {"x": 1}}},
        {"op": "update", "urn": "urn:a::one", "newState": {"type": "t:i:A", "inputs": {"x": 2}}, "oldState": {}},
    ]
    (tmp_path / "answer.json").write_text(json.dumps({"steps": steps}))
    script(tmp_path, f"cat {tmp_path}/answer.json; echo '{{}}' > {tmp_path}/op/plan.json")
    preview = engine.preview(tmp_path / "op")
    assert [step.op for step in preview.changes] == ["update"]
    found = preview.of_type("t:i:A")
    assert found is not None
    assert (found.name, found.new["inputs"]) == ("one", {"x": 2})


@pytest.mark.parametrize(("diff", "empty"), [({}, True), ({"adds": {"url": "x"}}, False)])
def test_outputs_alone_are_a_change_too(engine: Engine, tmp_path: Path, diff: dict[str, object], empty: bool) -> None:
    """A run that was killed after its last resource had not written the stack's outputs yet."""
    plan = {"resourcePlans": {"urn:stack": {"goal": {"type": "pulumi:pulumi:Stack", "outputDiff": diff}}}}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    script(tmp_path, f"echo '{{}}'; cp {tmp_path}/plan.json {tmp_path}/op/plan.json")
    assert engine.preview(tmp_path / "op").is_empty is empty


def test_a_failed_preview_is_reported_with_its_diagnostics(engine: Engine, tmp_path: Path) -> None:
    diagnostics = [{"severity": "warning", "message": "mind"}, {"severity": "error", "message": "policy.yaml:3: no"}]
    (tmp_path / "answer.json").write_text(json.dumps({"diagnostics": diagnostics}))
    script(tmp_path, f"cat {tmp_path}/answer.json; exit 255")
    with pytest.raises(EngineError) as raised:
        engine.preview(tmp_path / "op")
    assert str(raised.value) == "policy.yaml:3: no"


def test_a_failed_check_is_said_once_and_without_the_value_that_was_checked(engine: Engine, tmp_path: Path) -> None:
    at = "error: infercrane:index:Process resource 'r1-0a': property"
    said = [
        f"{at} files value {{[{{map[path:{{/m.gguf}}]}}]}} has a problem: [0]: /m.gguf: no such file",
        f"{at} port value {{8}} has a problem: 8 is taken",
        f"{at} port value {{8}} has a problem: 8 is taken",
        "error: Preview failed: something else",
        "Resource monitor has terminated, shutting down",
    ]
    diagnostics = [{"severity": "error", "message": message} for message in said]
    (tmp_path / "answer.json").write_text(json.dumps({"diagnostics": diagnostics}))
    script(tmp_path, f"cat {tmp_path}/answer.json; exit 255")
    with pytest.raises(EngineError) as raised:
        engine.preview(tmp_path / "op")
    assert str(raised.value).splitlines() == [
        "Process r1-0a: files[0]: /m.gguf: no such file",
        "Process r1-0a: port: 8 is taken",
        "Preview failed: something else",
    ]


def test_an_engine_that_cannot_even_start_a_preview_is_quoted(engine: Engine, tmp_path: Path) -> None:
    script(tmp_path, "echo error: passphrase must be set >&2; exit 255")
    with pytest.raises(EngineError, match="passphrase must be set"):
        engine.preview(tmp_path / "op")


def test_an_engine_without_a_login_is_told_how_to_log_in(engine: Engine, tmp_path: Path) -> None:
    script(
        tmp_path,
        "echo 'error: PULUMI_ACCESS_TOKEN must be set for login during non-interactive CLI sessions' >&2; exit 255",
    )
    with pytest.raises(EngineError, match=r"^pulumi is not logged in: run `pulumi login --local`"):
        engine.preview(tmp_path / "op")


def test_finished_steps_are_passed_on_and_the_rest_is_kept(engine: Engine, tmp_path: Path) -> None:
    script(tmp_path, "echo ' +  a:b:Thing one creating (0s)'; echo ' +  a:b:Thing one created (0.1s)'")
    said: list[str] = []
    engine.up(tmp_path / "plan.json", tmp_path / "op", said.append)
    assert said == ["+ Thing one created (0.1s)"]
    assert "creating" in (tmp_path / "op" / "up.out").read_text()


def test_an_interrupt_reaches_the_engine_once_and_is_waited_for(engine: Engine, tmp_path: Path) -> None:
    trap = f"trap 'echo int >> {tmp_path}/signals; sleep 0.5; exit 1' INT"
    script(tmp_path, f"{trap}\ntouch {tmp_path}/up\nsleep 20 & wait")

    def interrupt() -> None:
        while not (tmp_path / "up").exists():
            time.sleep(0.01)
        for number in (signal.SIGINT, signal.SIGINT, signal.SIGTERM):
            os.kill(os.getpid(), number)
            time.sleep(0.1)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        engine.up(tmp_path / "plan.json", tmp_path / "op", lambda line: None)
    thread.join()
    assert (tmp_path / "signals").read_text() == "int\n"


@pytest.mark.parametrize("name", ["PULUMI_DISABLE_REFRESH_BEFORE_UPDATE", "PULUMI_SKIP_CHECKPOINTS"])
def test_variables_that_defeat_the_decision_are_refused(
    engine: Engine, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "true")
    script(tmp_path, "exit 0")
    with pytest.raises(EngineError, match=name):
        engine.preview(tmp_path / "op")


def test_without_an_engine_the_way_out_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineError, match="install the Pulumi CLI"):
        Engine(Project(tmp_path, "lab", "dev", ""), {}).preview(tmp_path / "op")
