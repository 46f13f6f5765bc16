"""Answers of upstreams: where they end, what may come beside them, and what is none: probes F3, F4, F12, rule N14."""

import asyncio
import json

import pytest

from pulumi_infercrane.router.protocol import response
from pulumi_infercrane.router.protocol.observer import Outcome
from tests.router.ambiguous import HOST, post
from tests.router.client import Client, chat
from tests.router.conftest import TIMERS, Running, eventually
from tests.router.upstream import ANSWER, LAST_CHUNK, STREAM_HEAD, Call, Upstream, chunk, delta, whole


async def test_trailers_of_an_answer_pass(client: Client, upstream: Upstream) -> None:
    async def trailer(call: Call) -> None:
        await call.stream(delta())
        await call.send(b"0\r\nServer-Timing: x\r\n\r\n")

    upstream.script = trailer
    await client.send(chat())
    assert (await client.head()).status == 200
    assert await client.reader.readuntil(b"0\r\nServer-Timing: x\r\n\r\n")


@pytest.mark.parametrize(
    "trailer", ["X-InferCrane-Revision: fake", "Set-Cookie: a=b", "content-length: 5", "Connection: close"]
)
@pytest.mark.parametrize("version", ["HTTP/1.1", "HTTP/1.0"])
@pytest.mark.parametrize("in_parts", [False, True])
async def test_F12_trailers_that_speak_for_the_router_break_an_answer(
    router: Running, client: Client, upstream: Upstream, trailer: str, version: str, in_parts: bool
) -> None:
    async def speak(call: Call) -> None:
        await call.stream(delta())
        for part in ("0\r\n", f"{trailer}\r\n", "\r\n"):
            await call.send(part.encode())
            await asyncio.sleep(0.01 * in_parts)

    upstream.script = speak
    body = b'{"model":"chat","stream":true}'
    await client.send(post(HOST, f"Content-Length: {len(body)}", version=version, body=body))
    assert not (await client.until_closed()).endswith(b"\r\n\r\n")
    assert await router.outcome() == Outcome.UPSTREAM_PROTOCOL


ENDLESS = {
    "a trailer": (b"0\r\nX-A: ", b"a" * 1000),
    "trailers": (b"0\r\n", b"X-A: %b\r\n" % (b"a" * 1000)),
    "an extension": (b"5;x=", b"a" * 1000),
}


@pytest.mark.parametrize("begun", ENDLESS)
@pytest.mark.parametrize("version", ["HTTP/1.1", "HTTP/1.0"])
async def test_framing_without_end_breaks_an_answer(
    router: Running, client: Client, upstream: Upstream, begun: str, version: str
) -> None:
    begin, more = ENDLESS[begun]
    sent = 0

    async def never_end(call: Call) -> None:
        nonlocal sent
        await call.stream(delta())
        await call.send(begin)
        while not call.reader.at_eof() and sent < 1000:
            await call.send(more)
            sent += 1
            await asyncio.sleep(0.0005)

    upstream.script = never_end
    body = b'{"model":"chat","stream":true}'
    await client.send(post(HOST, f"Content-Length: {len(body)}", version=version, body=body))
    received = await client.until_closed()
    assert await router.outcome() == Outcome.UPSTREAM_PROTOCOL
    assert len(received) < 256 * 1024
    assert sent < 1000


@pytest.mark.parametrize(
    ("version", "events", "pause_s"),
    [("HTTP/1.1", 50, 0.001), ("HTTP/1.0", 50, 0.001), ("HTTP/1.1", 8, 1.5 * TIMERS.sweep_s)],
    ids=["fast", "fast, without chunks", "slow"],
)
async def test_framing_that_comes_apart_from_its_chunks_may_go_on(
    client: Client,
    router: Running,
    upstream: Upstream,
    version: str,
    events: int,
    pause_s: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(response, "MAX_FRAMING", 40)

    async def apart(call: Call) -> None:
        await call.stream(delta())
        for _ in range(events):
            size, _, rest = chunk(delta()).partition(b"\r\n")
            for part in (size + b";a=b\r\n", rest):
                await call.send(part)
                await asyncio.sleep(pause_s)
        await call.end_stream()

    upstream.script = apart
    body = b'{"model":"chat","stream":true}'
    await client.send(post(HOST, f"Content-Length: {len(body)}", "Connection: close", version=version, body=body))
    assert (await client.until_closed()).count(delta()) == events + 1
    assert await router.outcome() == Outcome.COMPLETE


async def test_trailers_that_are_too_many_in_one_read_break_an_answer(
    router: Running, client: Client, upstream: Upstream
) -> None:
    async def too_many(call: Call) -> None:
        await call.stream(delta())
        await call.send(b"0\r\n" + b"X-A: %b\r\n" % (b"a" * 1000) * 70 + b"\r\n")

    upstream.script = too_many
    answer = await client.ask(chat())
    assert (answer.status, answer.whole) in ((502, True), (200, False))
    assert await router.outcome() == Outcome.UPSTREAM_PROTOCOL


@pytest.mark.parametrize(
    "answers",
    [
        whole(ANSWER) * 2,
        whole(ANSWER) + b"x",
        STREAM_HEAD + LAST_CHUNK + whole(ANSWER),
        whole(ANSWER) + b"\r\n",
        STREAM_HEAD + chunk(delta()) + LAST_CHUNK + b"\n",
    ],
    ids=["two answers", "beyond the length", "behind the last chunk", "a line end", "a line end behind chunks"],
)
async def test_F3_surplus_bytes_end_both_sides(
    router: Running, client: Client, upstream: Upstream, answers: bytes
) -> None:
    async def split(call: Call) -> None:
        await call.send(answers)

    upstream.script = split
    answer = await client.ask(chat())
    assert (answer.status, answer.error) == (502, "upstream_protocol")
    assert await router.outcome() == Outcome.UPSTREAM_PROTOCOL
    upstream.script = Upstream().script
    assert (await client.ask(chat())).whole
    assert upstream.connections == 2


async def test_F3_a_second_answer_behind_a_started_one_breaks_it(
    router: Running, client: Client, upstream: Upstream
) -> None:
    async def split(call: Call) -> None:
        await call.stream(delta())
        await asyncio.sleep(0.02)
        await call.send(chunk(delta(finish="stop")) + LAST_CHUNK + whole(ANSWER))

    upstream.script = split
    answer = await client.ask(chat())
    assert (answer.whole, answer.body) == (False, delta())
    assert await router.outcome() == Outcome.UPSTREAM_PROTOCOL


@pytest.mark.parametrize("before", [b"\r\n", b"\r", b"\n", b"\r\n\r\n", b" ", b"HTTP/1.1 200 \0\r\n\r\n"])
async def test_F3_an_answer_begins_with_a_status_line_of_text(
    router: Running, client: Client, upstream: Upstream, before: bytes
) -> None:
    async def odd(call: Call) -> None:
        await call.send(before + whole(ANSWER))

    upstream.script = odd
    assert (await client.ask(chat(stream=False))).error == "upstream_protocol"


@pytest.mark.parametrize("sent", [b"\x15\x03\x01\x00\x02\x02\x50", b"\r", b"HTTP/2", b"HTTP/1.1 200 OK\r\nX: 1\n"])
async def test_F3_what_can_become_no_answer_is_not_waited_for(
    router: Running, client: Client, upstream: Upstream, sent: bytes
) -> None:
    async def begin(call: Call) -> None:
        await call.send(sent)
        await call.until_told()

    upstream.script = begin
    assert (await client.ask(chat())).error == "upstream_protocol"


@pytest.mark.parametrize("more", [b"x" * 100_000, b"x\r\nX: " * 20_000], ids=["one header", "many headers"])
async def test_N14_a_head_without_end_is_not_kept(
    router: Running, client: Client, upstream: Upstream, more: bytes
) -> None:
    sent = 0

    async def never_end(call: Call) -> None:
        nonlocal sent
        await call.send(b"HTTP/1.1 200 OK\r\nX: ")
        while not call.reader.at_eof() and sent < 100_000_000:
            await call.send(more)
            sent += len(more)

    upstream.script = never_end
    assert (await client.ask(chat())).error == "upstream_protocol"
    assert sent < 16 * 1024 * 1024


@pytest.mark.parametrize(("size", "status"), [(60_000, 200), (70_000, 502)])
async def test_N14_a_head_is_bounded_however_it_comes(
    client: Client, upstream: Upstream, size: int, status: int
) -> None:
    answer = whole(ANSWER).replace(b"\r\n", b"\r\nX-Long: %b\r\n" % (b"x" * size), 1)
    upstream.script = lambda call: call.send(answer)
    assert (await client.ask(chat(stream=False))).status == status


async def test_F3_an_answer_may_come_byte_by_byte(client: Client, upstream: Upstream) -> None:
    async def slowly(call: Call) -> None:
        for byte in whole(ANSWER):
            await call.send(bytes([byte]))
            await asyncio.sleep(0)

    upstream.script = slowly
    assert json.loads((await client.ask(chat(stream=False))).body) == ANSWER


async def test_F3_bytes_on_an_idle_connection_close_it(router: Running, client: Client, upstream: Upstream) -> None:
    assert (await client.ask(chat())).whole
    (call,) = upstream.calls
    await call.send(whole({"injected": True}))
    await eventually(lambda: upstream.open == 0)
    answer = await client.ask(chat(stream=False))
    assert json.loads(answer.body) == ANSWER
    assert upstream.connections == 2


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\n\r\n", 304),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + whole(ANSWER), 200),
    ],
)
async def test_F4_bodiless_and_interim_answers_leave_the_connection_usable(
    router: Running, client: Client, upstream: Upstream, sent: bytes, status: int
) -> None:
    async def send(call: Call) -> None:
        await call.send(sent)

    upstream.script = send
    for _ in range(2):
        assert (await client.ask(chat())).status == status
    assert (upstream.attempts, upstream.connections) == (2, 1)


@pytest.mark.parametrize("framing", [b"Transfer-Encoding: chunked", b"Content-Length: 9"])
async def test_F4_early_hints_pass_before_the_answer(client: Client, upstream: Upstream, framing: bytes) -> None:
    async def hint(call: Call) -> None:
        ours = b"X-InferCrane-Revision: fake\r\n" + framing + b"\r\nConnection: X-A\r\nX-A: 1\r\n"
        await call.send(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n" + ours + b"\r\n")
        await call.send(whole(ANSWER))

    upstream.script = hint
    await client.send(chat())
    hints = await client.head()
    assert (hints.status, hints.headers) == (103, [("link", "</a>")])
    assert (await client.answer()).status == 200


async def test_F4_early_hints_in_an_unknown_coding_are_refused(client: Client, upstream: Upstream) -> None:
    async def hint(call: Call) -> None:
        await call.send(b"HTTP/1.1 103 Early Hints\r\nTransfer-Encoding: gzip\r\n\r\n" + whole(ANSWER))

    upstream.script = hint
    assert (await client.ask(chat())).status == 502


@pytest.mark.parametrize("status", [b"100 Continue", b"103 Early Hints"])
async def test_F4_interim_answers_without_end_are_no_answer(
    router: Running, client: Client, upstream: Upstream, status: bytes
) -> None:
    """They were read and passed on for as long as the first byte may take, and kept others waiting."""

    async def never_answer(call: Call) -> None:
        await call.send(b"HTTP/1.1 %b\r\n\r\n" % status * (response.MAX_INTERIM + 1))
        await call.until_told()

    upstream.script = never_answer
    await client.send(chat())
    assert await router.outcome() == Outcome.UPSTREAM_PROTOCOL


async def test_F4_switching_protocols_is_502(router: Running, client: Client, upstream: Upstream) -> None:
    async def switch(call: Call) -> None:
        await call.send(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n")

    upstream.script = switch
    answer = await client.ask(chat())
    assert (answer.status, answer.error) == (502, "upstream_protocol")
