"""What happens to a stream and to its outcome: probes C (client leaves), T (truncation and errors)."""

import asyncio
import contextlib
from time import monotonic

import pytest

from pulumi_infercrane.router.protocol.observer import Outcome
from tests.router.client import Client, chat
from tests.router.conftest import R1, Running, eventually
from tests.router.upstream import (
    ANSWER,
    DONE,
    LAST_CHUNK,
    STREAM_HEAD,
    Call,
    Upstream,
    chunk,
    delta,
    event,
    whole,
)

TOLD_S = 0.05


async def test_events_arrive_as_they_are_sent(router: Running, client: Client, upstream: Upstream) -> None:
    go_on = asyncio.Event()

    async def slowly(call: Call) -> None:
        await call.stream(delta("first"))
        await go_on.wait()
        await call.end_stream()

    upstream.script = slowly
    await client.send(chat())
    await client.head()
    first = await client.reader.readuntil(b"\n\n")
    assert b"first" in first
    go_on.set()
    assert (await client.reader.readuntil(LAST_CHUNK)).endswith(chunk(DONE) + LAST_CHUNK)
    assert await router.outcome() == Outcome.COMPLETE


async def leaves_after(upstream: Upstream, client: Client, sent: bytes, *, stream: bool) -> float:
    """Seconds from the client's leaving until the upstream is told."""

    async def generate(call: Call) -> None:
        if sent:
            await call.send(sent)
        await call.until_told()

    upstream.script = generate
    await client.send(chat(stream))
    call = await upstream.call()
    if sent:
        await client.head()
    left_at = monotonic()
    client.hang_up()
    await eventually(lambda: call.told_at is not None)
    assert call.told_at is not None
    return call.told_at - left_at


async def test_C1_client_leaves_mid_stream(router: Running, client: Client, upstream: Upstream) -> None:
    assert await leaves_after(upstream, client, STREAM_HEAD + chunk(delta()), stream=True) < TOLD_S
    assert await router.outcome() == Outcome.CLIENT_CANCELLED


async def test_C2_client_leaves_before_the_first_token(router: Running, client: Client, upstream: Upstream) -> None:
    assert await leaves_after(upstream, client, STREAM_HEAD, stream=True) < TOLD_S
    assert await router.outcome() == Outcome.CLIENT_CANCELLED


async def test_C3_client_leaves_a_request_without_streaming(
    router: Running, client: Client, upstream: Upstream
) -> None:
    assert await leaves_after(upstream, client, b"", stream=False) < TOLD_S
    assert await router.outcome() == Outcome.CLIENT_CANCELLED


async def test_N2_client_leaves_while_the_upstream_takes_its_request(
    router: Running, client: Client, upstream: Upstream
) -> None:
    upstream.reads_body, upstream.script = False, lambda _: asyncio.sleep(3600)
    await client.send(chat(padding="x" * 8_000_000))
    await upstream.call()
    left_at = monotonic()
    client.hang_up()
    assert await router.outcome() == Outcome.CLIENT_CANCELLED
    assert monotonic() - left_at < TOLD_S
    binding = router.parts.relay.routes.by_service["chat"].bindings[R1]
    assert [endpoint.pool.open for endpoint in binding.endpoints] == [0]


async def test_N2_client_leaves_without_having_read(router: Running, client: Client, upstream: Upstream) -> None:
    told = asyncio.Event()

    async def flood(call: Call) -> None:
        await call.send(STREAM_HEAD)
        with contextlib.suppress(ConnectionError):
            while True:
                await call.send(chunk(delta("x" * 60_000)))
        told.set()

    upstream.script = flood
    client.writer.transport.pause_reading()
    await client.send(chat())
    await upstream.call()
    (connection,) = router.parts.relay.clients
    await eventually(lambda: connection.stalled_since is not None)
    left_at = monotonic()
    client.hang_up()
    await eventually(told.is_set)
    assert monotonic() - left_at < TOLD_S
    assert await router.outcome() == Outcome.CLIENT_CANCELLED


async def test_a_client_that_stops_sending_counts_as_gone(router: Running, client: Client, upstream: Upstream) -> None:
    upstream.script = Call.until_told
    await client.send(chat())
    call = await upstream.call()
    client.writer.write_eof()
    await eventually(lambda: call.told_at is not None)
    assert await router.outcome() == Outcome.CLIENT_CANCELLED


async def test_C6_client_leaves_right_after_the_last_event(router: Running, client: Client, upstream: Upstream) -> None:
    usage = event({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}})

    async def nearly_end(call: Call) -> None:
        await call.stream(delta(), delta(finish="stop"), usage, DONE)
        await call.until_told()

    upstream.script = nearly_end
    await client.send(chat())
    await client.reader.readuntil(b"[DONE]\n\n")
    client.hang_up()
    assert await router.outcome() == Outcome.COMPLETE
    assert router.traffic().tokens == {("prompt", "usage"): 7, ("completion", "usage"): 2}


async def answered(upstream: Upstream, client: Client, *pieces: bytes, close: bool = False, reset: bool = False):
    """The router's answer when the upstream sends these pieces and then ends the connection in this way."""

    async def send(call: Call) -> None:
        await call.send(*pieces)
        if reset:
            await asyncio.sleep(0.02)
            call.reset()
        elif close:
            call.writer.close()

    upstream.script = send
    return await client.ask(chat())


async def test_T1_a_cut_stream_stays_cut(router: Running, client: Client, upstream: Upstream) -> None:
    sent = [chunk(delta(text)) for text in "abc"]
    answer = await answered(upstream, client, STREAM_HEAD, *sent, close=True)
    assert not answer.whole
    assert answer.raw == b"".join(sent)
    assert await router.outcome() == Outcome.TRUNCATED


async def test_T2_an_end_without_finish_reason_is_truncated(
    router: Running, client: Client, upstream: Upstream
) -> None:
    answer = await answered(upstream, client, STREAM_HEAD, chunk(delta()), LAST_CHUNK)
    assert answer.whole
    assert answer.body == delta()
    assert await router.outcome() == Outcome.TRUNCATED


async def test_T2_done_after_a_cut_does_not_make_it_complete(
    router: Running, client: Client, upstream: Upstream
) -> None:
    answer = await answered(upstream, client, STREAM_HEAD, chunk(delta()), chunk(DONE), LAST_CHUNK)
    assert answer.body == delta() + DONE
    assert await router.outcome() == Outcome.TRUNCATED


@pytest.mark.parametrize("after", [b"", chunk(DONE)])
async def test_T3_an_error_event_in_a_200_is_an_error(
    router: Running, client: Client, upstream: Upstream, after: bytes
) -> None:
    error = event({"error": {"message": "out of memory", "code": 500}})
    answer = await answered(upstream, client, STREAM_HEAD, chunk(delta()), chunk(error), after, LAST_CHUNK)
    client.hang_up()
    assert (answer.status, answer.body) == (200, delta() + error + (DONE if after else b""))
    assert await router.outcome() == Outcome.ERROR_EVENT


async def test_T3_the_client_leaving_after_an_error_event_does_not_hide_it(
    router: Running, client: Client, upstream: Upstream
) -> None:
    async def fail(call: Call) -> None:
        await call.stream(event({"error": {"message": "x"}}))
        await call.until_told()

    upstream.script = fail
    await client.send(chat())
    await client.reader.readuntil(b"\n\n")
    client.hang_up()
    assert await router.outcome() == Outcome.ERROR_EVENT


@pytest.mark.parametrize(
    "harmless", [delta('{"error": {"code": 1}}'), delta(error=None), delta(error=""), delta(error={})]
)
async def test_T4_the_word_error_is_no_error(
    router: Running, client: Client, upstream: Upstream, harmless: bytes
) -> None:
    answer = await answered(
        upstream, client, STREAM_HEAD, chunk(delta()), chunk(harmless), chunk(delta(finish="stop")), LAST_CHUNK
    )
    assert answer.whole
    assert await router.outcome() == Outcome.COMPLETE


async def test_T5_a_cut_after_partial_output_is_not_repeated(
    router: Running, client: Client, upstream: Upstream
) -> None:
    answer = await answered(upstream, client, STREAM_HEAD, chunk(delta("partial")), reset=True)
    assert not answer.whole
    assert answer.raw == chunk(delta("partial"))
    assert upstream.attempts == 1


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("before", [b"", b"HTTP/1.1 200 OK\r\nContent-"])
async def test_T6_an_end_before_the_head_is_502(
    router: Running, client: Client, upstream: Upstream, before: bytes, reset: bool
) -> None:
    answer = await answered(upstream, client, before, close=True, reset=reset)
    assert (answer.status, answer.error) == (502, "upstream_closed")
    assert upstream.attempts == 1
    assert await router.outcome() == Outcome.UPSTREAM_CLOSED


@pytest.mark.parametrize("status", ["429 Too Many Requests", "500 Internal Server Error", "503 Service Unavailable"])
async def test_T7_an_error_status_passes_unchanged(
    router: Running, client: Client, upstream: Upstream, status: str
) -> None:
    body = {"error": {"message": "busy", "code": 1}}
    answer = await answered(upstream, client, whole(body, status, b"Retry-After: 7\r\n"))
    assert f"{answer.status}" == status[:3]
    assert answer.body == whole(body).partition(b"\r\n\r\n")[2]
    assert answer.header("retry-after") == "7"
    assert answer.header("x-infercrane-error") is None
    assert upstream.attempts == 1
    assert await router.outcome() == Outcome.HTTP_ERROR


async def test_T8_an_event_with_broken_json_passes_and_is_unobserved(
    router: Running, client: Client, upstream: Upstream
) -> None:
    broken = b'data: {"choices":[{"delta":{"content":"x"}\n\n'
    answer = await answered(
        upstream, client, STREAM_HEAD, chunk(delta()), chunk(broken), chunk(delta(finish="stop")), LAST_CHUNK
    )
    assert broken in answer.body
    assert await router.outcome() == Outcome.UNOBSERVED


async def test_C7_a_client_that_reads_nothing_holds_little_and_is_cut(
    router: Running, upstream: Upstream, client: Client
) -> None:
    await router.put(
        {digest: r.document() for digest, r in router.parts.live.table("chat").declared.revisions.items()},
        timers={"client_stall_s": 0.2},
    )
    sent = held = 0

    async def flood(call: Call) -> None:
        nonlocal sent
        await call.send(STREAM_HEAD)
        piece = chunk(delta("x" * 60_000))
        while True:
            await call.send(piece)
            sent += len(piece)

    upstream.script = flood
    client.writer.transport.pause_reading()
    await client.send(chat())
    await upstream.call()
    (connection,) = router.parts.relay.clients
    while not router.outcomes():
        held = max(held, connection.transport.get_write_buffer_size())
        await asyncio.sleep(0.01)
    assert held < 512 * 1024
    assert sent < 16 * 1024 * 1024  # what the kernel takes for two connections; the stream has no end
    assert await router.outcome() == Outcome.CLIENT_CANCELLED
    await eventually(lambda: upstream.open == 0)


async def test_C8_a_full_buffer_at_the_end_does_not_block_the_next_request(
    router: Running, upstream: Upstream, client: Client
) -> None:
    large = whole({**ANSWER, "padding": "x" * 3_000_000})

    async def answer_large(call: Call) -> None:
        await call.send(large)

    upstream.script = answer_large
    for _ in range(3):
        await client.send(chat(stream=False))
        await asyncio.sleep(0.05)  # the client does not read: its buffer and the router's fill up
        assert (await client.answer()).whole
    assert router.outcomes() == {Outcome.COMPLETE: 3}
