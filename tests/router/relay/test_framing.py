"""Requests and answers that two readers could understand in two ways, and what is rewritten: probes F."""

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest

from pulumi_infercrane.router.protocol.observer import Outcome
from tests.router.ambiguous import AMBIGUOUS, BODY, CHUNKED, HOST, LENGTH, post, raw
from tests.router.client import Client, chat, request
from tests.router.conftest import R1, R2, Running, StartRouter, eventually, revision
from tests.router.upstream import ANSWER, LAST_CHUNK, STREAM_HEAD, Call, Upstream, chunk, delta, whole


@pytest.mark.parametrize("name", AMBIGUOUS)
async def test_F1_what_is_ambiguous_is_refused_and_nothing_behind_it_is_dispatched(
    router: Running, client: Client, upstream: Upstream, name: str
) -> None:
    data, status = AMBIGUOUS[name]
    await client.send(data + chat(stream=False))
    answer = await client.answer()
    assert answer.status == status, answer
    assert await client.until_closed() == b""
    assert upstream.attempts == (1 if status == 200 else 0)


@pytest.mark.parametrize("header", ["X-Caf\xe9: \xe9", "X-Value: caf\xe9"])
async def test_F1_values_may_have_high_bytes_names_may_not(
    router: Running, client: Client, upstream: Upstream, header: str
) -> None:
    answer = await client.ask(post(HOST, LENGTH, header))
    assert answer.status == (400 if header.startswith("X-Caf") else 200)


async def test_F1_blank_lines_before_a_request_are_tolerated(router: Running, client: Client) -> None:
    assert (await client.ask(b"\r\n\r\n" + chat(stream=False))).status == 200


async def test_F2_trailers_and_headers_named_in_connection_end_here(
    router: Running, client: Client, upstream: Upstream
) -> None:
    async def with_private_header(call: Call) -> None:
        await call.send(whole(ANSWER, headers=b"Connection: X-Private\r\nX-Private: 1\r\nKeep-Alive: timeout=9\r\n"))

    upstream.script = with_private_header
    body = b"%x;extension=1\r\n%b\r\n0\r\nX-Smuggled: 1\r\n\r\n" % (len(BODY), BODY)
    answer = await client.ask(
        post(HOST, "Transfer-Encoding: chunked", "Connection: X-Secret", "X-Secret: 1", "TE: trailers", body=body)
    )
    (call,) = upstream.calls
    for name in ("x-secret", "x-smuggled", "te", "connection", "transfer-encoding", "trailer"):
        assert call.header(name) is None
    assert (answer.header("x-private"), answer.header("keep-alive"), answer.header("connection")) == (None,) * 3


@pytest.mark.parametrize(
    "sent",
    [
        whole(ANSWER, headers=b"Connection: keep-alive, Content-Length\r\n"),
        STREAM_HEAD.replace(b"\r\n\r\n", b"\r\nConnection: Transfer-Encoding\r\n\r\n") + chunk(delta()) + LAST_CHUNK,
    ],
    ids=["length", "chunks"],
)
async def test_F2_framing_named_in_connection_stays(client: Client, upstream: Upstream, sent: bytes) -> None:
    async def name_it(call: Call) -> None:
        await call.send(sent)

    upstream.script = name_it
    for _ in range(2):
        answer = await client.ask(chat())
        assert (answer.whole, answer.header("connection")) == (True, None)
        assert sent.endswith(answer.raw)


async def test_F4_head_of_the_model_list_has_no_body(router: Running, client: Client) -> None:
    await client.send(raw("HEAD /v1/models HTTP/1.1", HOST))
    answer = await client.answer(body=False)
    assert (answer.status, answer.header("content-length")) == (200, "93")
    assert (await client.ask(chat(stream=False))).status == 200


@pytest.mark.parametrize("upgrade", ["h2c", "websocket"])
async def test_a_wish_for_another_protocol_is_ignored(
    router: Running, client: Client, upstream: Upstream, upgrade: str
) -> None:
    headers = (f"Upgrade: {upgrade}", "Connection: Upgrade, HTTP2-Settings", "HTTP2-Settings: AAMA")
    answer = await client.ask(request(BODY, *headers))
    assert answer.status == 200
    (call,) = upstream.calls
    assert (call.body, call.header("upgrade")) == (BODY.replace(b"chat", b"org/model"), None)


async def test_a_wish_for_another_protocol_takes_nothing_else_from_the_request(
    router: Running, client: Client, upstream: Upstream, start_upstream: Callable[[], Awaitable[Upstream]]
) -> None:
    other = await start_upstream()
    await router.put({R1: revision("r1", upstream.url), R2: revision("r2", other.url)}, pins=[R2])
    asking = ("Connection: Upgrade, HTTP2-Settings, close", "Upgrade: h2c", "HTTP2-Settings: AAMA")
    answer = await client.ask(request(BODY, f"X-InferCrane-Revision: {R2}", *asking))
    assert (answer.status, answer.header("x-infercrane-revision")) == (200, R2)
    assert (upstream.attempts, other.attempts) == (0, 1)
    assert other.calls[0].header("http2-settings") is None
    assert await client.until_closed() == b""


async def test_F5_a_client_that_waits_for_100_gets_it(router: Running, client: Client, upstream: Upstream) -> None:
    await client.send(post(HOST, LENGTH, "Expect: 100-continue", body=b""))
    assert (await client.head()).status == 100
    await client.send(BODY)
    assert (await client.answer()).status == 200
    assert upstream.calls[0].header("expect") is None


async def test_F5_clients_of_http_1_0_know_no_100(client: Client) -> None:
    await client.send(post(HOST, LENGTH, "Expect: 100-continue", version="HTTP/1.0"))
    assert (await client.head()).status == 200


async def test_F5_other_expectations_are_417(router: Running, client: Client) -> None:
    assert (await client.ask(post(HOST, LENGTH, "Expect: miracles"))).status == 417


async def test_F6_pipelined_requests_are_answered_in_order_up_to_the_bad_one(
    router: Running, client: Client, upstream: Upstream
) -> None:
    await client.send(chat(stream=False) + post(HOST, "Content-Length: nonsense") + chat(stream=False))
    statuses = [(await client.answer()).status for _ in range(2)]
    assert statuses == [200, 400]
    assert await client.until_closed() == b""
    assert upstream.attempts == 1


async def test_F6_two_good_pipelined_requests_are_both_answered(router: Running, client: Client) -> None:
    await client.send(chat(stream=False) + chat())
    assert [(await client.answer()).whole for _ in range(2)] == [True, True]


async def test_F7_http_1_0_clients_get_the_stream_without_chunks(router: Running, client: Client) -> None:
    answer = await client.ask(post(HOST, LENGTH, version="HTTP/1.0", body=BODY.replace(b"[]", b'[],"stream":1')))
    assert answer.header("transfer-encoding") is None
    assert answer.header("connection") == "close"
    assert answer.whole


async def test_F7_a_dechunked_stream_that_is_cut_is_reset(router: Running, client: Client, upstream: Upstream) -> None:
    async def cut(call: Call) -> None:
        await call.stream(delta())
        await asyncio.sleep(0.05)
        call.writer.close()

    upstream.script = cut
    data = b'{"model":"chat","stream":true}'
    await client.send(post(HOST, f"Content-Length: {len(data)}", version="HTTP/1.0", body=data))
    answer = await client.answer()
    assert (answer.body, answer.reset) == (delta(), True)
    assert await router.outcome() == Outcome.TRUNCATED


async def test_F7_a_body_that_ends_with_the_connection(router: Running, client: Client, upstream: Upstream) -> None:
    async def until_eof(call: Call) -> None:
        await call.send(b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n", delta(), delta(finish="stop"))
        call.writer.close()

    upstream.script = until_eof
    answer = await client.ask(chat())
    assert (answer.body, answer.header("connection")) == (delta() + delta(finish="stop"), "close")
    assert await router.outcome() == Outcome.COMPLETE


async def test_F7_an_answer_of_http_1_0_has_no_chunks(client: Client, upstream: Upstream) -> None:
    async def chunked(call: Call) -> None:
        await call.send(STREAM_HEAD.replace(b"1.1", b"1.0"), chunk(delta()), LAST_CHUNK)

    upstream.script = chunked
    assert (await client.ask(chat())).error == "upstream_protocol"


@pytest.mark.parametrize("name", ["m", "a-much-longer-name-than-the-alias/that-was-asked-for", 'q"uote'])
async def test_F8_a_chunked_body_leaves_with_one_right_length(
    router: Running, client: Client, upstream: Upstream, name: str
) -> None:
    await router.put({R1: revision("r1", upstream.url, model=name)})
    assert (await client.ask(post(HOST, "Transfer-Encoding: chunked", body=CHUNKED))).status == 200
    (call,) = upstream.calls
    assert call.head.lower().count(b"content-length") == 1
    assert call.document == {"model": name, "messages": []}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"model":"other","model":"chat"}', 400),
        (b'{"mod\\u0065l":"other","model":"chat"}', 400),
        (b'{"stream":true,"model":"chat","stream":false}', 400),
        (b'{"x":{"model":"inner"},"model":"chat"}', 200),
        (b'{"mod\\u0065l":"chat"}', 200),
        (b'{"text":"the \\"model\\" is","model" : "chat"}', 200),
        (b'{"a":"model","model":"chat"}', 200),
        (b'["model"]', 400),
        (b'{"model":1}', 400),
        (b"{}", 400),
        (b"not json", 400),
        (b'{"model":"chat"', 400),
        (b'{"model":"chat","x":NaN}', 400),
        (b'\xef\xbb\xbf{"model":"chat"}', 400),
        ('{"model":"chat"}'.encode("utf-16"), 400),
        (b"[" * 100_000, 400),
    ],
)
async def test_F9_only_one_model_key_counts(
    router: Running, client: Client, upstream: Upstream, body: bytes, status: int
) -> None:
    answer = await client.ask(request(body))
    assert answer.status == status
    if status == 400:
        assert (answer.error, upstream.attempts) == ("invalid_body", 0)
    else:
        assert upstream.calls[0].document == json.loads(body) | {"model": "org/model"}
        assert upstream.calls[0].body.count(b"org/model") == 1


@pytest.mark.parametrize(
    "rest",
    [
        b'"unknown_field":{"z":1,"a":[ 1 ,2]}',
        b'"n":1e400',
        b'"seed":12345678901234567890',
        b'"text":"\\u00e9\\ud83d\\ude00\\/ \xc3\xa9"',
        b'"lone":"\\ud800"',
        b'"zero":-0.0,"exact":1.10,  "spaced" :\ttrue\n',
    ],
)
async def test_F10_every_other_byte_of_the_body_stays(
    router: Running, client: Client, upstream: Upstream, rest: bytes
) -> None:
    assert (await client.ask(request(b"{" + rest + b', "model": "chat" }'))).status == 200
    assert upstream.calls[0].body == b"{" + rest + b', "model": "org/model" }'


async def test_F10_an_alias_that_is_the_real_name_leaves_the_body_untouched(
    router: Running, client: Client, upstream: Upstream
) -> None:
    await router.put({R1: revision("r1", upstream.url, model="chat")})
    body = b'{ "model" : "ch\\u0061t" }'
    await client.ask(request(body))
    assert upstream.calls[0].body == body


async def test_F11_a_compressed_answer_passes_unobserved(router: Running, client: Client, upstream: Upstream) -> None:
    async def compressed(call: Call) -> None:
        await call.send(whole(ANSWER, headers=b"Content-Encoding: gzip\r\n"))

    upstream.script = compressed
    answer = await client.ask(chat(True, "Accept-Encoding: gzip"))
    assert answer.header("content-encoding") == "gzip"
    assert await router.outcome() == Outcome.UNOBSERVED
    assert upstream.calls[0].header("accept-encoding") is None


async def test_F12_nobody_speaks_for_the_router(router: Running, client: Client, upstream: Upstream) -> None:
    spoofed = (
        b"X-InferCrane-Revision: fake\r\nX-InferCrane-Secret: 1\r\nX-Request-Id: theirs\r\nDate: now\r\nServer: up\r\n"
    )

    async def spoof(call: Call) -> None:
        await call.send(whole(ANSWER, headers=spoofed))

    upstream.script = spoof
    sent = ("X-Forwarded-For: 1.2.3.4", "X-InferCrane-Attempt: 9", "X-Request-Id: mine-1", "Cookie: a=b", "X_Under: 1")
    answer = await client.ask(chat(False, *sent, "Authorization: Bearer client-key", "api-key: client-key"))
    assert answer.all("x-infercrane-revision") == [R1]
    assert answer.all("x-infercrane-secret") == []
    assert answer.all("x-request-id") == ["mine-1"]
    assert (answer.all("date"), answer.all("server")) == (["now"], ["up"])
    (call,) = upstream.calls
    assert call.header("x-forwarded-for") == "127.0.0.1"
    assert call.header("x-infercrane-attempt") == "1"
    assert call.header("x-request-id") == "mine-1"
    assert (call.header("cookie"), call.header("x_under")) == (None, None)
    assert b"client-key" not in call.head
    assert call.header("host") == f"127.0.0.1:{upstream.port}"


async def test_a_request_id_that_could_do_harm_is_replaced(router: Running, client: Client) -> None:
    first, second = [(await client.ask(chat(False, 'X-Request-Id: "><'))).header("x-request-id") for _ in range(2)]
    assert first and second and first != second and "<" not in first


async def test_streams_ask_proxies_not_to_buffer(router: Running, client: Client) -> None:
    answer = await client.ask(chat())
    assert (answer.header("x-accel-buffering"), answer.header("cache-control")) == ("no", "no-cache")


async def test_K3_the_upstream_gets_its_own_key_and_no_other(start_router: StartRouter, upstream: Upstream) -> None:
    router = await start_router(environment={"R1_KEY": "upstream-key"})
    entry = revision("r1", upstream.url)
    entry["upstreams"][0]["key_ref"] = "env:R1_KEY"
    await router.put({R1: entry})
    await router.flip(R1)
    async with await router.client() as client:
        assert (await client.ask(chat(False, "Authorization: Bearer client-key"))).status == 200
    assert upstream.calls[0].header("authorization") == "Bearer upstream-key"


async def test_an_idle_client_connection_serves_many_requests(
    router: Running, client: Client, upstream: Upstream
) -> None:
    for _ in range(5):
        assert (await client.ask(chat(stream=False))).whole
    assert upstream.connections == 1
    await eventually(lambda: router.traffic().inflight == 0)


HOP_BY_HOP = ("Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection", "TE", "Trailer")


async def test_N8_what_concerns_one_connection_ends_here_both_ways(client: Client, upstream: Upstream) -> None:
    async def tell(call: Call) -> None:
        await call.send(whole(ANSWER, headers="".join(f"{name}: x\r\n" for name in HOP_BY_HOP).encode()))

    upstream.script = tell
    answer = await client.ask(chat(False, *(f"{name}: x" for name in HOP_BY_HOP), "X-Kept: 1"))
    assert [name for name in HOP_BY_HOP if upstream.calls[0].header(name)] == []
    assert [name for name in HOP_BY_HOP if answer.header(name)] == []
    assert upstream.calls[0].header("x-kept") == "1"
