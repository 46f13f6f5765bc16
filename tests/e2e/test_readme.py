"""What the README shows of a first stack works on real parts, typed by a user without any settings."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pulumi_infercrane.components.supervision.ports import free_port
from pulumi_infercrane.components.supervision.stopping import stop_all
from tests.engine.engine import Engine
from tests.test_docs import ROOT, blocks

pytestmark = [pytest.mark.engine, pytest.mark.runtime]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path, for the sockets below it; every process started there ends with the test."""
    with tempfile.TemporaryDirectory(prefix="ic-") as made:
        root = Path(made)
        (root / ".venv").symlink_to(sys.prefix)
        for name in ("local/policy.yaml", "tasks/basics.yaml"):
            shutil.copy(ROOT / "examples" / name, root)
        yield root
        for processes in (root / "home").glob(".local/state/infercrane/*/processes"):
            stop_all(processes)


def first_stack(folder: Path, model: str, port: int) -> str:
    """The block as shown, but for the model's path, the port, and the folder of the state: the engine ignores HOME."""
    shown = blocks(ROOT / "README.md", "sh")[0]
    router = f"  infercrane:router: {{listen: 127.0.0.1:{port}}}\n  infercrane:revisions:"
    changes = {
        "/models/chat.gguf": model,
        "  infercrane:revisions:": router,
        ":8000": f":{port}",
        "login --local": f"login file://{folder}/home",
    }
    for old, new in changes.items():
        assert shown.count(old) == 1, old
        shown = shown.replace(old, new)
    return shown


def test_the_first_stack_comes_and_goes_as_shown(folder: Path, engine: Engine, runtimes: dict[str, Any]) -> None:
    search = [f"{sys.prefix}/bin", str(engine.folder), str(Path(runtimes["server"]["path"]).parent), os.environ["PATH"]]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PULUMI_", "XDG_", "INFER"))}
    home = folder / "home"
    environment = inherited | {"HOME": str(home), "PULUMI_HOME": f"{home}/.pulumi", "PATH": os.pathsep.join(search)}
    home.mkdir()
    (end,) = re.findall(r"`(pulumi state unprotect [^`]+)`", (ROOT / "README.md").read_text())
    end = " && ".join(f"{command} --yes" for command in end.split(" && "))
    script = first_stack(folder, str(runtimes["models"]["tiny-a"]["path"]), free_port()) + end
    done = subprocess.run(
        ["sh", "-ec", script], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the route moved from nothing to r1" in done.stdout
    assert '"object":"chat.completion"' in done.stdout
    assert "deleted" in done.stdout
