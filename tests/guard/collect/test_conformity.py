"""What the collectors write is what the published schemas describe, and what the readers read."""

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from pulumi_infercrane.guard import load_evidence
from pulumi_infercrane.guard.collect import find, kinds, soak
from pulumi_infercrane.guard.schemas import schema_of
from tests.guard.collect.scripted import StartScripted, target_of
from tests.guard.collect.test_cost import PRICES

TASKS = """\
schema: infercrane.tasks/v1
name: basics
metric: contains
max_tokens: 8
items:
  - {id: a, prompt: Say something, expect: [something]}
"""
RECORDED = {"schema": "infercrane.recording/v1", "id": "q1", "path": "/v1/chat/completions"}
BODY = {"model": "prod", "messages": [{"role": "user", "content": "hello"}]}


@pytest.fixture
def given(tmp_path: Path) -> dict[str, Any]:
    """Enough of everything that any collector needs."""
    (tmp_path / "prices.yaml").write_text(PRICES)
    (tmp_path / "tasks.yaml").write_text(TASKS)
    (tmp_path / "recording.jsonl").write_text(json.dumps({**RECORDED, "body": BODY}) + "\n")
    files = {name: tmp_path / f"{name}.yaml" for name in ("prices", "tasks")}
    return {**files, "recording": tmp_path / "recording.jsonl", "requests": 4, "warmup": 1, "duration_s": 0.05}


@pytest.mark.parametrize("kind", kinds())
async def test_envelopes_and_lines_conform(
    kind: str, given: dict[str, Any], scripted: StartScripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(soak, "PAUSE_AFTER_FAILURE_S", 0.01)
    sides = [target_of(name, (await scripted()).url) for name in ("r2", "r1")]
    collector = find(kind)
    plan = collector.plan(given)
    paths = await collector.collect(*sides, out=tmp_path / "out", plan=plan, progress=lambda *_: None)
    for path in paths:
        envelope = json.loads(path.read_bytes())
        assert list(Draft202012Validator(schema_of("envelope")).iter_errors(envelope)) == []
        raw = path.with_name(envelope["files"][0]["path"]).read_text().splitlines()
        validator = Draft202012Validator(schema_of(kind))
        assert [list(validator.iter_errors(json.loads(line))) for line in raw] == [[]] * len(raw)
    assert [item.problem for item in load_evidence(tmp_path / "out").items] == [None] * len(paths)
