"""Collectors against real llama-server processes."""

import json
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


def files(out: Path) -> dict[str, list[dict[str, Any]]]:
    """The lines of the raw files, by role, the header first."""
    found = {}
    for path in out.rglob("*.evidence.json"):
        envelope = json.loads(path.read_bytes())
        raw = path.with_name(envelope["files"][0]["path"]).read_text()
        found[envelope["role"]] = [json.loads(line) for line in raw.splitlines()]
    return found


def recorded(number: int, **fields: Any) -> str:
    body = {"messages": [{"role": "user", "content": f"Tell me about lake {number}."}], "max_tokens": 12, **fields}
    line = {"schema": "infercrane.recording/v1", "id": f"r{number}", "path": "/v1/chat/completions", "body": body}
    return json.dumps(line) + "\n"


async def test_replay_of_the_same_and_of_other_weights(tmp_path: Path, llama_server: Start) -> None:
    recording = tmp_path / "recording.jsonl"
    wants_json = recorded(9, response_format={"type": "json_object"}, temperature=0.9, seed=1)
    recording.write_text("".join(recorded(number) for number in range(9)) + wants_json)
    baseline = llama_server("tiny-a", parallel=1)
    same, other = llama_server("tiny-a", parallel=2), llama_server("tiny-b")
    alike: list[float] = []
    for name, candidate in (("same", same), ("other", other)):
        await measure("replay", tmp_path / name, candidate, baseline, recording=recording, greedy=True, max_tokens=10)
        found = files(tmp_path / name)
        header, *lines = found["candidate"]
        assert (header["planned"], header["greedy"]) == (10, True)
        assert [line["id"] for line in lines] == [line["id"] for line in found["baseline"][1:]]
        assert all(line["outcome"] == "complete" and 0 < line["out_tokens"] <= 10 for line in lines)
        assert ["structured" in line for line in lines] == [False] * 9 + [True]
        alike.append(sum(line["similarity"] for line in lines) / len(lines))
    assert alike[0] == 1.0 > alike[1]


async def test_cost_of_both_sides(tmp_path: Path, llama_server: Start) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text(
        "schema: infercrane.prices/v1\ncurrency: USD\ndate: 2026-11-30\nsource: list\n"
        "prices: [{provider: local, accelerator: host, per_gpu_hour: 0.36}]\n"
    )
    servers = llama_server("tiny-a"), llama_server("tiny-b")
    given = {"prices": prices, "requests": 12, "concurrency": 2, "max_tokens": 16, "slo_ttft_s": 5.0, "max_cost": 1.0}
    await measure("cost", tmp_path / "out", *servers, **given)
    for header, *lines in files(tmp_path / "out").values():
        assert header["price_per_gpu_hour"] == 0.36
        assert 0 < header["duration_s"] < 60
        assert all(line["good"] and 0 < line["out_tokens"] <= 16 and line["token_source"] == "usage" for line in lines)


async def test_a_soak_sees_a_crash(tmp_path: Path, llama_server: Start) -> None:
    candidate = llama_server("tiny-a")

    def kill(label: str, done: int, total: int) -> None:
        if done == 3:
            candidate.kill()

    given = {"duration_s": 5.0, "concurrency": 2, "max_tokens": 16, "progress": kill}
    await measure("reliability", tmp_path, candidate, candidate, **given)
    header, *lines = files(tmp_path)["candidate"]
    assert header["crashes"] == 1
    assert header["restarts"] == 0
    assert 0.5 < header["unready_s"] < 3.5
    assert {line["outcome"] for line in lines} >= {"complete", "connect_failed"}
