"""A run that was interrupted goes on behind its last finished block, or starts anew and says why."""

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pulumi_infercrane.guard import load_evidence
from pulumi_infercrane.guard.collect import CollectError, find, paired
from pulumi_infercrane.guard.collect.journal import Journal
from pulumi_infercrane.guard.times import format_time
from tests.guard.collect.scripted import CUT, ScriptedServer, StartScripted, good, target_of

PARTIAL = Path("r2") / "benchmark.partial.jsonl"
COUNTERS = "llamacpp:prompt_tokens_total {}\nllamacpp:prompt_tokens_cached_total 0\n"


async def measure(out: Path, candidate: ScriptedServer, baseline: ScriptedServer, **given: Any) -> list[Path]:
    collector = find("benchmark")
    plan = collector.plan({"requests": 8, "concurrency": 1, "warmup": 0, **given})
    sides = target_of("r2", candidate.url), target_of("r1", baseline.url)
    progress = given.get("progress", lambda label, done, total: None)
    return await collector.collect(*sides, out=out, plan=plan, progress=progress)


async def interrupt(out: Path, candidate: ScriptedServer, baseline: ScriptedServer, after: int, **given: Any) -> None:
    """Cancel the run, as Ctrl-C does, when so many requests are answered. A block has 2 requests a side."""
    running: list[asyncio.Task[Any]] = []
    progress = lambda label, done, total: running[0].cancel() if done == after else None  # noqa: E731
    running.append(asyncio.create_task(measure(out, candidate, baseline, progress=progress, **given)))
    with pytest.raises(asyncio.CancelledError):
        await running[0]


def edit_head(out: Path, **changes: Any) -> None:
    head, *blocks = (out / PARTIAL).read_text().splitlines()
    (out / PARTIAL).write_text("\n".join([json.dumps(json.loads(head) | changes), *blocks, ""]))


async def test_an_interrupted_run_leaves_finished_blocks_and_no_evidence(
    tmp_path: Path, scripted: StartScripted
) -> None:
    await interrupt(tmp_path, await scripted(), await scripted(), after=11)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [tmp_path / PARTIAL]
    assert (tmp_path / PARTIAL).stat().st_mode & 0o777 == 0o600
    _, *blocks = [json.loads(line) for line in (tmp_path / PARTIAL).read_text().splitlines()]
    assert [block["block"] for block in blocks] == [0, 1]


async def test_it_goes_on_behind_the_last_block_that_both_sides_finished(
    tmp_path: Path, scripted: StartScripted, caplog: pytest.LogCaptureFixture
) -> None:
    candidate, baseline = await scripted(), await scripted()
    await interrupt(tmp_path, candidate, baseline, after=11)
    asked = len(candidate.prompts), len(baseline.prompts)
    paths = await measure(tmp_path, candidate, baseline)
    assert (len(candidate.prompts) - asked[0], len(baseline.prompts) - asked[1]) == (4, 4)
    assert "continues the run of" in caplog.text
    items = load_evidence(tmp_path).items
    assert [(item.problem, item.record.attempted) for item in items] == [(None, 8), (None, 8)]
    assert len({json.loads(path.read_bytes())["run"]["group"] for path in paths}) == 1
    assert not (tmp_path / PARTIAL).exists()


async def test_the_window_begins_with_the_first_block(tmp_path: Path, scripted: StartScripted) -> None:
    candidate, baseline = await scripted(), await scripted()
    await interrupt(tmp_path, candidate, baseline, after=5)
    began = format_time(datetime.now(UTC) - timedelta(hours=1))
    edit_head(tmp_path, started_at=began)
    envelope, *_ = await measure(tmp_path, candidate, baseline)
    assert json.loads(envelope.read_bytes())["window"]["started_at"] == began
    raw = next((tmp_path / "r2").glob("*.benchmark.jsonl"))
    starts = [json.loads(line)["start_s"] for line in raw.read_text().splitlines()[1:]]
    assert starts[0] < 60 < 3600 <= starts[-1]


async def test_the_window_ends_with_the_last_block_even_if_the_evidence_is_written_later(
    tmp_path: Path, scripted: StartScripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    candidate, baseline = await scripted(), await scripted()

    def full(*_: Any, **__: Any) -> None:
        raise CollectError("the disk is full")

    with monkeypatch.context() as broken:
        broken.setattr(paired, "write_evidence", full)
        with pytest.raises(CollectError):
            await measure(tmp_path, candidate, baseline)
    *rest, last = (tmp_path / PARTIAL).read_text().splitlines()
    ended = format_time(datetime.now(UTC) - timedelta(minutes=5))
    (tmp_path / PARTIAL).write_text("\n".join([*rest, json.dumps(json.loads(last) | {"ended_at": ended}), ""]))
    asked = len(candidate.prompts)
    envelope, *_ = await measure(tmp_path, candidate, baseline)
    assert json.loads(envelope.read_bytes())["window"]["ended_at"] == ended
    assert len(candidate.prompts) == asked


async def test_progress_counts_what_is_kept(tmp_path: Path, scripted: StartScripted) -> None:
    candidate, baseline = await scripted(), await scripted()
    await interrupt(tmp_path, candidate, baseline, after=11)
    seen: list[int] = []
    await measure(tmp_path, candidate, baseline, progress=lambda label, done, total: seen.append(done))
    assert seen == list(range(9, 17))


async def test_another_plan_starts_anew(
    tmp_path: Path, scripted: StartScripted, caplog: pytest.LogCaptureFixture
) -> None:
    candidate, baseline = await scripted(), await scripted()
    await interrupt(tmp_path, candidate, baseline, after=11)
    await measure(tmp_path, candidate, baseline, max_tokens=9)
    assert "the plan or a replica differs from that of the interrupted run: everything is measured anew" in caplog.text
    assert {body["max_tokens"] for body in candidate.asked[-8:-1]} == {9}


async def test_more_time_is_the_same_plan(tmp_path: Path, scripted: StartScripted) -> None:
    candidate, baseline = await scripted(), await scripted()
    await interrupt(tmp_path, candidate, baseline, after=11)
    asked = len(candidate.prompts)
    await measure(tmp_path, candidate, baseline, max_seconds=77.0)
    assert len(candidate.prompts) == asked + 4


async def test_a_replica_that_was_restarted_is_another_one(
    tmp_path: Path, scripted: StartScripted, caplog: pytest.LogCaptureFixture
) -> None:
    candidate, baseline = await scripted(metrics=COUNTERS.format(1000)), await scripted()
    await interrupt(tmp_path, candidate, baseline, after=11)
    candidate.metrics = COUNTERS.format(10)
    await measure(tmp_path, candidate, baseline)
    assert "the candidate was started anew or serves something else now" in caplog.text


async def test_what_is_too_old_is_measured_anew(
    tmp_path: Path, scripted: StartScripted, caplog: pytest.LogCaptureFixture
) -> None:
    candidate, baseline = await scripted(), await scripted()
    await interrupt(tmp_path, candidate, baseline, after=11)
    lines = [json.loads(line) for line in (tmp_path / PARTIAL).read_text().splitlines()]
    lines[-1]["ended_at"] = format_time(datetime.now(UTC) - timedelta(hours=7))
    (tmp_path / PARTIAL).write_text("".join(json.dumps(line) + "\n" for line in lines))
    await measure(tmp_path, candidate, baseline)
    assert "older than 6h: everything is measured anew" in caplog.text


@pytest.mark.parametrize("damage", [b"", b"not json\n", b"[]\n", b'{"schema":1}\n{}\n'])
async def test_a_damaged_file_is_measured_anew(
    tmp_path: Path, scripted: StartScripted, caplog: pytest.LogCaptureFixture, damage: bytes
) -> None:
    (tmp_path / PARTIAL).parent.mkdir()
    (tmp_path / PARTIAL).write_bytes(damage)
    await measure(tmp_path, await scripted(), await scripted())
    assert "everything is measured anew" in caplog.text
    assert all(item.problem is None for item in load_evidence(tmp_path).items)


def test_a_line_cut_by_a_kill_is_no_block(tmp_path: Path) -> None:
    path = tmp_path / "x.partial.jsonl"
    with Journal(path, "sha256:x") as journal:
        journal.begin({})
        journal.append({"block": 0})
    path.write_bytes(path.read_bytes() + b'{"block": 1, "rec')
    with Journal(path, "sha256:x") as journal:
        journal.begin({})
        assert [block["block"] for block in journal.blocks] == [0]
        journal.append({"block": 1})
    assert [json.loads(line).get("block") for line in path.read_text().splitlines()] == [None, 0, 1]


def test_two_runs_of_the_same_measurement_do_not_mix(tmp_path: Path) -> None:
    with Journal(tmp_path / "x", "sha256:x") as journal:
        journal.begin({})
        journal.append({"block": 0})
        with pytest.raises(CollectError, match="another run measures the same now"), Journal(tmp_path / "x", "y"):
            pass


def test_a_link_in_the_way_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "x").symlink_to(tmp_path / "elsewhere")
    with Journal(tmp_path / "x", "sha256:x") as journal:
        journal.begin({})
        with pytest.raises(CollectError, match="cannot be written"):
            journal.append({"block": 0})
    assert not (tmp_path / "elsewhere").exists()


COLLECT = """
import asyncio, sys
from pathlib import Path
from pulumi_infercrane.guard.collect import find
from tests.guard.collect.scripted import target_of
collector = find("benchmark")
plan = collector.plan({"requests": 8, "concurrency": 1, "warmup": 0})
sides = target_of("r2", sys.argv[2]), target_of("r1", sys.argv[3])
show = lambda label, done, total: print(done, flush=True)
asyncio.run(collector.collect(*sides, out=Path(sys.argv[1]), plan=plan, progress=show))
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
async def test_a_process_that_is_ended_loses_one_block_at_most(
    tmp_path: Path, scripted: StartScripted, how: signal.Signals
) -> None:
    candidate, baseline = await scripted(), await scripted(script=lambda number, body: [0.1, *good()])
    command = [sys.executable, "-c", COLLECT, str(tmp_path), candidate.url, baseline.url]
    process = await asyncio.create_subprocess_exec(
        *command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])},
    )
    assert process.stdout is not None
    while (await process.stdout.readline()).strip() != b"9":
        pass
    process.send_signal(how)
    await process.communicate()
    assert [path.name for path in tmp_path.rglob("*.*")] == ["benchmark.partial.jsonl"]
    asked = len(candidate.prompts)
    await measure(tmp_path, candidate, baseline)
    assert len(candidate.prompts) == asked + 4


async def test_quality_is_resumable_too(tmp_path: Path, scripted: StartScripted) -> None:
    items = "".join(f'  - {{id: q{number}, prompt: "say {number}", expect: [one]}}\n' for number in range(8))
    tasks = tmp_path / "tasks.yaml"
    tasks.write_text(f"schema: infercrane.tasks/v1\nname: basics\nmetric: contains\nmax_tokens: 8\nitems:\n{items}")
    collector = find("quality")
    plan = collector.plan({"tasks": tasks, "concurrency": 1})
    candidate, baseline = await scripted(), await scripted(script=lambda number, body: [CUT])
    sides = target_of("r2", candidate.url), target_of("r1", baseline.url)
    running: list[asyncio.Task[Any]] = []
    stop = lambda label, done, total: running[0].cancel() if done == 6 else None  # noqa: E731
    go = collector.collect
    running.append(asyncio.create_task(go(*sides, out=tmp_path / "out", plan=plan, progress=stop)))
    with pytest.raises(asyncio.CancelledError):
        await running[0]
    assert "say" not in (tmp_path / "out" / "r2" / "quality.partial.jsonl").read_text()
    await go(*sides, out=tmp_path / "out", plan=plan, progress=lambda label, done, total: None)
    records = [item.record for item in load_evidence(tmp_path / "out").items]
    assert [list(record.answers) for record in records] == [[f"q{number}" for number in range(8)]] * 2


async def test_cost_is_resumable_too(tmp_path: Path, scripted: StartScripted) -> None:
    """What a side is charged for is the time of all its blocks, of the first run and of the second."""
    prices = tmp_path / "prices.yaml"
    prices.write_text(
        "schema: infercrane.prices/v1\ncurrency: EUR\ndate: 2026-11-30\nsource: list\n"
        "prices:\n  - {provider: local, accelerator: host, per_gpu_hour: 3.6}\n"
    )
    collector = find("cost")
    plan = collector.plan({"prices": prices, "requests": 8, "concurrency": 1, "warmup": 0})
    slow = await scripted(script=lambda number, body: [0.02, *good()])
    sides = target_of("r2", slow.url), target_of("r1", (await scripted()).url)
    running: list[asyncio.Task[Any]] = []
    stop = lambda label, done, total: running[0].cancel() if done == 11 else None  # noqa: E731
    go = collector.collect
    running.append(asyncio.create_task(go(*sides, out=tmp_path / "out", plan=plan, progress=stop)))
    with pytest.raises(asyncio.CancelledError):
        await running[0]
    assert [path.name for path in (tmp_path / "out").rglob("*.*")] == ["cost.partial.jsonl"]
    asked = len(slow.prompts)
    await go(*sides, out=tmp_path / "out", plan=plan, progress=lambda label, done, total: None)
    assert len(slow.prompts) == asked + 4
    records = [item.record for item in load_evidence(tmp_path / "out").items]
    assert [(record.requests, record.good_requests) for record in records] == [(8, 8)] * 2
    assert max(record.duration_s for record in records) >= 8 * 0.02


@pytest.fixture(autouse=True)
def _notices(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
