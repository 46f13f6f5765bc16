"""Drills with replicas and routes that do as told: what is timed, what is counted, and what is no figure."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest

from pulumi_infercrane.guard.collect import CollectError, Target
from pulumi_infercrane.guard.collect.drills import TRIES, Rehearsed, cold_start, rehearse
from pulumi_infercrane.guard.collect.handles import Rehearsal
from pulumi_infercrane.guard.collect.stream import open_session
from tests.guard.collect.scripted import CUT, ScriptedServer, StartScripted, Step, delta, finish, good, target_of

CANDIDATE, BASELINE = (target_of(name, "http://127.0.0.1:1").revision_digest for name in ("r2", "r1"))


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with open_session() as opened:
        yield opened


@dataclass
class Replica:
    """A replica that counts tokens, and loses that count when it is restarted."""

    server: ScriptedServer
    loads_s: float = 0.0
    restarts: int = 0

    def counts(self, tokens: int) -> None:
        self.server.metrics = f"llamacpp:prompt_tokens_total {tokens}\n"

    async def restart(self) -> float:
        self.restarts += 1
        self.counts(3)
        self.server.status = 503
        asyncio.get_running_loop().call_later(self.loads_s, self._load)
        return time.perf_counter()

    def _load(self) -> None:
        self.server.status = 200


async def test_a_cold_start_ends_with_a_complete_answer(
    scripted: StartScripted, session: aiohttp.ClientSession
) -> None:
    replica = Replica(await scripted(), loads_s=0.15)
    replica.counts(100)
    seconds = await cold_start(session, target_of("r2", replica.server.url), replica.restart)
    assert 0.15 <= seconds < 2
    assert replica.restarts == 1
    assert [body["max_tokens"] for body in replica.server.asked] == [1] * len(replica.server.asked)


async def test_a_process_that_goes_on_counting_was_not_restarted(
    scripted: StartScripted, session: aiohttp.ClientSession
) -> None:
    server = await scripted(metrics="llamacpp:prompt_tokens_total 100\n")

    async def pretend() -> float:
        return time.perf_counter()

    with pytest.raises(CollectError, match="the process is the same"):
        await cold_start(session, target_of("r2", server.url), pretend)


async def test_a_replica_that_shows_nothing_is_believed_to_be_restarted(
    scripted: StartScripted, session: aiohttp.ClientSession
) -> None:
    server = await scripted()

    async def restart() -> float:
        return time.perf_counter() - 5.0

    assert await cold_start(session, target_of("r2", server.url), restart) > 5.0


@dataclass
class Route:
    """A scripted stable address; streams of the candidate end, or are cut, when one of the `calls` was made."""

    server: ScriptedServer
    rolls_back_after_s: float = 0.0
    until: Sequence[str] = ("drain",)
    """By stream; the last one holds for all further ones."""
    cuts: bool = False
    calls: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.server.script = self.script
        self.server.revision = BASELINE

    def script(self, number: int, body: dict[str, Any]) -> Iterable[Step]:
        return good("ok") if body["max_tokens"] == 1 else self.stream(sum(self.streams) - 1)

    @property
    def streams(self) -> list[bool]:
        return [body["max_tokens"] > 1 for body in self.server.asked]

    def stream(self, number: int) -> Iterable[Step]:
        yield delta(content="a")
        while self.until[min(number, len(self.until) - 1)] not in self.calls:
            yield 0.01
            yield b": still here\n\n"
        yield CUT if self.cuts else finish()

    async def promote(self) -> None:
        self.calls.append("promote")
        self.server.revision = CANDIDATE

    async def roll_back(self) -> None:
        self.calls.append("roll back")
        asyncio.get_running_loop().call_later(self.rolls_back_after_s, self._serve_baseline)

    def _serve_baseline(self) -> None:
        self.server.revision = BASELINE

    async def drain(self) -> None:
        self.calls.append("drain")

    @property
    def handle(self) -> Rehearsal:
        return Rehearsal(self.server.url, self.promote, self.roll_back, self.drain)

    @property
    def sides(self) -> tuple[Target, Target]:
        return target_of("r2", self.server.url), target_of("r1", self.server.url)

    async def rehearse(self, session: aiohttp.ClientSession, streams: int = 3) -> Rehearsed:
        return await rehearse(session, *self.sides, self.handle, streams=streams, tokens=64)


async def test_a_rollback_is_over_when_the_baseline_has_answered(
    scripted: StartScripted, session: aiohttp.ClientSession
) -> None:
    route = Route(await scripted(), rolls_back_after_s=0.1)
    found = await route.rehearse(session)
    assert route.calls == ["promote", "roll back", "drain"]
    assert 0.1 <= found.rollback_s < 5
    assert (found.streams_open, found.streams_completed) == (3, 3)
    assert route.server.most_open == 4


async def test_streams_that_a_drain_cuts_are_counted(scripted: StartScripted, session: aiohttp.ClientSession) -> None:
    found = await Route(await scripted(), cuts=True).rehearse(session)
    assert (found.streams_open, found.streams_completed) == (3, 0)


async def test_only_streams_open_when_the_drain_begins_count(
    scripted: StartScripted, session: aiohttp.ClientSession
) -> None:
    route = Route(await scripted(), rolls_back_after_s=0.2, until=("roll back", "drain"))
    found = await route.rehearse(session)
    assert (found.streams_open, found.streams_completed) == (2, 2)


async def test_a_stream_that_ends_too_soon_is_followed_by_another(
    scripted: StartScripted, session: aiohttp.ClientSession
) -> None:
    route = Route(await scripted())
    waited = route.stream
    route.stream = lambda number: [finish()] if number < 2 else waited(number)  # type: ignore[method-assign]
    found = await route.rehearse(session)
    assert (found.streams_open, found.streams_completed) == (3, 3)
    assert sum(route.streams) == 5


async def test_streams_that_are_never_open_at_once_are_no_drill(
    scripted: StartScripted, session: aiohttp.ClientSession
) -> None:
    route = Route(await scripted())
    route.stream = lambda number: [finish()]  # type: ignore[method-assign]
    with pytest.raises(CollectError, match="too short to be open at once"):
        await route.rehearse(session, streams=2)
    assert sum(route.streams) == 2 * TRIES
    assert route.calls == ["promote"]


async def test_streams_that_end_before_the_drain_are_no_drill(
    scripted: StartScripted, session: aiohttp.ClientSession
) -> None:
    route = Route(await scripted(), rolls_back_after_s=0.2, until=("roll back",))
    with pytest.raises(CollectError, match="every stream had ended before the drain could begin"):
        await route.rehearse(session)
    assert route.calls == ["promote", "roll back"]


async def test_a_stream_that_fails_before_the_drain_is_no_drill(
    scripted: StartScripted, session: aiohttp.ClientSession
) -> None:
    route = Route(await scripted())
    route.stream = lambda number: [CUT]  # type: ignore[method-assign]
    with pytest.raises(CollectError, match="a stream failed before the drain could begin: truncated"):
        await route.rehearse(session)


async def test_a_rollback_that_never_comes_lasts_as_long_as_its_caller_allows(
    scripted: StartScripted, session: aiohttp.ClientSession
) -> None:
    route = Route(await scripted(), rolls_back_after_s=60.0)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await route.rehearse(session)
    for _ in range(100):
        if not route.server.open:
            break
        await asyncio.sleep(0.02)
    assert route.server.open == 0
