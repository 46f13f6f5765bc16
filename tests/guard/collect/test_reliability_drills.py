"""Drills in the evidence of a soak: what is written, what bounds them, and how they go on after an interruption."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pulumi_infercrane.guard import load_evidence
from pulumi_infercrane.guard.collect import CollectError, Target, find, reliability, watch
from pulumi_infercrane.guard.collect.drills import Rehearsed
from pulumi_infercrane.guard.collect.handles import Handles, Rehearsal
from pulumi_infercrane.guard.evidence.records import Reliability
from tests.guard.collect.scripted import ScriptedServer, StartScripted, good, target_of

PARTIAL = Path("r2") / "reliability.partial.jsonl"


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "LOOK_EVERY_S", 0.02)


def counters(tokens: int, began: float = 1.0) -> str:
    prompts = f"llamacpp:prompt_tokens_total {tokens}\nllamacpp:prompt_tokens_cached_total 0\n"
    return f"{prompts}process_start_time_seconds {began}\n"


@pytest.fixture
async def candidate(scripted: StartScripted) -> ScriptedServer:
    return await scripted(script=lambda number, body: [0.01, *good()], metrics=counters(90))


async def collect(out: Path, server: ScriptedServer, **given: Any) -> None:
    collector = find("reliability")
    plan = collector.plan({"duration_s": 0.05, **given})
    sides = target_of("r2", server.url), target_of("r1", "http://127.0.0.1:1")
    await collector.collect(*sides, out=out, plan=plan, progress=given.get("progress", lambda *_: None))


def record_in(out: Path) -> Reliability:
    (item,) = load_evidence(out).items
    assert item.problem is None
    assert isinstance(item.record, Reliability)
    return item.record


def restarting(server: ScriptedServer, *, fails_at: int | None = None) -> tuple[Handles, list[float]]:
    """A handle that restarts at once, and when it did."""
    restarts: list[float] = []

    async def restart() -> float:
        if len(restarts) == fails_at:
            raise asyncio.CancelledError
        restarts.append(time.perf_counter())
        server.metrics = counters(3, began=restarts[-1])
        return restarts[-1]

    return Handles(restart=restart), restarts


@pytest.fixture
def rehearsals(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Streams and tokens of each rehearsal, which all take 0.25 s to roll back and cut one stream."""
    asked: list[tuple[int, int]] = []

    async def rehearse(*_: Any, streams: int, tokens: int) -> Rehearsed:
        asked.append((streams, tokens))
        return Rehearsed(0.25, streams, streams - 1)

    monkeypatch.setattr(reliability, "rehearse", rehearse)
    return asked


@asynccontextmanager
async def route(candidate: Target, baseline: Target) -> AsyncIterator[Rehearsal]:
    assert (candidate.label, baseline.label) == ("r2", "r1")

    async def nothing() -> None: ...

    yield Rehearsal("http://127.0.0.1:1", nothing, nothing, nothing)


async def test_drills_are_written_beside_the_soak(
    tmp_path: Path, candidate: ScriptedServer, rehearsals: list[tuple[int, int]]
) -> None:
    handles, restarts = restarting(candidate)
    both = Handles(restart=handles.restart, rehearse=route)
    await collect(tmp_path, candidate, cold_starts=2, drain_streams=4, handles=both)
    record = record_in(tmp_path)
    assert len(record.cold_starts_s) == len(restarts) == 2
    assert record.rollback_drill_s == 0.25
    assert (record.streams_open_at_drain, record.streams_completed_at_drain) == (4, 3)
    assert rehearsals == [(4, 512)]


async def test_a_restart_that_was_a_drill_is_none_of_the_soak(tmp_path: Path, candidate: ScriptedServer) -> None:
    handles, _ = restarting(candidate)
    await collect(tmp_path, candidate, cold_starts=1, handles=handles)
    record = record_in(tmp_path)
    assert (record.restarts, record.crashes) == (0, 0)


async def test_cold_starts_that_are_done_are_kept(tmp_path: Path, candidate: ScriptedServer) -> None:
    handles, done = restarting(candidate, fails_at=2)
    with pytest.raises(asyncio.CancelledError):
        await collect(tmp_path, candidate, cold_starts=3, handles=handles)
    assert [path.name for path in tmp_path.rglob("*.*")] == [PARTIAL.name]
    asked = len(candidate.prompts)
    handles, again = restarting(candidate)
    await collect(tmp_path, candidate, cold_starts=3, handles=handles)
    assert (len(done), len(again)) == (2, 1)
    assert len(record_in(tmp_path).cold_starts_s) == 3
    assert len(candidate.prompts) == asked


async def test_a_rehearsal_under_other_streams_is_another_one(
    tmp_path: Path, candidate: ScriptedServer, rehearsals: list[tuple[int, int]]
) -> None:
    handles, _ = restarting(candidate, fails_at=0)
    both = Handles(restart=handles.restart, rehearse=route)
    for streams in (4, 4, 6):
        with pytest.raises(asyncio.CancelledError):
            await collect(tmp_path, candidate, cold_starts=1, drain_streams=streams, handles=both)
    assert rehearsals == [(4, 512), (6, 512)]


async def test_a_drill_that_takes_too_long_writes_nothing_and_says_how_to_go_on(
    tmp_path: Path, candidate: ScriptedServer
) -> None:
    async def never() -> float:
        await asyncio.sleep(60)
        return 0.0

    with pytest.raises(CollectError, match=r"the drills on r2 at .* are not finished after 0\.4 s"):
        await collect(tmp_path, candidate, cold_starts=1, handles=Handles(restart=never), max_seconds=0.4)
    assert list(tmp_path.rglob("*.evidence.json")) == []
    assert "seen" in (tmp_path / PARTIAL).read_text()


async def test_drills_are_paid_for_too(tmp_path: Path, candidate: ScriptedServer) -> None:
    async def never() -> float:
        await asyncio.sleep(60)
        return 0.0

    prices = tmp_path / "prices.yaml"
    prices.write_text(
        "schema: infercrane.prices/v1\ncurrency: USD\ndate: 2026-11-30\nsource: list\n"
        "prices: [{provider: local, accelerator: host, per_gpu_hour: 3.6}]\n"
    )
    given = {"cold_starts": 1, "handles": Handles(restart=never), "prices": prices, "max_cost": 0.0004}
    with pytest.raises(CollectError, match="not finished for max_cost"):
        await collect(tmp_path / "out", candidate, **given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"cold_starts": 1}, "cold starts need somebody who can restart the candidate"),
        ({"drain_streams": 1}, "a drain needs somebody who can rehearse it"),
        ({"cold_starts": 101}, "cold_starts is 101, from 0 to 100 are possible"),
        ({"drain_streams": -1}, "drain_streams is -1, from 0 to 1000 are possible"),
        ({"drain_tokens": 0}, "must be positive"),
    ],
)
def test_drills_are_bounded_and_need_a_handle(given: dict[str, Any], message: str) -> None:
    with pytest.raises(CollectError, match=message):
        find("reliability").plan({"duration_s": 1.0, **given})


def counting(*counts: int | None) -> Callable[[], int | None]:
    """Kills at the beginning of the soak, then at the end of each part."""
    told = iter(counts)
    return lambda: next(told)


@pytest.mark.parametrize(
    ("counts", "kills"), [((5, 5), 0), ((5, 7), 2), ((None, 7), None), ((5, None), None), ((5, 1), None)]
)
async def test_kills_for_lack_of_memory_are_those_of_the_soak(
    tmp_path: Path, candidate: ScriptedServer, counts: tuple[int | None, ...], kills: int | None
) -> None:
    await collect(tmp_path, candidate, handles=Handles(oom_kills=counting(*counts)))
    assert record_in(tmp_path).oom_kills == kills


async def test_progress_ends_when_the_last_drill_is_done(tmp_path: Path, candidate: ScriptedServer) -> None:
    handles, _ = restarting(candidate)
    seen: list[tuple[int, int]] = []
    show = lambda label, done, total: seen.append((done, total))  # noqa: E731
    await collect(tmp_path, candidate, cold_starts=2, handles=handles, progress=show)
    assert seen[-3:] == [(1, 3), (2, 3), (3, 3)]


async def test_what_is_kept_is_none_of_what_was_asked(tmp_path: Path, candidate: ScriptedServer) -> None:
    handles, _ = restarting(candidate, fails_at=1)
    with pytest.raises(asyncio.CancelledError):
        await collect(tmp_path, candidate, cold_starts=2, handles=handles)
    head, *blocks = map(json.loads, (tmp_path / PARTIAL).read_text().splitlines())
    assert [sorted(block) for block in blocks] == [
        ["ended_at", "records", "seconds", "seen"],
        ["cold_start_s", "ended_at", "seconds"],
    ]
    assert head["before"]["candidate"]["models"] == ["chat"]
