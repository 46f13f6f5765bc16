"""More connections than there may be: idle ones leave, and who finds no room is told so."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass

import pytest

from pulumi_infercrane.router.relay.idle import Idle
from pulumi_infercrane.router.relay.relay import MAX_TURNED_AWAY
from tests.router.client import Client, chat
from tests.router.conftest import R1, Running, StartRouter, eventually, revision
from tests.router.upstream import Call, Upstream

MODELS = b"GET /v1/models HTTP/1.1\r\nHost: router\r\n\r\n"


@pytest.fixture
async def small(start_router: StartRouter, upstream: Upstream) -> Running:
    """Room for two."""
    router = await start_router(max_connections=2, linger_s=5)
    await router.put({R1: revision("r1", upstream.url)})
    await router.flip(R1)
    return router


@pytest.fixture
async def entering() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


async def connected(router: Running, entering: AsyncExitStack) -> Client:
    """A client the router knows of."""
    before = len(router.parts.relay.clients)
    client = await entering.enter_async_context(await router.client())
    await eventually(lambda: len(router.parts.relay.clients) > before)
    return client


async def busy(router: Running, upstream: Upstream, entering: AsyncExitStack) -> Client:
    upstream.script = Call.until_told
    client, before = await connected(router, entering), upstream.attempts
    await client.send(chat())
    await upstream.call(before)
    return client


async def test_one_too_many_is_told_to_come_again(small: Running, upstream: Upstream, entering: AsyncExitStack) -> None:
    leaving, _ = [await busy(small, upstream, entering) for _ in range(2)]
    third = await connected(small, entering)
    answer = await third.answer()
    assert (answer.status, answer.error, answer.header("retry-after")) == (503, "overloaded", "1")
    assert await third.until_closed() == b""
    third.hang_up()
    leaving.hang_up()
    await eventually(lambda: len(small.parts.relay.clients) == 1)
    assert (await (await connected(small, entering)).ask(MODELS)).status == 200
    assert small.reasons() == {"connections": 1}


async def test_a_flood_beyond_that_is_closed_without_an_answer(
    small: Running, upstream: Upstream, entering: AsyncExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pulumi_infercrane.router.relay.relay.MAX_TURNED_AWAY", 1)
    for _ in range(2):
        await busy(small, upstream, entering)
    told, not_told = [await entering.enter_async_context(await small.client()) for _ in range(2)]
    assert (await told.head()).status == 503
    assert await not_told.until_closed() == b""
    assert small.reasons() == {"connections": 2}
    assert MAX_TURNED_AWAY > 1


async def test_the_connection_that_is_idle_longest_makes_room(small: Running, entering: AsyncExitStack) -> None:
    used, stranger = [await connected(small, entering) for _ in range(2)]
    assert (await used.ask(MODELS)).status == 200
    newcomer = await entering.enter_async_context(await small.client())
    assert (await newcomer.ask(MODELS)).status == 200
    assert await stranger.until_closed() == b""
    assert (await used.ask(MODELS)).status == 200
    assert small.reasons() == {}


async def test_who_is_answered_stays(small: Running, upstream: Upstream, entering: AsyncExitStack) -> None:
    working, idle = await busy(small, upstream, entering), await connected(small, entering)
    newcomer = await entering.enter_async_context(await small.client())
    assert (await newcomer.ask(MODELS)).status == 200
    assert await idle.until_closed() == b""
    await eventually(lambda: len(small.parts.relay.clients) == 2)
    assert small.traffic().inflight == 1
    working.hang_up()


@dataclass
class Sitting:
    """A connection as far as it may have to leave."""

    idle_since: float | None
    leaves: bool = True

    def give_way(self) -> bool:
        return self.leaves


def test_a_flood_of_connections_is_no_flood_of_searches() -> None:
    now, clients = [0.0], [Sitting(3.0)]
    idle = Idle(clients, lambda: now[0], 1)
    assert idle.close_oldest()
    clients[:] = [Sitting(5.0)]
    assert not idle.close_oldest()
    now[0] = 1.0
    assert idle.close_oldest()


def test_who_has_begun_since_or_takes_an_answer_stays() -> None:
    clients = [Sitting(1.0), Sitting(2.0, leaves=False), Sitting(3.0), Sitting(None)]
    idle = Idle(clients, lambda: 0.0, 1)
    assert idle.close_oldest()
    clients[2].idle_since = None
    assert not idle.close_oldest()
