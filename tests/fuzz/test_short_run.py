"""A moment of real fuzzing, the same every time; and a finding is not overlooked."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fuzz.record import PAGE, page
from tests.fuzz.targets import all_targets

ROOT = Path(__file__).parents[2]
EXECUTIONS = 150

Running = Callable[..., "subprocess.CompletedProcess[str]"]

BROKEN = """
from tests.fuzz import run
from tests.fuzz.target import Target

def fails(data, watch):
    return 1 / (len(data) - 3)

run.TARGETS = (Target("broken", fails, (b"[1,2]",)),)
run.main(["--executions", "5000"])
"""


@pytest.fixture
def run(tmp_path: Path) -> Running:
    pytest.importorskip("atheris", reason="no wheel for this Python or this machine")

    def running(*arguments: str) -> "subprocess.CompletedProcess[str]":
        environment = {**os.environ, "INFERCRANE_CACHE": str(tmp_path)}
        command = ["nice", sys.executable, *arguments]
        return subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, check=False
        )

    return running


@pytest.mark.fuzz
def test_no_target_finds_anything(run: Running) -> None:
    done = run("-m", "tests.fuzz.run", "--executions", str(EXECUTIONS))
    assert done.returncode == 0, done.stdout + done.stderr
    ran = dict(re.findall(r"^([a-z0-9-]+): (\d+) executions", done.stdout, re.MULTILINE))
    assert ran == {target.name: str(EXECUTIONS) for target in all_targets()}


@pytest.mark.fuzz
def test_a_finding_is_named_and_kept(run: Running, tmp_path: Path) -> None:
    done = run("-c", BROKEN)
    assert done.returncode == 1
    assert f"1 findings, kept in {tmp_path}/fuzz/crashes" in done.stdout
    assert [len(path.read_bytes()) for path in (tmp_path / "fuzz" / "crashes").iterdir()] == [3]
    assert "ZeroDivisionError" in (tmp_path / "fuzz" / "broken.log").read_text()


def test_the_table_of_the_docs_is_that_of_the_recorded_runs() -> None:
    text = PAGE.read_text()
    assert text == page(text), "tests/fuzz/record.py wrote something else"
