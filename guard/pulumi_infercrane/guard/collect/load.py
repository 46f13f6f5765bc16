"""The same load on two replicas, in turn: whatever else the machine does hits both sides alike.

Requests go in blocks, candidate and baseline alternating as ABBA. Within a block the load is a closed loop:
`concurrency` requests are under way, and the next one starts when one ends.
"""

import asyncio
import math
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import repeat
from typing import Any, TypeVar

import aiohttp

from pulumi_infercrane.guard.collect.probes import probe, require_serving
from pulumi_infercrane.guard.collect.stream import Answer, Chat, ask, open_session
from pulumi_infercrane.guard.collect.target import CollectError, Progress, Target

LARGEST_BLOCK = 20
FEWEST_BLOCKS = 4

_T = TypeVar("_T")
_R = TypeVar("_R")


@dataclass(frozen=True)
class Question:
    """One request of the load; both sides get it once, under the same id."""

    id: str
    prompt: str


@dataclass(frozen=True)
class Load:
    """How the questions are asked. Answers to `warmup` are thrown away."""

    questions: Sequence[Question]
    warmup: Sequence[Question]
    max_tokens: int
    concurrency: int
    max_seconds: float


@dataclass(frozen=True)
class Measured:
    """One answer: the block it belongs to, and when it was asked, in seconds from the start of the run."""

    id: str
    block: int
    start_s: float
    answer: Answer


@dataclass
class Side:
    """One replica with what was measured on it."""

    target: Target
    before: dict[str, Any] = field(default_factory=dict)
    after: dict[str, Any] = field(default_factory=dict)
    measured: list[Measured] = field(default_factory=list)


@dataclass(frozen=True)
class Comparison:
    """Both sides of one run, complete; answers in the order of the questions."""

    candidate: Side
    baseline: Side
    started_at: datetime
    ended_at: datetime
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    """Ties the two sides together: a baseline counts only beside the candidate it was measured in turn with."""

    @property
    def sides(self) -> tuple[tuple[str, Side], ...]:
        """By role, candidate first."""
        return ("candidate", self.candidate), ("baseline", self.baseline)


async def compare(candidate: Target, baseline: Target, load: Load, progress: Progress) -> Comparison:
    """Put the load on both replicas.

    Raises:
        CollectError: when a replica cannot be reached at the start, or the run is not over after `max_seconds`.
    """
    run = _Run(Side(candidate), Side(baseline), load, progress)
    try:
        async with asyncio.timeout(load.max_seconds), open_session() as session:
            return await run.carry_out(session)
    except TimeoutError as error:
        raise CollectError(
            f"not finished after {load.max_seconds:g} s ({run.done} of {run.total} requests), nothing was written: "
            "allow more time or ask less"
        ) from error


@dataclass
class _Run:
    candidate: Side
    baseline: Side
    load: Load
    progress: Progress
    done: int = 0

    @property
    def total(self) -> int:
        return 2 * (len(self.load.warmup) + len(self.load.questions))

    async def carry_out(self, session: aiohttp.ClientSession) -> Comparison:
        sides = (self.candidate, self.baseline)
        for side in sides:
            await require_serving(session, side.target)
        for side in sides:
            await self._ask_all(session, side, self.load.warmup)
            side.before = await probe(session, side.target)
        started, started_at = time.perf_counter(), datetime.now(UTC)
        for side, block, questions in self._blocks():
            answers = await self._ask_all(session, side, questions)
            side.measured += [
                Measured(question.id, block, begun - started, answer)
                for question, (begun, answer) in zip(questions, answers, strict=True)
            ]
        ended_at = datetime.now(UTC)
        for side in sides:
            side.after = await probe(session, side.target)
        return Comparison(self.candidate, self.baseline, started_at, ended_at)

    def _blocks(self) -> Iterator[tuple[Side, int, Sequence[Question]]]:
        questions = self.load.questions
        size = max(self.load.concurrency, min(LARGEST_BLOCK, math.ceil(len(questions) / FEWEST_BLOCKS)))
        order = (self.candidate, self.baseline)
        for block, first in enumerate(range(0, len(questions), size)):
            for side in order if block % 2 == 0 else reversed(order):
                yield side, block, questions[first : first + size]

    async def _ask_all(
        self, session: aiohttp.ClientSession, side: Side, questions: Sequence[Question]
    ) -> list[tuple[float, Answer]]:
        """Start and answer of each question, in the order of the questions."""

        async def ask_one(question: Question) -> tuple[float, Answer]:
            chat = Chat(side.target.model, question.prompt, self.load.max_tokens)
            begun = time.perf_counter()
            answer = await ask(session, side.target.base_url, chat)
            self.done += 1
            self.progress(side.target.label, self.done, self.total)
            return begun, answer

        return await _closed_loop(questions, self.load.concurrency, ask_one)


async def _closed_loop(items: Sequence[_T], concurrency: int, run: Callable[[_T], Awaitable[_R]]) -> list[_R]:
    results: dict[int, _R] = {}
    waiting = iter(enumerate(items))

    async def work() -> None:
        for index, item in waiting:
            results[index] = await run(item)

    async with asyncio.TaskGroup() as group:
        for _ in repeat(None, concurrency):
            group.create_task(work())
    return [results[index] for index in range(len(items))]
