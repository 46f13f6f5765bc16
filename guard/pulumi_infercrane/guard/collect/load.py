"""The same load on two replicas, in turn: whatever else the machine does hits both sides alike.

Requests go in blocks, candidate and baseline alternating as ABBA. Within a block the load is a closed loop, where
`concurrency` requests are under way and the next one starts when one ends, or it is paced, where one starts every so
often. A block that both sides have finished is kept: a run that is interrupted goes on behind it.
"""

import asyncio
import math
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import repeat
from typing import Any, TypeVar

import aiohttp

from pulumi_infercrane.guard.collect.journal import Journal
from pulumi_infercrane.guard.collect.probes import probe, require_serving
from pulumi_infercrane.guard.collect.stream import Answer, Chat, ask, open_session
from pulumi_infercrane.guard.collect.target import CollectError, Progress, Target

LARGEST_BLOCK = 20
FEWEST_BLOCKS = 4

_T = TypeVar("_T")
_R = TypeVar("_R")


@dataclass(frozen=True)
class Question:
    """One request of the load, without the model's name; both sides get it once, under the same id."""

    id: str
    fields: Mapping[str, Any]


@dataclass(frozen=True)
class Measured:
    """One answer: the block it belongs to, and when it was asked, in seconds from the start of the run."""

    id: str
    block: int
    start_s: float
    answer: Answer


Describe = Callable[[Measured, Measured | None], Mapping[str, Any]]
"""The line about an answer. The second is the baseline's answer to the same question, for a line of the candidate."""


@dataclass(frozen=True)
class Load:
    """How the questions are asked, and what is kept of the answers. Answers to `warmup` are thrown away."""

    questions: Sequence[Question]
    warmup: Sequence[Question]
    concurrency: int
    describe: Describe
    max_seconds: float
    """For this call."""
    paid_seconds: float = math.inf
    """For all calls together: what the money allowed for it pays for."""
    rate: float | None = None
    """Requests a second, however many are under way then; None is the closed loop."""


@dataclass
class Side:
    """One replica with what was measured on it, in the order of the questions."""

    target: Target
    before: dict[str, Any] = field(default_factory=dict)
    after: dict[str, Any] = field(default_factory=dict)
    records: list[Mapping[str, Any]] = field(default_factory=list)
    seconds: float = 0.0
    """How long the load was on this side, pauses between requests of a paced load included."""
    busy_s: float = 0.0
    """How much of that some request was under way."""


@dataclass(frozen=True)
class Comparison:
    """The sides of one run, complete; a soak has only a candidate."""

    candidate: Side
    baseline: Side | None
    started_at: datetime
    ended_at: datetime
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    """Ties the two sides together: a baseline counts only beside the candidate it was measured in turn with."""

    @property
    def sides(self) -> tuple[tuple[str, Side], ...]:
        """By role, candidate first."""
        baseline = (("baseline", self.baseline),) if self.baseline else ()
        return ("candidate", self.candidate), *baseline


async def compare(candidate: Target, baseline: Target, load: Load, progress: Progress, journal: Journal) -> Comparison:
    """Put the load on both replicas, or what the journal says is left of it.

    Raises:
        CollectError: when a replica cannot be reached at the start, or the run is not over when time or money is.
    """
    run = _Run({"candidate": Side(candidate), "baseline": Side(baseline)}, load, progress, journal)
    spent = sum(sum(block["seconds"].values()) for block in journal.blocks)
    try:
        async with asyncio.timeout(min(load.max_seconds, load.paid_seconds - spent)), open_session() as session:
            return await run.carry_out(session)
    except TimeoutError as error:
        bound = f"after {load.max_seconds:g} s" if load.max_seconds < load.paid_seconds - spent else "for max_cost"
        raise CollectError(
            f"not finished {bound} ({run.done} of {run.total} requests), no evidence was written: the same command "
            "goes on behind the last finished block; allow more or ask less"
        ) from error


@dataclass
class _Run:
    sides: Mapping[str, Side]
    load: Load
    progress: Progress
    journal: Journal
    done: int = 0

    @property
    def total(self) -> int:
        return 2 * (len(self.load.warmup) + len(self.load.questions))

    async def carry_out(self, session: aiohttp.ClientSession) -> Comparison:
        for side in self.sides.values():
            await require_serving(session, side.target)
        before = {}
        for role, side in self.sides.items():
            await self._ask_all(session, side, self.load.warmup)
            before[role] = await probe(session, side.target)
        self.journal.begin(before)
        await self._ask_blocks(session)
        for side in self.sides.values():
            side.after = await probe(session, side.target)
        self._take_kept()
        return Comparison(self.sides["candidate"], self.sides["baseline"], self.journal.started, self.journal.ended)

    async def _ask_blocks(self, session: aiohttp.ClientSession) -> None:
        since = datetime.now(UTC) - self.journal.started
        zero = time.perf_counter() - since.total_seconds()
        kept = len(self.journal.blocks)
        for number, questions in enumerate(self._blocks()):
            if number < kept:
                self.done += 2 * len(questions)
            else:
                self.journal.append(await self._ask_both(session, number, questions, zero))

    def _blocks(self) -> Iterator[Sequence[Question]]:
        questions = self.load.questions
        size = math.ceil(len(questions) / FEWEST_BLOCKS)
        if self.load.rate is None:  # a paced load waits at the end of each block for what is under way: few ends
            size = max(self.load.concurrency, min(LARGEST_BLOCK, size))
        return (questions[first : first + size] for first in range(0, len(questions), size))

    async def _ask_both(
        self, session: aiohttp.ClientSession, number: int, questions: Sequence[Question], zero: float
    ) -> dict[str, Any]:
        """The lines of one block, as the journal keeps them."""
        measured: dict[str, list[Measured]] = {}
        seconds: dict[str, float] = {}
        busy: dict[str, float] = {}
        for role in ("candidate", "baseline") if number % 2 == 0 else ("baseline", "candidate"):
            begun = time.perf_counter()
            answers, busy[role] = await self._ask_all(session, self.sides[role], questions, self.load.rate)
            seconds[role] = round(time.perf_counter() - begun, 6)
            measured[role] = [
                Measured(question.id, number, start - zero, answer)
                for question, (start, answer) in zip(questions, answers, strict=True)
            ]
        describe, baseline = self.load.describe, measured["baseline"]
        records = {
            "candidate": [describe(*pair) for pair in zip(measured["candidate"], baseline, strict=True)],
            "baseline": [describe(one, None) for one in baseline],
        }
        return {"block": number, "seconds": seconds, "busy": busy, "records": records}

    def _take_kept(self) -> None:
        for role, side in self.sides.items():
            side.before = self.journal.before[role]
            side.records = [record for block in self.journal.blocks for record in block["records"][role]]
            side.seconds = math.fsum(block["seconds"][role] for block in self.journal.blocks)
            side.busy_s = math.fsum(block["busy"][role] for block in self.journal.blocks)

    async def _ask_all(
        self, session: aiohttp.ClientSession, side: Side, questions: Sequence[Question], rate: float | None = None
    ) -> tuple[list[tuple[float, Answer]], float]:
        """Start and answer of each question, in the order of the questions, and for how long any was under way."""
        meter = _Meter()

        async def ask_one(question: Question) -> tuple[float, Answer]:
            with meter.running() as begun:
                answer = await ask(session, side.target.base_url, Chat(side.target.model, question.fields))
            self.done += 1
            self.progress(side.target.label, self.done, self.total)
            return begun, answer

        if rate is None:
            answers = await _closed_loop(questions, self.load.concurrency, ask_one)
        else:
            answers = await _paced(questions, 1.0 / rate, ask_one)
        return answers, round(meter.busy_s, 6)


@dataclass
class _Meter:
    """For how long at least one request was under way."""

    busy_s: float = 0.0
    under_way: int = 0
    since: float = 0.0

    @contextmanager
    def running(self) -> Iterator[float]:
        """One more is under way; gives when it began."""
        begun = time.perf_counter()
        self.since = self.since if self.under_way else begun
        self.under_way += 1
        try:
            yield begun
        finally:
            self.under_way -= 1
            if not self.under_way:
                self.busy_s += time.perf_counter() - self.since


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


async def _paced(items: Sequence[_T], gap_s: float, run: Callable[[_T], Coroutine[None, None, _R]]) -> list[_R]:
    """One every `gap_s`, by the time the first began; over when the last one has ended and its gap is over too."""
    begun = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        tasks: list[asyncio.Task[_R]] = []
        for number, item in enumerate(items, start=1):
            tasks.append(group.create_task(run(item)))
            await asyncio.sleep(begun + number * gap_s - time.perf_counter())
    return [task.result() for task in tasks]
