"""Drills on the candidate: how long a cold start takes, how long a rollback, and what a drain cuts.

A drill that does not come to its end is no figure: it raises, or waits until the caller's time is over. So the rule on
it stays unknown.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from pulumi_infercrane.guard.collect.handles import Rehearsal
from pulumi_infercrane.guard.collect.load import Question
from pulumi_infercrane.guard.collect.probes import look
from pulumi_infercrane.guard.collect.prompts import as_questions, generated_prompts
from pulumi_infercrane.guard.collect.stream import Answer, Chat, ask, prompt
from pulumi_infercrane.guard.collect.target import CollectError, Target
from pulumi_infercrane.guard.collect.watch import began_anew

ASK_EVERY_S = 0.02
"""Pause after an answer that was not the one waited for; a time may be too long by so much."""
TRIES = 5
"""How many streams may be opened for each that is to be open when the drain begins."""

_SHORT: Mapping[str, Any] = prompt("Hello", 1)
_PROMPTS_START = 1


@dataclass(frozen=True)
class Rehearsed:
    """What a rehearsal of rollback and drain showed."""

    rollback_s: float
    """From asking for the rollback to the end of the baseline's first answer at the stable address."""
    streams_open: int
    """Streams of the candidate that were under way when its drain began."""
    streams_completed: int


async def cold_start(
    session: aiohttp.ClientSession, candidate: Target, restart: Callable[[], Awaitable[float]]
) -> float:
    """Seconds from the start of the candidate's process to the end of its first complete answer, of one token.

    Raises:
        CollectError: it could not be restarted, or what it says of itself shows that it was not.
    """
    await _first_answer(session, candidate)  # its counters now say more than those of a new process will
    before = await look(session, candidate)
    started = await restart()
    await _first_answer(session, candidate)
    seconds = time.perf_counter() - started
    after = await look(session, candidate)
    if before.tells and after.tells and not began_anew(before, after):
        raise CollectError(f"{candidate.name} was to be restarted, but its counters go on: the process is the same")
    return seconds


async def rehearse(
    session: aiohttp.ClientSession, candidate: Target, baseline: Target, route: Rehearsal, *, streams: int, tokens: int
) -> Rehearsed:
    """Promote the candidate, open so many streams of so many tokens, roll back under them, drain, and count.

    Raises:
        CollectError: the route refused, a stream failed before the drain, or the streams were too short to be drained.
    """
    await route.promote()
    await _first_answer(session, candidate, route)
    questions = as_questions(generated_prompts(streams * TRIES, _PROMPTS_START), tokens)
    kept = _Streams(session, candidate.model, route.base_url, iter(questions))
    async with kept.under_way(streams) as tasks:
        asked = time.perf_counter()
        await route.roll_back()
        await _first_answer(session, baseline, route)
        rollback_s = time.perf_counter() - asked
        left = [task for task in tasks if not task.done()]
        if not left:
            raise CollectError("every stream had ended before the drain could begin: ask for longer ones")
        await route.drain()
        answers = await asyncio.gather(*left)
    return Rehearsed(rollback_s, len(answers), sum(answer.complete for answer in answers))


async def _first_answer(session: aiohttp.ClientSession, side: Target, route: Rehearsal | None = None) -> None:
    """Ask until that side answers: its replica, or the stable address of a route."""
    base_url = route.base_url if route else side.base_url
    while True:
        answer = await ask(session, base_url, Chat(side.model, _SHORT))
        if answer.complete and (route is None or answer.revision == side.revision_digest):
            return
        await asyncio.sleep(ASK_EVERY_S)


@dataclass
class _Streams:
    """Streams that are kept under way: one that ends is followed by another, until the drill begins."""

    session: aiohttp.ClientSession
    model: str
    base_url: str
    questions: Iterator[Question]
    """All that may be asked."""
    begun: set[int] = field(default_factory=set)
    """Those that have brought text and not ended."""
    followed: bool = True

    @asynccontextmanager
    async def under_way(self, streams: int) -> AsyncIterator[list[asyncio.Task[Answer]]]:
        """The tasks of so many streams, all of which have begun; each gives the answer of its last stream."""
        tasks = [asyncio.create_task(self._keep(number)) for number in range(streams)]
        try:
            while len(self.begun) < streams:
                for task in tasks:
                    if task.done():
                        task.result()
                await asyncio.sleep(ASK_EVERY_S)
            self.followed = False
            yield tasks
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _keep(self, number: int) -> Answer:
        for question in self.questions:
            chat = Chat(self.model, question.fields)
            answer = await ask(self.session, self.base_url, chat, begun=lambda: self.begun.add(number))
            if not self.followed:
                return answer
            self.begun.discard(number)
            if not answer.complete:
                raise CollectError(f"a stream failed before the drain could begin: {answer.outcome}")
        raise CollectError("the streams are too short to be open at once: ask for fewer or longer ones")
