"""Three type checkers see the installed package and agree about what is right and wrong in `api.py`."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.packaging.environments import Environment

pytestmark = pytest.mark.packaging

API = Path(__file__).with_name("api.py")
TOOLS = Path(sys.executable).parent
PLACE_OF_AN_ERROR = {
    "mypy": r"^api\.py:(\d+)(?::\d+)?: error",
    "pyright": r"api\.py:(\d+):\d+ - error",
    "ty": r"^api\.py:(\d+):\d+: error",
}

Command = Callable[[Path], list[str]]
COMMANDS: dict[str, Command] = {
    "mypy": lambda python: ["--strict", "--config-file=", "--python-executable", str(python), "api.py"],
    "pyright": lambda python: ["--pythonpath", str(python), "api.py"],
    "ty": lambda python: ["check", "--output-format", "concise", "--python", str(python), "api.py"],
}


@pytest.mark.parametrize("checker", COMMANDS)
@pytest.mark.parametrize("kind", ["installed", "editable"])
def test_right_is_right_and_wrong_is_wrong(
    checker: str, kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    (tmp_path / "api.py").write_text(API.read_text())
    environment: Environment = request.getfixturevalue(kind)
    command = [TOOLS / checker, *COMMANDS[checker](environment.python)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    found = {int(line) for line in re.findall(PLACE_OF_AN_ERROR[checker], done.stdout, re.MULTILINE)}
    assert found == lines_marked_wrong(), done.stdout + done.stderr


def lines_marked_wrong() -> set[int]:
    lines = enumerate(API.read_text().splitlines(), start=1)
    return {number for number, line in lines if line.endswith("# wrong")}
