"""A revision with `answer_as_alias`, on real sockets: its answers name the alias, and every other rule holds."""

import asyncio
import gzip
import json
from collections.abc import Callable

import pytest

from pulumi_infercrane.router.protocol.observer import Outcome
from pulumi_infercrane.router.protocol.renaming import MAX_HELD
from pulumi_infercrane.router.tables.calls import Flip
from tests.router.client import Answer, Client, chat, request
from tests.router.conftest import R1, R2, RouterProcess, Running, StartRouter, declared, revision
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

NAMED = ANSWER | {"id": "1", "model": "org/model"}
RENAMED = ANSWER | {"id": "1", "model": "chat"}
USAGE = {"prompt_tokens": 7, "completion_tokens": 2}
STREAM = [
    delta("a", model="org/model"),
    delta('b "model": "org/m"', model="org/model"),
    delta(finish="stop", model="org/model", usage=USAGE),
    DONE,
]


@pytest.fixture
async def router(start_router: StartRouter, upstream: Upstream) -> Running:
    """Serves revision R1 as `chat`, whose answers name the alias."""
    running = await start_router()
    await running.put({R1: revision("r1", upstream.url, answer_as_alias=True)})
    await running.flip(R1)
    return running


async def answered(
    upstream: Upstream, client: Client, *pieces: bytes, asked: bytes = b"", close: bool = False
) -> Answer:
    """The router's answer when the upstream sends these pieces, and then ends the connection or not."""

    async def send(call: Call) -> None:
        await call.send(*pieces)
        if close:
            call.writer.close()

    upstream.script = send
    return await client.ask(asked or chat())


async def test_a_document_names_the_alias(router: Running, client: Client, upstream: Upstream) -> None:
    for _ in range(2):
        answer = await answered(upstream, client, whole(NAMED, headers=b"ETag: x\r\nDate: now\r\n"), asked=chat(False))
        assert (answer.whole, json.loads(answer.body)) == (True, RENAMED)
        assert (answer.header("transfer-encoding"), answer.header("content-length")) == ("chunked", None)
        assert (answer.header("etag"), answer.header("date")) == (None, "now")
    assert router.outcomes() == {Outcome.COMPLETE: 2}
    assert (upstream.connections, upstream.calls[0].document["model"]) == (1, "org/model")


async def test_events_name_the_alias(router: Running, client: Client, upstream: Upstream) -> None:
    for _ in range(2):
        answer = await answered(upstream, client, STREAM_HEAD, *map(chunk, STREAM), LAST_CHUNK)
        assert answer.whole
        assert answer.body == b"".join(STREAM).replace(b"org/model", b"chat")
        assert answer.all("transfer-encoding") == ["chunked"]
    assert router.outcomes() == {Outcome.COMPLETE: 2}
    assert router.traffic().tokens == {("prompt", "usage"): 14, ("completion", "usage"): 4}
    assert router.traffic().not_renamed == 0


async def test_events_in_chunks_of_one_byte(router: Running, client: Client, upstream: Upstream) -> None:
    sent = [chunk(bytes([one])) for one in b"".join(STREAM)]
    answer = await answered(upstream, client, STREAM_HEAD, *sent, LAST_CHUNK)
    assert (answer.whole, answer.body) == (True, b"".join(STREAM).replace(b"org/model", b"chat"))
    assert await router.outcome() == Outcome.COMPLETE


async def test_an_event_does_not_wait_for_the_next(router: Running, client: Client, upstream: Upstream) -> None:
    go_on = asyncio.Event()

    async def slowly(call: Call) -> None:
        await call.stream(STREAM[0][:30], STREAM[0][30:], STREAM[1][:40])
        await go_on.wait()
        await call.send(chunk(STREAM[1][40:]))
        await call.end_stream()

    upstream.script = slowly
    await client.send(chat())
    await client.head()
    assert await client.reader.readuntil(b"\n\n\r\n") == chunk(STREAM[0].replace(b"org/model", b"chat"))
    go_on.set()
    assert STREAM[1].replace(b"org/model", b"chat") in await client.reader.readuntil(LAST_CHUNK)


async def test_a_cut_in_an_event_ends_with_the_event_before(
    router: Running, client: Client, upstream: Upstream
) -> None:
    answer = await answered(upstream, client, STREAM_HEAD, chunk(STREAM[0]), chunk(STREAM[1][:-1]), close=True)
    assert (answer.whole, answer.raw) == (False, chunk(STREAM[0].replace(b"org/model", b"chat")))
    assert await router.outcome() == Outcome.TRUNCATED
    assert upstream.attempts == 1


async def test_a_cut_in_a_document_shows_nothing_of_it(router: Running, client: Client, upstream: Upstream) -> None:
    answer = await answered(upstream, client, whole(NAMED)[:-9], asked=chat(False), close=True)
    assert (answer.status, answer.whole, answer.raw) == (200, False, b"")
    assert await router.outcome() == Outcome.TRUNCATED


async def test_more_than_one_answer_is_cut(router: Running, client: Client, upstream: Upstream) -> None:
    async def go_on(call: Call) -> None:
        await call.stream(STREAM[0])
        await asyncio.sleep(0.02)
        await call.send(chunk(STREAM[1]) + LAST_CHUNK + whole(NAMED))

    upstream.script = go_on
    answer = await client.ask(chat())
    assert (answer.whole, answer.raw) == (False, chunk(STREAM[0].replace(b"org/model", b"chat")))
    assert await router.outcome() == Outcome.UPSTREAM_PROTOCOL


ERROR = {"error": {"message": "busy"}, "model": "org/model"}
PASSED = {
    "an error": whole(ERROR, "429 Too Many Requests"),
    "compressed": whole(NAMED, headers=b"Content-Encoding: br\r\n"),
    "of another type": whole(NAMED).replace(b"application/json", b"text/plain"),
    "too large": whole(NAMED | {"x": "x" * MAX_HELD}),
    "no object": whole([NAMED]),
}


@pytest.mark.parametrize("name", PASSED)
async def test_what_passes_as_it_came(router: Running, client: Client, upstream: Upstream, name: str) -> None:
    answer = await answered(upstream, client, PASSED[name], asked=chat(False))
    assert (answer.whole, answer.body) == (True, PASSED[name].partition(b"\r\n\r\n")[2])
    assert router.traffic().not_renamed == (name not in ("an error", "no object"))
    if name != "no object":
        assert answer.header("content-length") == str(len(answer.body))


async def test_a_compressed_stream_passes(router: Running, client: Client, upstream: Upstream) -> None:
    body = gzip.compress(b"".join(STREAM))
    head = STREAM_HEAD[:-2] + b"Content-Encoding: gzip\r\n\r\n"
    answer = await answered(upstream, client, head, chunk(body), LAST_CHUNK)
    assert (answer.body, answer.header("content-encoding")) == (body, "gzip")
    assert upstream.calls[0].header("accept-encoding") is None
    assert (await router.outcome(), router.traffic().not_renamed) == (Outcome.UNOBSERVED, 1)


async def test_a_document_without_length_that_is_too_large_passes(
    router: Running, client: Client, upstream: Upstream
) -> None:
    body = json.dumps(NAMED | {"x": "x" * MAX_HELD}).encode()
    head = STREAM_HEAD.replace(b"text/event-stream", b"application/json")
    pieces = [chunk(body[at : at + 50_000]) for at in range(0, len(body), 50_000)]
    answer = await answered(upstream, client, head, *pieces, LAST_CHUNK, asked=chat(False))
    assert (answer.whole, answer.body == body) == (True, True)
    assert (await router.outcome(), router.traffic().not_renamed) == (Outcome.COMPLETE, 1)


async def test_an_answer_without_a_body(router: Running, client: Client, upstream: Upstream) -> None:
    answer = await answered(upstream, client, b"HTTP/1.1 204 No Content\r\n\r\n", asked=chat(False))
    assert (answer.status, answer.header("transfer-encoding")) == (204, None)
    assert (await client.ask(chat(False))).status == 204


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_knows_no_chunks(router: Running, client: Client, upstream: Upstream, stream: bool) -> None:
    asked = chat(stream).replace(b"HTTP/1.1", b"HTTP/1.0")
    sent = (STREAM_HEAD, *map(chunk, STREAM), LAST_CHUNK) if stream else (whole(NAMED),)
    answer = await answered(upstream, client, *sent, asked=asked)
    body = b"".join(STREAM) if stream else whole(NAMED).partition(b"\r\n\r\n")[2]
    assert answer.body == body.replace(b"org/model", b"chat")
    assert (answer.header("transfer-encoding"), answer.header("content-length")) == (None, None)


async def test_a_client_that_knows_no_chunks_sees_a_cut(router: Running, client: Client, upstream: Upstream) -> None:
    async def cut(call: Call) -> None:
        await call.stream(STREAM[0])
        await asyncio.sleep(0.05)
        call.writer.close()

    upstream.script = cut
    answer = await client.ask(chat().replace(b"HTTP/1.1", b"HTTP/1.0"))
    assert (answer.body, answer.reset) == (STREAM[0].replace(b"org/model", b"chat"), True)


async def test_a_body_that_ends_with_the_connection(router: Running, client: Client, upstream: Upstream) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
    answer = await answered(upstream, client, head, *STREAM[:-1], STREAM[-1][:-1], close=True)
    assert (answer.whole, answer.body) == (True, b"".join(STREAM)[:-1].replace(b"org/model", b"chat"))
    assert answer.header("connection") == "close"
    assert await router.outcome() == Outcome.COMPLETE


CREATED = event({"type": "response.created", "response": {"model": "org/model"}})


@pytest.mark.parametrize(("path", "expected"), [("/v1/responses", b"chat"), ("/v1/chat/completions", b"org/model")])
async def test_the_events_of_responses_have_it_in_the_response(
    router: Running, client: Client, upstream: Upstream, path: str, expected: bytes
) -> None:
    asked = request(b'{"model":"chat","stream":true}', path=path)
    answer = await answered(upstream, client, STREAM_HEAD, chunk(CREATED), LAST_CHUNK, asked=asked)
    assert answer.body == CREATED.replace(b"org/model", expected)


async def test_it_is_the_alias_the_client_asked_for(router: Running, client: Client, upstream: Upstream) -> None:
    await router.put({R1: revision("r1", upstream.url, answer_as_alias=True)}, aliases=["chat", "chat-stable"])
    for alias in ("chat", "chat-stable"):
        answer = await answered(upstream, client, whole(NAMED), asked=chat(False, model=alias))
        assert json.loads(answer.body)["model"] == alias


async def test_the_revision_that_answers_decides(start_router: StartRouter, upstream: Upstream) -> None:
    """R1 takes no connection, so R2 answers."""
    router = await start_router()
    entries = {R1: revision("r1", "http://127.0.0.1:9"), R2: revision("r2", upstream.url, answer_as_alias=True)}
    await router.put(entries, fallback=R2)
    await router.flip(R1)
    async with await router.client() as client:
        answer = await answered(upstream, client, whole(NAMED), asked=chat(False))
    assert (answer.header("x-infercrane-revision"), json.loads(answer.body)) == (R2, RENAMED)


async def test_copies_are_not_renamed(router: Running, upstream: Upstream) -> None:
    entries = {digest: revision(digest[-1], upstream.url, answer_as_alias=True) for digest in (R1, R2)}
    await router.put(entries, mirror={"revision": R2, "percent": 100})
    route = router.parts.relay.routes.by_service["chat"]
    assert route.mirror is not None
    assert (route.mirror.binding.answer_as_alias, route.bindings[R2].answer_as_alias) == (False, True)


async def test_a_router_of_its_own_names_the_alias(
    upstream: Upstream, start_process: Callable[..., RouterProcess]
) -> None:
    process = start_process().wait_ready()
    async with process.client() as control:
        await control.put("chat", declared({R1: revision("r1", upstream.url, answer_as_alias=True)}), if_match=None)
        await control.flip("chat", Flip("", R1, "sha256:first"))
    async with await Client.connect(process.port) as client:
        answer = await answered(upstream, client, STREAM_HEAD, *map(chunk, STREAM), LAST_CHUNK)
    assert answer.body == b"".join(STREAM).replace(b"org/model", b"chat")
