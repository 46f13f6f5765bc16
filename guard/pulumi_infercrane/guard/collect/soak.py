"""A soak: a constant closed loop on one replica for a while, and what is seen of it from outside meanwhile.

It is kept in parts of a few seconds, as blocks of the journal with the counts of that part in `seen`.
"""

import asyncio
import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import aiohttp

from pulumi_infercrane.guard.collect.journal import Journal
from pulumi_infercrane.guard.collect.load import Question
from pulumi_infercrane.guard.collect.prompts import as_questions, generated_prompts
from pulumi_infercrane.guard.collect.stream import Chat, ask
from pulumi_infercrane.guard.collect.target import Target
from pulumi_infercrane.guard.collect.watch import Watch, look_on

KEEP_EVERY_S = 10.0
SHOW_EVERY_S = 1.0
PAUSE_AFTER_FAILURE_S = 0.25
"""A dead replica refuses thousands of requests a second: they would be all that is counted."""

Show = Callable[[float], None]

_PROMPTS = 1000
"""Different ones; they come again under another title."""


@dataclass(frozen=True)
class ClosedLoop:
    """What keeps the replica busy."""

    concurrency: int
    max_tokens: int
    random_seed: int


def parts(journal: Journal) -> Sequence[Mapping[str, Any]]:
    """What the journal has of a soak."""
    return [block for block in journal.blocks if "seen" in block]


def soaked_s(journal: Journal) -> float:
    """For how long the replica has been soaked."""
    return math.fsum(part["seconds"]["candidate"] for part in parts(journal))


@dataclass
class Soak:
    """One stretch of a soak, to be run once."""

    session: aiohttp.ClientSession
    target: Target
    load: ClosedLoop
    oom_kills: Callable[[], int | None]
    """Kills for lack of memory so far; None while nobody counts them."""
    journal: Journal
    watch: Watch = field(default_factory=Watch)
    finished: list[Mapping[str, Any]] = field(default_factory=list)
    """Since they were last kept."""
    kept_at: float = 0.0
    zero: float = 0.0
    """When the run began, by `time.perf_counter`."""
    kills: int | None = None
    """So far, when the last part was kept."""

    async def carry_out(self, seconds: float, show: Show) -> None:
        """Soak for so long; `show` gets the seconds that are left."""
        self.kept_at, self.kills = time.perf_counter(), self.oom_kills()
        self.zero = self.kept_at - (datetime.now(UTC) - self.journal.started).total_seconds()
        until = self.kept_at + seconds
        questions = _questions(self.load, self._last_id())
        watching = asyncio.create_task(look_on(self.session, self.target, self.watch))
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._keep_until(until, show))
                for _ in range(self.load.concurrency):
                    group.create_task(self._ask_until(until, questions))
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        self._keep()

    async def _ask_until(self, until: float, questions: Iterator[Question]) -> None:
        while (begun := time.perf_counter()) < until:
            question = next(questions)
            answer = await ask(self.session, self.target.base_url, Chat(self.target.model, question.fields))
            line = {"id": question.id, "start_s": round(begun - self.zero, 3), "outcome": answer.outcome}
            self.finished.append(line if answer.e2e_s is None else {**line, "e2e_s": round(answer.e2e_s, 6)})
            if answer.outcome == "connect_failed":
                self.watch.refused()
            if not answer.complete:
                await asyncio.sleep(PAUSE_AFTER_FAILURE_S)

    async def _keep_until(self, until: float, show: Show) -> None:
        while (left := until - time.perf_counter()) > 0:
            show(left)
            if time.perf_counter() - self.kept_at > KEEP_EVERY_S:
                self._keep()
            await asyncio.sleep(min(SHOW_EVERY_S, left))
        show(0.0)

    def _keep(self) -> None:
        """Keep what was finished since the last time; what is under way belongs to the next part."""
        now, kills = time.perf_counter(), self.oom_kills()
        seen = self.watch.take()
        if kills is not None and self.kills is not None and kills >= self.kills:
            seen["oom_kills"] = kills - self.kills
        part = {"seconds": {"candidate": round(now - self.kept_at, 6)}, "records": {"candidate": self.finished}}
        self.journal.append({**part, "seen": seen})
        self.finished, self.kept_at, self.kills = [], now, kills

    def _last_id(self) -> int:
        kept = (record["id"] for part in parts(self.journal) for record in part["records"]["candidate"])
        return max(map(int, kept), default=0)


def _questions(load: ClosedLoop, last: int) -> Iterator[Question]:
    """Without end; ids count on from `last`, over interruptions too."""
    prompts = generated_prompts(_PROMPTS, load.random_seed)
    number = itertools.count(last + 1)
    while True:
        for question in as_questions(prompts, load.max_tokens):
            yield Question(f"{next(number):06}", question.fields)
