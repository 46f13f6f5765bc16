"""Both sides get the same questions, in turn, in blocks, with a bound on what is under way."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pulumi_infercrane.guard.collect import CollectError
from pulumi_infercrane.guard.collect.journal import Journal
from pulumi_infercrane.guard.collect.load import Load, Measured, Question, compare
from pulumi_infercrane.guard.collect.stream import prompt
from tests.guard.collect.scripted import CUT, StartScripted, delta, good, target_of


def questions(count: int, name: str = "q") -> list[Question]:
    return [Question(f"{name}{number}", prompt(f"{name} {number}", 8)) for number in range(count)]


def texts(count: int, name: str = "q") -> list[str]:
    return [f"{name} {number}" for number in range(count)]


def describe(measured: Measured, other: Measured | None) -> dict[str, Any]:
    beside = other.answer.outcome if other else None
    answer = measured.answer
    return {"id": measured.id, "block": measured.block, "start_s": measured.start_s, "outcome": answer.outcome} | (
        {"beside": beside} if other else {}
    )


def load_of(count: int, *, warmup: int = 0, concurrency: int = 1, max_seconds: float = 30.0, **more: Any) -> Load:
    return Load(questions(count), questions(warmup, "w"), concurrency, describe, max_seconds, **more)


def nothing(label: str, done: int, total: int) -> None:
    """No progress is shown."""


@pytest.fixture
def both(tmp_path: Path, scripted: StartScripted):
    async def both(load: Load, progress=nothing, **settings: object):
        candidate, baseline = await scripted(**settings), await scripted()
        sides = target_of("r2", candidate.url), target_of("r1", baseline.url)
        with Journal(tmp_path / "x.partial.jsonl", "sha256:x") as journal:
            run = await compare(*sides, load, progress, journal)
        return run, candidate, baseline

    return both


async def test_every_question_goes_once_to_each_side(both) -> None:
    run, candidate, baseline = await both(load_of(10, concurrency=3))
    assert sorted(candidate.prompts) == sorted(baseline.prompts) == sorted(texts(10))
    assert [one["id"] for one in run.candidate.records] == [q.id for q in questions(10)]


async def test_blocks_alternate_as_abba(both) -> None:
    order: list[str] = []
    await both(load_of(8), lambda label, done, total: order.append(label))
    assert order == ["r2", "r2", "r1", "r1", "r1", "r1", "r2", "r2"] * 2


async def test_blocks_are_recorded(both) -> None:
    run, *_ = await both(load_of(8))
    assert [one["block"] for one in run.baseline.records] == [0, 0, 1, 1, 2, 2, 3, 3]
    starts = [one["start_s"] for one in run.baseline.records]
    assert starts == sorted(starts)


async def test_concurrency_is_kept_and_not_exceeded(both) -> None:
    _, candidate, _ = await both(load_of(24, concurrency=3), script=lambda number, body: [0.02, *good()])
    assert candidate.most_open == 3


async def test_warmup_is_thrown_away(both) -> None:
    run, candidate, _ = await both(load_of(4, warmup=2))
    assert candidate.prompts[:2] == ["w 0", "w 1"]
    assert [one["id"] for one in run.candidate.records] == ["q0", "q1", "q2", "q3"]


async def test_progress_counts_both_sides_and_warmup(both) -> None:
    seen: list[tuple[int, int]] = []
    await both(load_of(4, warmup=1), lambda label, done, total: seen.append((done, total)))
    assert seen == [(number, 10) for number in range(1, 11)]


async def test_failures_are_recorded_not_raised(both) -> None:
    def script(number, body):
        return [delta(content="a"), CUT] if "3" in body["messages"][0]["content"] else good()

    run, *_ = await both(load_of(5), script=script)
    outcomes = [one["outcome"] for one in run.candidate.records]
    assert outcomes == ["complete"] * 3 + ["truncated", "complete"]


async def test_a_replica_that_dies_under_way_is_a_series_of_failures(tmp_path: Path, scripted: StartScripted) -> None:
    candidate, baseline = await scripted(), await scripted()

    def progress(label: str, done: int, total: int) -> None:
        if done == 2:
            asyncio.get_running_loop().create_task(candidate.stop())

    sides = target_of("r2", candidate.url), target_of("r1", baseline.url)
    with Journal(tmp_path / "x.partial.jsonl", "sha256:x") as journal:
        run = await compare(*sides, load_of(8), progress, journal)
    assert run.candidate.records[-1]["outcome"] == "connect_failed"
    assert all(one["outcome"] == "complete" for one in run.baseline.records)
    assert run.candidate.after == {}


async def test_the_line_of_the_candidate_is_written_with_both_answers_at_hand(both) -> None:
    run, *_ = await both(load_of(4), script=lambda number, body: [CUT])
    assert {(one["outcome"], one["beside"]) for one in run.candidate.records} == {("truncated", "complete")}
    assert not any("beside" in one for one in run.baseline.records)


async def test_each_side_is_charged_for_its_own_time(both) -> None:
    run, *_ = await both(load_of(8, concurrency=2), script=lambda number, body: [0.05, *good()])
    assert run.candidate.seconds >= 0.2
    assert run.baseline.seconds < run.candidate.seconds


async def test_time_is_bounded(both) -> None:
    with pytest.raises(
        CollectError, match=r"not finished after 0\.3 s \(\d+ of 40 requests\), no evidence was written"
    ):
        await both(load_of(20, max_seconds=0.3), script=lambda number, body: [0.1, *good()])


async def test_money_is_bounded(both) -> None:
    with pytest.raises(CollectError, match=r"not finished for max_cost \(\d+ of 40 requests\)"):
        await both(load_of(20, paid_seconds=0.3), script=lambda number, body: [0.1, *good()])
