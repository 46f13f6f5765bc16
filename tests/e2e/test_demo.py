"""`make demo` keeps its promises, on the real engine with real model servers, and leaves nothing behind."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

pytestmark = [pytest.mark.engine, pytest.mark.runtime, pytest.mark.demo]

ROOT = Path(__file__).parents[2]


def test_four_releases_under_load_and_not_one_failed_request() -> None:
    with tempfile.TemporaryDirectory(prefix="ic-demo-") as folder:
        command = [sys.executable, "-m", "examples.demo.run", "--inside", folder]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900, check=False)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
        report = json.loads((Path(folder) / ".demo" / "report.json").read_text())
        assert [path.name for path in (Path(folder) / ".demo").iterdir()] == ["report.json"]
        assert not [entry for entry in Path("/proc").glob("[0-9]*") if folder in working_folder(entry)]
    assert report["engine_version"].startswith("v3.")
    assert [step["name"] for step in report["steps"]][-1] == "rollback"
    client = report["client"]
    assert client["requests"] > 50
    assert (client["failed"], client["truncated"]) == (0, 0)
    assert client["streams_open_at_flip"] >= 1
    assert set(client["revisions_seen"]) == {"r1", "r2"}


def working_folder(process: Path) -> str:
    try:
        return str((process / "cwd").readlink())
    except OSError:
        return ""
