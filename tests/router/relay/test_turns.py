"""Requests sent behind each other on one connection: each has its turn, and what waits is bounded."""

import asyncio

import pytest

from tests.router.client import Client, chat, request
from tests.router.conftest import Running, StartRouter, eventually
from tests.router.upstream import ANSWER, Call, Upstream, whole

MODELS = b"GET /v1/models HTTP/1.1\r\nHost: router\r\n\r\n"
LIMIT = 64 * 1024


async def test_what_waits_is_bounded_however_many_answers_came(
    router: Running, client: Client, upstream: Upstream
) -> None:
    go_on = asyncio.Semaphore(0)

    async def when_told(call: Call) -> None:
        await go_on.acquire()
        await call.send(whole(ANSWER))

    upstream.script = when_told
    burst = chat(False) * (LIMIT // len(chat(False)))
    await client.send(chat(False))
    await upstream.call()
    (connection,) = router.parts.relay.clients
    for number in range(1, 10):
        client.writer.write(burst)
        await asyncio.sleep(0.02)
        waiting = len(connection._waiting) * len(chat(False)) + len(connection._held)
        assert waiting <= 2 * LIMIT
        if connection.transport.is_closing():
            break
        go_on.release()
        await upstream.call(number)
    assert connection.transport.is_closing()


async def test_a_thousand_answers_of_our_own_come_one_by_one(router: Running, client: Client) -> None:
    await client.send(MODELS * 1000)
    assert [(await client.answer()).status for _ in range(1000)] == [200] * 1000


async def test_more_requests_at_once_than_may_wait_end_the_connection(router: Running, client: Client) -> None:
    await client.send(MODELS * 6000)
    assert (await client.until_closed()).count(b"HTTP/1.1 200") < 6000


async def test_others_are_served_between_the_answers_to_one(router: Running, client: Client) -> None:
    async with await router.client() as other:
        await client.send(MODELS * 1000)
        assert (await other.ask(MODELS)).status == 200
        (busy,) = [one for one in router.parts.relay.clients if one._waiting]
        assert len(busy._waiting) > 500


async def test_the_turns_keep_their_order(router: Running, client: Client, upstream: Upstream) -> None:
    await client.send(MODELS + chat(False) + chat(False, model="nobody") + MODELS + b"nonsense\r\n\r\n")
    assert [(await client.answer()).status for _ in range(5)] == [200, 200, 404, 200, 400]
    assert await client.until_closed() == b""
    await eventually(lambda: not router.parts.relay.clients)


async def test_errors_keep_a_connection_open_as_answers_do(start_router: StartRouter, upstream: Upstream) -> None:
    router = await start_router(idle_s=0.2)
    async with await router.client() as client:
        for _ in range(8):
            assert (await client.ask(chat(False, model="nobody"))).status == 404
            await asyncio.sleep(0.05)


BODY = b'{"model":"chat"}'


def expecting(body: bytes) -> bytes:
    """The head of a request whose body comes when it is asked for."""
    return request(body, "Expect: 100-continue").removesuffix(body)


@pytest.fixture
def held(upstream: Upstream) -> asyncio.Event:
    """Set, the model server answers."""
    go_on = asyncio.Event()

    async def when_told(call: Call) -> None:
        await go_on.wait()
        await call.send(whole(ANSWER))

    upstream.script = when_told
    return go_on


@pytest.mark.parametrize("at_once", [True, False], ids=["with the request before it", "while that is answered"])
async def test_a_client_is_told_to_continue_when_it_is_its_turn(
    client: Client, upstream: Upstream, held: asyncio.Event, at_once: bool
) -> None:
    for data in [chat(False) + expecting(BODY)] if at_once else [chat(False), expecting(BODY)]:
        await client.send(data)
        await upstream.call()
    held.set()
    assert (await client.answer()).status == 200
    assert (await client.head()).status == 100
    assert (await client.ask(BODY)).status == 200


async def test_a_client_that_has_not_waited_is_not_told(
    client: Client, upstream: Upstream, held: asyncio.Event
) -> None:
    await client.send(chat(False) + expecting(BODY) + BODY[:4])
    await upstream.call()
    await client.send(BODY[4:])
    held.set()
    assert [(await client.answer()).status for _ in range(2)] == [200, 200]
