"""The page of readers is generated, and the way it shows from a file to evidence works."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from docs.generate import readers_page
from pulumi_infercrane.guard import load_evidence
from pulumi_infercrane.guard.evidence.readers import known_tools
from pulumi_infercrane.guard.schemas import names
from tests.guard.conftest import subject_of
from tests.test_docs import ROOT, blocks

PAGE = ROOT / "docs" / "readers.md"


def test_the_way_from_a_file_to_evidence_works_as_shown(tmp_path: Path) -> None:
    for side, revision in (("base", "r1"), ("cand", "r2")):
        (tmp_path / side).mkdir()
        shutil.copy(ROOT / "tests" / "guard" / "samples" / "promptfoo" / "out.json", tmp_path / side)
        (tmp_path / f"{revision}.json").write_text(json.dumps(subject_of(revision)))
    rules = "rules: [{id: quality.suite}]"
    (tmp_path / "policy.yaml").write_text(f"schema: infercrane.policy/v1\nrequired_kinds: [quality]\n{rules}\n")
    output = executed(blocks(PAGE, "")[0], tmp_path)
    assert output.count("metric: pass") == 2
    assert "INSUFFICIENT" in output


def test_the_subject_and_the_load_test_that_are_shown_make_evidence(tmp_path: Path) -> None:
    shutil.copy(ROOT / "tests" / "guard" / "samples" / "vllm-bench" / "ok.json", tmp_path)
    (tmp_path / "r1.json").write_text(blocks(PAGE, "json")[0])
    assert "tool: vllm-bench" in executed(blocks(PAGE, "sh")[0], tmp_path)
    (item,) = load_evidence(tmp_path).items
    assert item.problem is None


def executed(block: str, folder: Path) -> str:
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    script = ["sh", "-ec", block]
    done = subprocess.run(script, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_table_of_readers_is_the_one_of_today() -> None:
    page = PAGE.read_text()
    assert page == readers_page(page), "run python docs/generate.py"
    assert all(f"| `{tool}` |" in page for tool in known_tools())


def test_every_schema_is_linked() -> None:
    page = PAGE.read_text()
    assert [name for name in names() if f"(schemas/{name}.json)" not in page] == []
