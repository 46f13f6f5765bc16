"""A soak: constant load on the candidate for a while, and what was seen to go wrong."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from pulumi_infercrane.guard.collect import CollectError, find, watch
from pulumi_infercrane.guard.collect import soak as soaking
from tests.guard.collect.scripted import ScriptedServer, StartScripted, good, target_of

COUNTED = "llamacpp:prompt_tokens_total 12\n"


def pace(number: int, body: dict[str, Any]) -> list[Any]:
    return [0.02, *good()]


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "LOOK_EVERY_S", 0.02)
    monkeypatch.setattr(soaking, "PAUSE_AFTER_FAILURE_S", 0.02)


async def soak(out: Path, candidate: ScriptedServer, duration_s: float = 0.25, **given: Any) -> Any:
    """Envelope, header and lines."""
    collector = find("reliability")
    plan = collector.plan({"duration_s": duration_s, "concurrency": 2, **given})
    progress = given.get("progress", lambda label, done, total: None)
    sides = target_of("r2", candidate.url), target_of("r1", "http://127.0.0.1:1")
    (path,) = await collector.collect(*sides, out=out, plan=plan, progress=progress)
    envelope = json.loads(path.read_bytes())
    header, *lines = map(json.loads, path.with_name(envelope["files"][0]["path"]).read_text().splitlines())
    return envelope, header, lines


async def test_a_quiet_soak(tmp_path: Path, scripted: StartScripted) -> None:
    candidate = await scripted(script=pace, metrics=COUNTED)
    envelope, header, lines = await soak(tmp_path, candidate)
    assert (envelope["kind"], envelope["role"]) == ("reliability", "candidate")
    assert (header["schema"], header["planned"]) == ("infercrane.reliability/v1", len(lines))
    assert (header["crashes"], header["restarts"], header["unready_s"]) == (0, 0, 0.0)
    assert 0.25 <= header["duration_s"] < 5
    assert len(lines) > 2
    assert all(line["outcome"] == "complete" and line["e2e_s"] > 0 for line in lines)
    assert [line["id"] for line in lines][:1] == ["000001"]
    assert candidate.most_open == 2
    assert len(set(candidate.prompts)) == len(candidate.prompts)


async def test_what_is_not_measured_is_left_out(tmp_path: Path, scripted: StartScripted) -> None:
    _, header, _ = await soak(tmp_path, await scripted(script=pace))
    absent = {"restarts", "oom_kills", "ghost_replicas", "cold_starts_s", "rollback_drill_s", "drain"}
    assert absent.isdisjoint(header)


async def test_a_candidate_that_dies_is_evidence_of_a_crash(tmp_path: Path, scripted: StartScripted) -> None:
    candidate = await scripted(script=pace)
    asyncio.get_running_loop().call_later(0.1, lambda: asyncio.ensure_future(candidate.stop()))
    envelope, header, lines = await soak(tmp_path, candidate)
    assert header["crashes"] == 1
    assert header["unready_s"] > 0.02
    assert {line["outcome"] for line in lines} >= {"complete", "connect_failed"}
    assert envelope["probes"] == {"before": {}, "after": {}}


async def test_a_dead_candidate_is_not_hammered(
    tmp_path: Path, scripted: StartScripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(soaking, "PAUSE_AFTER_FAILURE_S", 0.05)
    _, _, lines = await soak(tmp_path, await scripted(status=500))
    assert 2 <= len(lines) <= 14


async def test_an_interrupted_soak_goes_on(
    tmp_path: Path, scripted: StartScripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(soaking, "KEEP_EVERY_S", 0.1)
    monkeypatch.setattr(soaking, "SHOW_EVERY_S", 0.05)
    candidate = await scripted(script=lambda number, body: [60.0] if number == 4 else pace(number, body))
    running = asyncio.create_task(soak(tmp_path, candidate, 30.0))
    await asyncio.sleep(0.4)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert [path.name for path in tmp_path.rglob("*.*")] == ["reliability.partial.jsonl"]
    kept = (tmp_path / "r2" / "reliability.partial.jsonl").read_text().splitlines()[1:]
    soaked = sum(json.loads(part)["seconds"]["candidate"] for part in kept)
    assert soaked > 0.1
    _, header, lines = await soak(tmp_path, candidate, soaked + 0.1)
    assert soaked + 0.09 < header["duration_s"] < soaked + 5
    assert len({line["id"] for line in lines}) == len(lines)
    assert not (tmp_path / "r2" / "reliability.partial.jsonl").exists()


async def test_bounds(tmp_path: Path, scripted: StartScripted) -> None:
    with pytest.raises(CollectError, match="a soak of 60 s takes longer than max_seconds, 30"):
        find("reliability").plan({"duration_s": 60.0, "max_seconds": 30.0})
    prices = tmp_path / "prices.yaml"
    prices.write_text(
        "schema: infercrane.prices/v1\ncurrency: USD\ndate: 2026-11-30\nsource: list\n"
        "prices: [{provider: local, accelerator: host, per_gpu_hour: 36}]\n"
    )
    server = await scripted()
    with pytest.raises(CollectError, match="max_cost does not pay for a soak of 60 s"):
        await soak(tmp_path, server, 60.0, prices=prices, max_cost=0.5)
    assert server.asked == []
