"""Everything is bounded: probes L, the timers, and which paths exist (K1, K7)."""

import asyncio
import gc
import json
import socket

import pytest

from pulumi_infercrane.router.protocol.observer import Observer, Outcome
from pulumi_infercrane.router.protocol.request import Limits
from pulumi_infercrane.router.protocol.response import ResponseReader
from pulumi_infercrane.router.relay import uploads
from pulumi_infercrane.router.relay.exchange import Exchange
from pulumi_infercrane.router.routing.upstream import REST_S
from tests.router.client import Client, chat, request
from tests.router.conftest import R1, R2, Running, StartRouter, eventually, revision
from tests.router.upstream import ANSWER, Call, Upstream, delta, whole

LIMIT = 256 * 1024


def sized(size: int) -> bytes:
    """A body of exactly this size."""
    start, end = b'{"model":"chat","x":"', b'"}'
    return start + b"x" * (size - len(start) - len(end)) + end


def chunked(body: bytes) -> bytes:
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    pieces = [body[at : at + 50_000] for at in range(0, len(body), 50_000)]
    return head + b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


async def serving(start_router: StartRouter, upstream: Upstream, **settings: object) -> Running:
    router = await start_router(**settings)
    await router.put({R1: revision("r1", upstream.url)})
    await router.flip(R1)
    return router


@pytest.mark.parametrize("framed", [request, chunked])
@pytest.mark.parametrize("size", [33 * 1024, 129_000, LIMIT - 1, LIMIT])
async def test_L1_bodies_up_to_the_limit_arrive(start_router: StartRouter, upstream: Upstream, size, framed) -> None:
    router = await serving(start_router, upstream, limits=Limits(body=LIMIT))
    async with await router.client() as client:
        assert (await client.ask(framed(sized(size)))).status == 200
    assert len(upstream.calls[0].body) == size + len("org/model") - len("chat")


async def test_L1_eight_megabytes_arrive(router: Running, client: Client, upstream: Upstream) -> None:
    assert (await client.ask(request(sized(8_000_000)))).status == 200
    assert len(upstream.calls[0].body) == 8_000_005


@pytest.mark.parametrize("framed", [request, chunked])
async def test_bodies_on_their_way_are_bounded_together(
    start_router: StartRouter, upstream: Upstream, framed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thirty clients that never sent their last byte held 430 MiB."""
    monkeypatch.setattr(uploads, "MOST", 0)
    router = await serving(start_router, upstream, limits=Limits(body=LIMIT))
    held, body = router.parts.relay.uploads, framed(sized(LIMIT))
    clients = [await router.client() for _ in range(5)]
    for client in clients:
        await client.send(body[:-1])
    await eventually(lambda: held.held >= 5 * (LIMIT - uploads.SMALL - 1))
    async with await router.client() as late, await router.client() as small:
        await late.send(body[:-1])
        refused = await late.answer()
        assert (refused.status, refused.error, refused.header("retry-after")) == (503, "overloaded", "1")
        assert (await small.ask(chat(text="x" * 50_000))).status == 200
    assert router.reasons() == {"uploads": 1}
    clients.pop().hang_up()
    await eventually(lambda: held.held < 5 * (LIMIT - uploads.SMALL - 1))
    for client in clients:
        assert (await client.ask(body[-1:])).status == 200
        client.hang_up()
    assert held.held == 0


@pytest.mark.parametrize("framed", [request, chunked])
async def test_L1_a_larger_body_is_413_and_reaches_nobody(
    start_router: StartRouter, upstream: Upstream, framed
) -> None:
    router = await serving(start_router, upstream, limits=Limits(body=LIMIT))
    async with await router.client() as client:
        answer = await client.ask(framed(sized(LIMIT + 1)))
        assert (answer.status, answer.error) == (413, "body_too_large")
        assert await client.until_closed() == b""
    assert upstream.attempts == 0


@pytest.mark.parametrize(
    "head",
    [
        b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\n",
        b"GET /v1/models HTTP/1.1\r\nX: " + b"x" * 40_000 + b"\r\n\r\n",
        b"GET /v1/models HTTP/1.1\r\n" + b"X: y\r\n" * 101 + b"\r\n",
        b"GET /v1/models HTTP/1.1\r\nX: " + b"x" * 10_000_000,
    ],
    ids=["request line", "one header", "many headers", "endless header"],
)
async def test_L1_a_larger_head_is_431(router: Running, client: Client, head: bytes) -> None:
    await client.send(head)
    assert (await client.answer()).status == 431


@pytest.mark.parametrize("sent", [b"", b"POST /v1/chat/completions HTTP/1.1\r\nX-Slow: "])
async def test_L2_a_head_that_does_not_come_closes_the_connection(
    start_router: StartRouter, upstream: Upstream, sent: bytes
) -> None:
    router = await serving(start_router, upstream, head_s=0.1)
    async with await router.client() as client:
        dripping = asyncio.create_task(drip(client, sent))
        assert await client.until_closed() == b""
        dripping.cancel()


async def test_L2_a_body_that_does_not_come_closes_the_connection(
    start_router: StartRouter, upstream: Upstream
) -> None:
    router = await serving(start_router, upstream, body_s=0.1)
    async with await router.client() as client:
        await client.send(request(sized(100))[:-50])
        dripping = asyncio.create_task(drip(client, b"x"))
        await client.until_closed()
        dripping.cancel()
    assert upstream.attempts == 0


async def drip(client: Client, piece: bytes) -> None:
    for _ in range(30):
        await client.send(piece)
        piece = b"x" if piece else b""
        await asyncio.sleep(0.01)


async def test_an_idle_client_connection_is_closed(start_router: StartRouter, upstream: Upstream) -> None:
    router = await serving(start_router, upstream, idle_s=0.1)
    async with await router.client() as client:
        assert (await client.ask(chat())).whole
        assert await client.until_closed() == b""


async def test_bytes_pipelined_behind_a_busy_request_are_bounded(
    router: Running, client: Client, upstream: Upstream
) -> None:
    upstream.script = Call.until_told
    await client.send(chat())
    call = await upstream.call()
    await client.send(request(sized(70_000)))
    await client.until_closed()
    await eventually(lambda: call.told_at is not None)
    assert upstream.attempts == 1


async def with_timers(router: Running, upstream: Upstream, **timers: float) -> None:
    await router.put({R1: revision("r1", upstream.url)}, timers=timers)


async def test_L7_no_head_in_time_is_504(router: Running, client: Client, upstream: Upstream) -> None:
    await with_timers(router, upstream, first_byte_s=0.1)
    upstream.script = Call.until_told
    answer = await client.ask(chat())
    assert (answer.status, answer.error) == (504, "upstream_timeout")
    assert await router.outcome() == Outcome.FIRST_BYTE_TIMEOUT
    await eventually(lambda: upstream.calls[0].told_at is not None)


async def test_L7_a_head_without_an_event_in_time_breaks(router: Running, client: Client, upstream: Upstream) -> None:
    await with_timers(router, upstream, first_byte_s=0.1)

    async def silent(call: Call) -> None:
        await call.stream()
        await call.until_told()

    upstream.script = silent
    assert not (await client.ask(chat())).whole
    assert await router.outcome() == Outcome.FIRST_BYTE_TIMEOUT


async def test_L7_comments_are_no_sign_of_life(router: Running, client: Client, upstream: Upstream) -> None:
    await with_timers(router, upstream, gap_s=0.2)

    async def comments(call: Call) -> None:
        await call.stream(delta())
        while True:
            await asyncio.sleep(0.02)
            await call.send(b"3\r\n:\n\n\r\n")

    upstream.script = comments
    answer = await client.ask(chat())
    assert not answer.whole
    assert await router.outcome() == Outcome.IDLE_TIMEOUT


async def test_L7_events_are(router: Running, client: Client, upstream: Upstream) -> None:
    await with_timers(router, upstream, gap_s=0.2)

    async def slow(call: Call) -> None:
        await call.stream()
        for _ in range(8):
            await asyncio.sleep(0.05)
            await call.send(b"%x\r\n%b\r\n" % (len(delta()), delta()))
        await call.end_stream()

    upstream.script = slow
    assert (await client.ask(chat())).whole
    assert await router.outcome() == Outcome.COMPLETE


async def test_L7_a_whole_answer_may_come_slowly_but_not_stop_coming(
    router: Running, client: Client, upstream: Upstream
) -> None:
    await with_timers(router, upstream, first_byte_s=0.2)
    head, _, body = whole(ANSWER).partition(b"\r\n\r\n")

    async def slow(call: Call) -> None:
        await call.send(head + b"\r\n\r\n")
        for at in range(0, len(body), 10):
            await asyncio.sleep(0.05)
            await call.send(body[at : at + 10])

    upstream.script = slow
    assert (await client.ask(chat(stream=False))).whole
    assert await router.outcome() == Outcome.COMPLETE


@pytest.mark.parametrize("count", [101, pytest.param(1001, marks=pytest.mark.processes)])
async def test_L4_there_is_no_hidden_cap_of_concurrent_streams(router: Running, upstream: Upstream, count: int) -> None:
    go_on = asyncio.Event()

    async def wait_for_all(call: Call) -> None:
        await call.stream(delta())
        await go_on.wait()
        await call.end_stream()

    async def one() -> bool:
        async with await router.client() as client:
            return (await client.ask(chat())).whole

    upstream.script = wait_for_all
    asking = [asyncio.create_task(one()) for _ in range(count)]
    await eventually(lambda: router.traffic().inflight == upstream.open == count, timeout_s=20)
    go_on.set()
    assert all(await asyncio.gather(*asking))


async def test_K1_the_model_list_is_ours(router: Running, client: Client, upstream: Upstream) -> None:
    await router.put({R1: revision("r1", upstream.url)}, aliases=["chat-stable", "chat"])
    await upstream.stop()
    for _ in range(2):
        answer = await client.ask(b"GET /v1/models HTTP/1.1\r\nHost: a\r\n\r\n")
        listed = json.loads(answer.body)
        assert [model["id"] for model in listed["data"]] == ["chat", "chat-stable"]
    assert upstream.attempts == 0


async def test_K1_an_unknown_model_is_404(router: Running, client: Client, upstream: Upstream) -> None:
    answer = await client.ask(chat(model="other"))
    assert (answer.status, answer.error, upstream.attempts) == (404, "model_not_found", 0)
    assert (await client.ask(chat())).status == 200


PATHS = [
    "/metrics", "/sleep", "/slots", "/v1/load_lora_adapter", "/update_weights", "/flush_cache", "/health", "/livez",
    "/v1/services", "/v1/services/chat", "/v1/audio/transcriptions", "/v1/chat/completions/", "/v1/chat/../completions",
    "/v1/chat%2fcompletions", "//v1/chat/completions",
]  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
async def test_K7_other_paths_do_not_exist(router: Running, client: Client, upstream: Upstream, path: str) -> None:
    answer = await client.ask(request(b'{"model":"chat"}', path=path))
    assert (answer.status, answer.error, upstream.attempts) == (404, "unsupported_endpoint", 0)


async def test_K7_an_upload_to_an_unknown_path_is_refused_before_it_is_sent(router: Running, client: Client) -> None:
    await client.send(b"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data\r\n")
    await client.send(b"Content-Length: 9000000\r\n\r\n")
    answer = await client.answer()
    assert (answer.status, answer.header("connection")) == (404, "close")


async def test_K7_websockets_are_404(router: Running, client: Client) -> None:
    await client.send(b"GET /v1/realtime HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
    assert (await client.answer()).status == 404


@pytest.mark.parametrize("method", ["GET", "DELETE", "OPTIONS"])
async def test_a_known_path_takes_its_method_only(router: Running, client: Client, method: str) -> None:
    answer = await client.ask(f"{method} /v1/chat/completions HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    assert (answer.status, answer.error, answer.header("allow")) == (405, "method_not_allowed", "POST")


async def test_a_service_answers_its_protocols_only(router: Running, client: Client, upstream: Upstream) -> None:
    await router.put({R1: revision("r1", upstream.url)}, protocols=["chat"])
    answer = await client.ask(request(b'{"model":"chat"}', path="/v1/embeddings"))
    assert (answer.status, answer.error) == (404, "unsupported_endpoint")


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/embeddings", "/v1/responses", "/v1/chat/completions?x=1"])
async def test_paths_and_queries_arrive_as_sent(router: Running, client: Client, upstream: Upstream, path: str) -> None:
    assert (await client.ask(request(b'{"model":"chat"}', path=path))).status == 200
    assert upstream.calls[0].head.startswith(f"POST {path} HTTP/1.1\r\n".encode())


async def test_without_an_active_revision_the_answer_is_503(start_router: StartRouter, upstream: Upstream) -> None:
    router = await start_router()
    await router.put({R1: revision("r1", upstream.url)})
    async with await router.client() as client:
        answer = await client.ask(chat())
    assert (answer.status, answer.error, answer.header("retry-after")) == (503, "no_route", "1")


async def test_a_refused_connection_is_tried_once_at_another_upstream(
    start_router: StartRouter, upstream: Upstream
) -> None:
    dead = Upstream()
    await dead.start()
    await dead.stop()
    router = await start_router()
    await router.put({R1: revision("r1", dead.url, upstream.url), R2: revision("r2", dead.url)})
    await router.flip(R1)
    async with await router.client() as client:
        answers = [await client.ask(chat()) for _ in range(2)]
        assert [answer.status for answer in answers] == [200, 200]
        assert sorted(answer.header("x-infercrane-attempt") or "" for answer in answers) == ["1", "2"]
        assert sorted(call.header("x-infercrane-attempt") or "" for call in upstream.calls) == ["1", "2"]
        await router.flip(R2)
        answer = await client.ask(chat())
        assert (answer.status, answer.error) == (503, "connect_failed")
    assert await router.outcome(R2) == Outcome.CONNECT_FAILED
    assert upstream.attempts == 2


async def test_a_pooled_connection_that_was_closed_is_replaced_without_a_second_attempt(
    router: Running, client: Client, upstream: Upstream
) -> None:
    assert (await client.ask(chat())).whole
    upstream.calls[0].writer.close()
    await asyncio.sleep(0.05)
    answer = await client.ask(chat())
    assert (answer.whole, answer.header("x-infercrane-attempt")) == (True, "1")


@pytest.mark.parametrize("reset", [False, True])
async def test_N1_what_was_sent_on_a_used_connection_is_not_sent_again(
    router: Running, client: Client, upstream: Upstream, reset: bool
) -> None:
    """The upstream may have closed it in the same moment, or have begun to generate: nobody can know."""
    assert (await client.ask(chat(stream=False))).whole

    async def end(call: Call) -> None:
        call.reset() if reset else call.writer.close()

    upstream.script = end
    answer = await client.ask(chat(stream=False))
    assert (answer.status, answer.error) == (502, "upstream_closed")
    assert (upstream.attempts, upstream.connections) == (2, 1)


async def test_N1_of_many_upstreams_that_refuse_two_are_tried(start_router: StartRouter, upstream: Upstream) -> None:
    router = await start_router()
    dead = [f"http://127.0.0.1:1/{number}" for number in range(2)]
    await router.put({R1: revision("r1", *dead, upstream.url)})
    await router.flip(R1)
    async with await router.client() as client:
        answer = await client.ask(chat())
    assert (answer.error, answer.header("x-infercrane-attempt"), upstream.attempts) == ("connect_failed", "2", 0)


async def test_a_connection_whose_request_was_not_read_to_its_end_is_not_used_again(
    router: Running, client: Client, upstream: Upstream
) -> None:
    async def answer_early(call: Call) -> None:
        await call.send(whole(ANSWER, "413 Content Too Large"))
        await call.until_told()

    upstream.script, upstream.reads_body = answer_early, False
    assert (await client.ask(request(sized(8_000_000)))).status == 413
    upstream.script, upstream.reads_body = Upstream().script, True
    assert (await client.ask(chat(stream=False))).status == 200
    assert upstream.connections == 2


@pytest.mark.parametrize(("keep_alive", "connections"), [(b"", 1), (b"Keep-Alive: timeout=2\r\n", 2)])
async def test_R13_idle_upstream_connections_are_given_up_before_the_upstream_closes_them(
    router: Running, client: Client, upstream: Upstream, keep_alive: bytes, connections: int
) -> None:
    async def announce(call: Call) -> None:
        await call.send(whole(ANSWER, headers=keep_alive))

    upstream.script = announce
    for _ in range(2):
        assert (await client.ask(chat(stream=False))).whole
    assert upstream.connections == connections


async def test_R13_they_expire(start_router: StartRouter, upstream: Upstream) -> None:
    router = await serving(start_router, upstream, pool_idle_s=0.1)
    async with await router.client() as client:
        assert (await client.ask(chat())).whole
        await eventually(lambda: upstream.open == 0)
        assert (await client.ask(chat())).whole
    assert upstream.connections == 2


async def test_R13_a_connection_rests_after_a_stream_because_some_upstreams_close_it(
    router: Running, client: Client, upstream: Upstream
) -> None:
    async def end_and_close(call: Call) -> None:
        await call.stream(delta())
        await call.end_stream()
        await asyncio.sleep(0.01)
        call.writer.close()

    upstream.script = end_and_close
    assert [(await client.ask(chat())).whole for _ in range(5)] == [True] * 5
    assert upstream.connections == 5


async def test_R13_a_rested_connection_is_used_again(router: Running, client: Client, upstream: Upstream) -> None:
    assert (await client.ask(chat())).whole
    await asyncio.sleep(REST_S + 0.02)
    assert (await client.ask(chat())).whole
    assert upstream.connections == 1


async def test_L5_exchanges_leave_nothing_behind(router: Running, client: Client, upstream: Upstream) -> None:
    def alive() -> int:
        return sum(isinstance(thing, (Exchange, ResponseReader, Observer)) for thing in gc.get_objects())

    for _ in range(20):
        assert (await client.ask(chat(stream=False))).whole
    gc.collect()
    gc.disable()
    try:
        before = alive()
        for _ in range(200):
            assert (await client.ask(chat(stream=False))).whole
        assert alive() - before < 10
    finally:
        gc.enable()


async def test_small_writes_are_not_delayed(router: Running, client: Client, upstream: Upstream) -> None:
    upstream.script = Call.until_told
    await client.send(chat())
    await upstream.call()
    (connection,) = router.parts.relay.clients
    for transport in (connection.transport, connection._exchange._upstream.transport):
        assert transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (request(b'{"model":"chat"}', path="/v1/responses"), "unsupported_endpoint"),
        (request(b'{"model":"chat"}', "X-InferCrane-Revision: r9"), "unknown_revision"),
        (request(b'{"model":"chat"}', "X-InferCrane-Priority: soon"), "unknown_priority"),
        (request(b'{"model":"other"}'), "model_not_found"),
    ],
)
async def test_what_a_service_does_not_answer_is_counted_as_its_own(
    router: Running, client: Client, upstream: Upstream, asked: bytes, reason: str
) -> None:
    await router.put({R1: revision("r1", upstream.url)}, protocols=["chat"], limits={"max_inflight": 9})
    service = "" if reason == "model_not_found" else "chat"
    assert (await client.ask(asked)).status in (400, 404)
    assert dict(router.parts.relay.traffic.refused) == {(service, reason): 1}
