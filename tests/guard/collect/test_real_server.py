"""Collectors against real llama-server processes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pulumi_infercrane.guard import load_evidence
from pulumi_infercrane.guard.collect import find
from tests.guard.collect.scripted import target_of
from tests.runtimes.llama import LlamaServer

pytestmark = pytest.mark.runtime
Start = Callable[..., LlamaServer]
TASKS = Path(__file__).parents[3] / "examples" / "tasks" / "basics.yaml"


async def measure(kind: str, out: Path, candidate: LlamaServer, baseline: LlamaServer, **given: Any) -> dict[str, Any]:
    collector = find(kind)
    progress = given.pop("progress", lambda label, done, total: None)
    sides = target_of("r2", candidate.url), target_of("r1", baseline.url)
    await collector.collect(*sides, out=out, plan=collector.plan(given), progress=progress)
    return {item.envelope.role: item for item in load_evidence(out).items if item.envelope}


async def test_benchmark(tmp_path: Path, llama_server: Start) -> None:
    servers = llama_server("tiny-a"), llama_server("tiny-b")
    items = await measure("benchmark", tmp_path, *servers, requests=12, concurrency=2, max_tokens=16)
    assert [item.problem for item in items.values()] == [None, None]
    assert all((item.record.attempted, item.record.failed) == (12, 0) for item in items.values())
    assert all(item.record.token_source == "usage" for item in items.values())
    probes = items["candidate"].envelope.probes
    assert probes.before.version == probes.after.version != ""
    assert probes.before.models == ("chat",)


async def test_same_weights_under_another_setting_answer_alike(tmp_path: Path, llama_server: Start) -> None:
    servers = llama_server("tiny-a", parallel=1), llama_server("tiny-a", parallel=4)
    items = await measure("quality", tmp_path, *servers, tasks=TASKS, limit=12)
    texts = [[a.text_sha256 for a in item.record.answers.values()] for item in items.values()]
    assert texts[0] == texts[1]


async def test_healthy_but_answering_errors(tmp_path: Path, llama_server: Start) -> None:
    broken = llama_server("tiny-answers-500", generates=False)
    items = await measure("benchmark", tmp_path, broken, llama_server("tiny-a"), requests=4, warmup=0)
    assert items["candidate"].problem is None
    assert items["candidate"].record.failed == 4
    assert items["baseline"].record.failed == 0


async def test_killed_under_way(tmp_path: Path, llama_server: Start) -> None:
    candidate = llama_server("tiny-a")

    def kill(label: str, done: int, total: int) -> None:
        if done == 4:
            candidate.kill()

    items = await measure(
        "benchmark", tmp_path, candidate, llama_server("tiny-b"), requests=8, concurrency=1, warmup=0, progress=kill
    )
    record = items["candidate"].record
    assert list(record.requests.ok[:2]) == [1, 1]
    assert record.errors["connect_failed"] > 0
    assert items["baseline"].record.failed == 0
