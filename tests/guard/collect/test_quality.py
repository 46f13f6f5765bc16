"""Quality evidence: both sides answer the same items; scores and digests are kept, answers are not."""

import json
from pathlib import Path
from typing import Any

import pytest

from pulumi_infercrane.guard import load_evidence
from pulumi_infercrane.guard.collect import CollectError, find
from tests.guard.collect.scripted import CUT, ScriptedServer, StartScripted, finish, good, target_of

TASKS = """\
schema: infercrane.tasks/v1
name: basics
metric: contains
max_tokens: 8
items:
  - {id: sum, prompt: "What is 2 + 2?", expect: ["4", four]}
  - {id: capital, prompt: "Capital of France?", expect: [Paris]}
  - {id: opposite, prompt: "Opposite of hot?", expect: [cold]}
"""
RIGHT = {"What is 2 + 2?": "it is Four", "Capital of France?": "Paris.", "Opposite of hot?": "cold"}


def right(number: int, body: dict[str, Any]) -> list[Any]:
    return good(RIGHT.get(body["messages"][0]["content"], "hello"))


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    path = tmp_path / "tasks.yaml"
    path.write_text(TASKS)
    return path


async def measure(out: Path, tasks: Path, candidate: ScriptedServer, baseline: ScriptedServer, **given: Any) -> Any:
    collector = find("quality")
    plan = collector.plan({"tasks": tasks, **given})
    sides = target_of("r2", candidate.url), target_of("r1", baseline.url)
    await collector.collect(*sides, out=out, plan=plan, progress=lambda label, done, total: None)
    return {item.envelope.role: item for item in load_evidence(out).items if item.envelope}


async def test_answers_are_scored_and_paired_by_item(tmp_path: Path, tasks: Path, scripted: StartScripted) -> None:
    items = await measure(tmp_path / "out", tasks, await scripted(), await scripted(script=right))
    assert [item.problem for item in items.values()] == [None, None]
    scores = {role: {name: a.score for name, a in item.record.answers.items()} for role, item in items.items()}
    assert scores["baseline"] == {"sum": 1, "capital": 1, "opposite": 1}
    assert scores["candidate"] == {"sum": 0, "capital": 0, "opposite": 0}
    assert items["candidate"].record.tasks_digest == items["baseline"].record.tasks_digest


async def test_a_failed_request_scores_nothing(tmp_path: Path, tasks: Path, scripted: StartScripted) -> None:
    broken = await scripted(script=lambda number, body: [CUT])
    items = await measure(tmp_path / "out", tasks, broken, await scripted(script=right))
    assert items["candidate"].problem is None
    assert all((a.score, a.ok) == (0, False) for a in items["candidate"].record.answers.values())


async def test_empty_and_cut_answers_are_told(tmp_path: Path, tasks: Path, scripted: StartScripted) -> None:
    empty = await scripted(script=lambda number, body: [finish("length")])
    items = await measure(tmp_path / "out", tasks, empty, await scripted(script=right))
    assert all(a.ok and a.empty and a.cut for a in items["candidate"].record.answers.values())


async def test_limit_takes_the_first_items(tmp_path: Path, tasks: Path, scripted: StartScripted) -> None:
    items = await measure(tmp_path / "out", tasks, await scripted(), await scripted(), limit=2)
    assert list(items["candidate"].record.answers) == ["sum", "capital"]
    assert items["candidate"].envelope.planned.requests == 2


async def test_task_and_length_are_asked_as_the_file_says(tmp_path: Path, tasks: Path, scripted: StartScripted) -> None:
    server = await scripted()
    await measure(tmp_path / "out", tasks, server, await scripted())
    assert sorted(server.prompts) == sorted(RIGHT)
    assert {body["max_tokens"] for body in server.asked if body["messages"][0]["content"] in RIGHT} == {8}


async def test_answers_are_kept_as_digests_only(tmp_path: Path, tasks: Path, scripted: StartScripted) -> None:
    await measure(tmp_path / "out", tasks, await scripted(script=right), await scripted(script=right))
    written = "".join(path.read_text() for path in (tmp_path / "out").rglob("*.json*"))
    assert "Paris" not in written
    assert json.loads(next((tmp_path / "out").rglob("*.jsonl")).read_text().splitlines()[1])["text_sha256"]


async def test_a_wrong_task_file_is_told_before_anything_is_asked(
    tmp_path: Path, tasks: Path, scripted: StartScripted
) -> None:
    tasks.write_text(TASKS.replace("metric: contains", "metric: similar"))
    server = await scripted()
    with pytest.raises(CollectError, match=r"tasks\.yaml:3: metric: 'similar' is not one of contains, exact"):
        await measure(tmp_path / "out", tasks, server, await scripted())
    assert server.asked == []
