"""Benchmark evidence: what is written is admissible, comparable and free of text."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from pulumi_infercrane.guard import load_evidence
from pulumi_infercrane.guard.collect import CollectError, find
from tests.guard.collect.scripted import ScriptedServer, StartScripted, good, target_of


def nothing(label: str, done: int, total: int) -> None:
    """No progress is shown."""


async def measure(out: Path, candidate: ScriptedServer, baseline: ScriptedServer, **given: Any) -> list[Path]:
    collector = find("benchmark")
    plan = collector.plan({"requests": 8, "concurrency": 2, "warmup": 1, **given})
    sides = target_of("r2", candidate.url), target_of("r1", baseline.url)
    return await collector.collect(*sides, out=out, plan=plan, progress=nothing)


def lines_of(envelope: Path) -> list[dict[str, Any]]:
    name = json.loads(envelope.read_bytes())["files"][0]["path"]
    return [json.loads(line) for line in envelope.with_name(name).read_text().splitlines()]


async def test_evidence_of_both_sides_is_admissible(tmp_path: Path, scripted: StartScripted) -> None:
    paths = await measure(tmp_path, await scripted(), await scripted())
    assert [path.parent.name for path in paths] == ["r2", "r1"]
    items = load_evidence(tmp_path).items
    assert [item.problem for item in items] == [None, None]
    assert {item.envelope.role for item in items if item.envelope} == {"candidate", "baseline"}
    assert all((item.record.attempted, item.record.failed) == (8, 0) for item in items)


async def test_both_sides_have_one_workload(tmp_path: Path, scripted: StartScripted) -> None:
    first, second = (json.loads(p.read_bytes()) for p in await measure(tmp_path, await scripted(), await scripted()))
    assert first["scenario"] == second["scenario"]
    assert first["scenario"]["path"] == "replica-direct"
    assert first["window"] == second["window"]
    assert first["subject"]["revision_digest"] != second["subject"]["revision_digest"]


async def test_header_and_records(tmp_path: Path, scripted: StartScripted) -> None:
    header, *records = lines_of((await measure(tmp_path, await scripted(), await scripted()))[0])
    assert (header["planned"], header["load_model"], header["concurrency"], header["warmup"]) == (8, "closed", 2, 1)
    assert [record["id"] for record in records] == [f"{number:04}" for number in range(1, 9)]
    assert records[0].keys() >= {"block", "start_s", "ttft_s", "e2e_s", "in_tokens", "out_tokens", "finish_reason"}
    assert (records[0]["token_source"], records[0]["outcome"]) == ("usage", "complete")


async def test_a_healthy_server_that_answers_errors_gives_evidence_of_failures(
    tmp_path: Path, scripted: StartScripted
) -> None:
    paths = await measure(tmp_path, await scripted(status=500), await scripted())
    assert {record["error"] for record in lines_of(paths[0])[1:]} == {"500"}
    by_role = {item.envelope.role: item for item in load_evidence(tmp_path).items if item.envelope}
    assert by_role["candidate"].problem is None
    assert by_role["candidate"].record.failed == 8


async def test_prompts_differ_and_are_the_same_for_both_sides(tmp_path: Path, scripted: StartScripted) -> None:
    candidate, baseline = await scripted(), await scripted()
    await measure(tmp_path, candidate, baseline)
    assert sorted(candidate.prompts) == sorted(baseline.prompts)
    assert len(set(candidate.prompts)) == 9


async def test_a_second_run_has_the_same_data_set_but_no_prompt_a_cache_knows(
    tmp_path: Path, scripted: StartScripted
) -> None:
    candidate, baseline = await scripted(), await scripted()
    runs = [await measure(tmp_path, candidate, baseline) for _ in range(2)]
    digests = {json.loads(path.read_bytes())["scenario"]["dataset_digest"] for paths in runs for path in paths}
    assert len(digests) == 1
    assert len(set(candidate.prompts)) == 18


async def test_no_text_is_kept(tmp_path: Path, scripted: StartScripted) -> None:
    candidate = await scripted(script=lambda number, body: good("confidential words"))
    await measure(tmp_path, candidate, await scripted())
    written = "".join(path.read_text() for path in tmp_path.rglob("*") if path.is_file())
    assert "confidential" not in written
    assert "story" not in written


async def test_unreachable_at_the_start_writes_nothing(tmp_path: Path, scripted: StartScripted) -> None:
    gone = await scripted()
    await gone.stop()
    with pytest.raises(CollectError, match=rf"r2 at {gone.url} cannot be reached"):
        await measure(tmp_path, gone, await scripted())
    assert list(tmp_path.iterdir()) == []


async def test_an_interrupted_run_writes_nothing(tmp_path: Path, scripted: StartScripted) -> None:
    slow = await scripted(script=lambda number, body: [0.2, *good()])
    running = asyncio.create_task(measure(tmp_path, slow, await scripted(), requests=100))
    await asyncio.sleep(0.5)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert len(slow.asked) > 1
    assert list(tmp_path.iterdir()) == []
