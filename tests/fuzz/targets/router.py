"""What the router reads from clients and upstreams: requests, model names, answers, events.

However the bytes are cut into pieces, what comes out is the same; and h11 accepts what the router accepts.
"""

import json
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

from pulumi_infercrane.router.errors import RequestRefused
from pulumi_infercrane.router.protocol.alias import requested_model, with_model
from pulumi_infercrane.router.protocol.answer_alias import AnswerAlias
from pulumi_infercrane.router.protocol.observer import Observer
from pulumi_infercrane.router.protocol.renaming import EventRenaming
from pulumi_infercrane.router.protocol.sse import Event, EventReader
from tests.fuzz.forbidden import Watch
from tests.fuzz.mutate import Bytewise, mutated
from tests.fuzz.target import Target
from tests.router.ambiguous import AMBIGUOUS
from tests.router.oracles import answer_by_h11, answer_by_us, disagreement, requests_by_h11, requests_by_us, two_blanks
from tests.router.upstream import ANSWER, DONE, LAST_CHUNK, STREAM_HEAD, chunk, delta, event, whole

LONGEST_SPLIT = 512
"""Bytes that are also fed one by one."""
WORDS = (
    b"\r\n", b"\r\n\r\n", b"\n", b"0\r\n\r\n", b"5\r\nhello\r\n", b"Content-Length: 5\r\n",
    b"Transfer-Encoding: chunked\r\n", b"Connection: close\r\n", b"Host: a\r\n", b"Expect: 100-continue\r\n",
    b"Upgrade: h2c\r\n", b"Connection: Upgrade, Content-Length, Transfer-Encoding\r\n",
    b"Connection: Content-Length, Transfer-Encoding\r\n", b"HTTP/1.1 200 OK\r\n",
    b"HTTP/1.1 103 H\r\n\r\n", b"POST / HTTP/1.1\r\n", b" RTSP/1.0\r\n", b"data: ",
    b"event: error\n", b'"finish_reason":"stop"', b"\xef\xbb\xbf", b'"model":', b"\\u006d", b'"error":{}', b" ",
    b"\t", b"\x00", b":", b";", b",",
)  # fmt: skip


def targets() -> Iterator[Target]:
    requests = tuple(data for data, _ in AMBIGUOUS.values())
    yield Target("router-requests", _requests, requests, _spliced)
    yield Target("router-answers", _answers, ANSWERS, _spliced)
    yield Target("router-events", _events, STREAMS, _spliced)
    yield Target("router-models", _models, BODIES, mutated)
    yield Target("router-renaming", _renaming, NAMED, _spliced)


ANSWERS = (
    whole(ANSWER),
    STREAM_HEAD + chunk(delta()) + chunk(delta(finish="stop")) + LAST_CHUNK,
    b"HTTP/1.1 103 H\r\nLink: x\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
    b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + delta(),
)
STREAMS = (
    delta("a") + delta("b") + delta(finish="stop") + DONE,
    delta("é 😀") + event({"error": {"message": "x"}}),
    b"event: response.completed\n" + event({"type": "response.completed", "response": {"usage": {"input_tokens": 1}}}),
    (b": ping\n\n" + delta("a", usage={"prompt_tokens": 1, "completion_tokens": 2})).replace(b"\n", b"\r\n"),
)
NAMED = (
    delta("a", model="m") + delta("b", model="m", x={"model": "m"}) + DONE,
    (b'id: 1\ndata: {"object":"model",\ndata:"model"\ndata: : "m"}\n\n' + event({"model": "m"})).replace(
        b"\n", b"\r\n"
    ),
    b"event: response.created\r" + event({"response": {"model": "m"}, "mod\\u0065l": 1}).replace(b"\n", b"\r"),
)
BODIES = (
    b'{"model":"chat","stream":true,"messages":[{"role":"user","content":"hi"}]}',
    b'{"x":{"model":"inner"},"mod\\u0065l" : "chat","a":[1e400,"\\"model\\":"]}',
)


def _spliced(data: bytes, limit: int, source: Random, bytewise: Bytewise) -> bytes:
    """A word of the protocol put in or over, or the engine's own change."""
    if source.random() < 0.5:
        return bytewise(data, limit)
    place, word = source.randrange(len(data) + 1), source.choice(WORDS)
    over = source.choice((0, 0, len(word), source.randrange(20)))
    return (data[:place] + word + data[place + over :])[:limit]


def _cut(data: bytes) -> Sequence[bytes]:
    """In two, at a place the data chooses; short data byte by byte."""
    if len(data) <= LONGEST_SPLIT:
        return [data[at : at + 1] for at in range(len(data))]
    place = sum(data[:64]) % len(data)
    return [data[:place], data[place:]]


def _requests(data: bytes, watch: Watch) -> bool:
    with watch.watched():
        ours, cut = requests_by_us([data]), requests_by_us(_cut(data))
    assert ours == cut, (ours, cut)
    difference = "" if two_blanks(data) else disagreement(ours, requests_by_h11(data))
    assert not difference, difference
    return bool(ours.messages)


def _answers(data: bytes, watch: Watch) -> bool:
    with watch.watched():
        ours, cut = answer_by_us([data], ended=True), answer_by_us(_cut(data), ended=True)
    assert (ours.wrong, ours.messages) == (cut.wrong, cut.messages), (ours, cut)
    assert not (difference := disagreement(ours, answer_by_h11(data, ended=True))), difference
    return bool(ours.messages) and not ours.wrong


def _events(data: bytes, watch: Watch) -> bool:
    with watch.watched():
        seen, cut = _observed([data]), _observed(_cut(data))
    assert seen == cut, (seen, cut)
    return bool(seen[0] == "complete")


def _observed(pieces: Sequence[bytes]) -> tuple[Any, ...]:
    observer = Observer(lambda: 0.0)
    observer.begin(b"text/event-stream", b"")
    for piece in pieces:
        observer.feed([piece])
    outcome = observer.end(whole=True)
    return outcome, observer.content_events, observer.data_events, observer.usage, observer.first_content_at


def _renaming(data: bytes, watch: Watch) -> bool:
    """Who reads the events finds no other difference than the names."""
    with watch.watched():
        renamed, cut = _renamed([data]), _renamed(_cut(data))
    assert renamed == cut, (renamed, cut)
    for before, after in zip(_read(data), _read(renamed), strict=True):
        assert before.name == after.name
        if before.data != after.data:
            assert _without_model(before.data) == _without_model(after.data)
    return renamed != data


def _renamed(pieces: Sequence[bytes]) -> bytes:
    renaming = EventRenaming(AnswerAlias('o"ther', in_response=True))
    return b"".join([*map(renaming.feed, pieces), renaming.end()])


def _read(data: bytes) -> list[Event]:
    reader = EventReader()
    return [*reader.feed(data), *reader.end()]


def _without_model(data: bytes) -> str:
    document = json.loads(data)
    response = document.get("response")
    for one in (document, response if isinstance(response, dict) else {}):
        one.pop("model", None)
    return repr(document)


def _models(data: bytes, watch: Watch) -> bool:
    try:
        with watch.watched():
            model = requested_model(data)
            changed = with_model(data, model, 'o"ther')
    except RequestRefused:
        return False
    before, after = json.loads(data), json.loads(changed)
    assert before.pop("model") == model
    assert after.pop("model") == 'o"ther'
    assert repr(before) == repr(after)
    assert list(json.loads(data)) == list(json.loads(changed))
    return True
