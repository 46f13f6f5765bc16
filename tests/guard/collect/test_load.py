"""Both sides get the same questions, in turn, in blocks, with a bound on what is under way."""

import asyncio

import pytest

from pulumi_infercrane.guard.collect import CollectError
from pulumi_infercrane.guard.collect.load import Load, Question, compare
from tests.guard.collect.scripted import CUT, StartScripted, delta, good, target_of


def questions(count: int, name: str = "q") -> list[Question]:
    return [Question(f"{name}{number}", f"{name} {number}") for number in range(count)]


def load_of(count: int, *, warmup: int = 0, concurrency: int = 1, max_seconds: float = 30.0) -> Load:
    return Load(questions(count), questions(warmup, "w"), 8, concurrency, max_seconds)


def nothing(label: str, done: int, total: int) -> None:
    """No progress is shown."""


async def both(scripted: StartScripted, load: Load, progress=nothing, **settings: object):
    candidate, baseline = await scripted(**settings), await scripted()
    run = await compare(target_of("r2", candidate.url), target_of("r1", baseline.url), load, progress)
    return run, candidate, baseline


async def test_every_question_goes_once_to_each_side(scripted: StartScripted) -> None:
    run, candidate, baseline = await both(scripted, load_of(10, concurrency=3))
    assert sorted(candidate.prompts) == sorted(baseline.prompts) == sorted(q.prompt for q in questions(10))
    assert [measured.id for measured in run.candidate.measured] == [q.id for q in questions(10)]


async def test_blocks_alternate_as_abba(scripted: StartScripted) -> None:
    order: list[str] = []
    await both(scripted, load_of(8), lambda label, done, total: order.append(label))
    assert order == ["r2", "r2", "r1", "r1", "r1", "r1", "r2", "r2"] * 2


async def test_blocks_are_recorded(scripted: StartScripted) -> None:
    run, *_ = await both(scripted, load_of(8))
    assert [measured.block for measured in run.baseline.measured] == [0, 0, 1, 1, 2, 2, 3, 3]
    starts = [measured.start_s for measured in run.baseline.measured]
    assert starts == sorted(starts)


async def test_concurrency_is_kept_and_not_exceeded(scripted: StartScripted) -> None:
    _, candidate, _ = await both(scripted, load_of(24, concurrency=3), script=lambda number, body: [0.02, *good()])
    assert candidate.most_open == 3


async def test_warmup_is_thrown_away(scripted: StartScripted) -> None:
    run, candidate, _ = await both(scripted, load_of(4, warmup=2))
    assert candidate.prompts[:2] == ["w 0", "w 1"]
    assert [measured.id for measured in run.candidate.measured] == ["q0", "q1", "q2", "q3"]


async def test_progress_counts_both_sides_and_warmup(scripted: StartScripted) -> None:
    seen: list[tuple[int, int]] = []
    await both(scripted, load_of(4, warmup=1), lambda label, done, total: seen.append((done, total)))
    assert seen == [(number, 10) for number in range(1, 11)]


async def test_failures_are_recorded_not_raised(scripted: StartScripted) -> None:
    def script(number, body):
        return [delta(content="a"), CUT] if "3" in body["messages"][0]["content"] else good()

    run, *_ = await both(scripted, load_of(5), script=script)
    outcomes = [measured.answer.outcome for measured in run.candidate.measured]
    assert outcomes == ["complete"] * 3 + ["truncated", "complete"]


async def test_a_replica_that_dies_under_way_is_a_series_of_failures(scripted: StartScripted) -> None:
    candidate, baseline = await scripted(), await scripted()

    def progress(label: str, done: int, total: int) -> None:
        if done == 2:
            asyncio.get_running_loop().create_task(candidate.stop())

    run = await compare(target_of("r2", candidate.url), target_of("r1", baseline.url), load_of(8), progress)
    assert run.candidate.measured[-1].answer.outcome == "connect_failed"
    assert all(measured.answer.complete for measured in run.baseline.measured)
    assert run.candidate.after == {}


async def test_time_is_bounded(scripted: StartScripted) -> None:
    with pytest.raises(CollectError, match=r"not finished after 0\.3 s \(\d+ of 40 requests\), nothing was written"):
        await both(scripted, load_of(20, max_seconds=0.3), script=lambda number, body: [0.1, *good()])
