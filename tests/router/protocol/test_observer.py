"""The outcome of an answer, read from a copy: probe T9 and the classes of RD2."""

import itertools
import json
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulumi_infercrane.router.protocol.answers import Usage
from pulumi_infercrane.router.protocol.observer import MAX_DOCUMENT, Observer, Outcome
from pulumi_infercrane.router.protocol.sse import MAX_PENDING, EventReader
from tests.router.upstream import ANSWER, DONE, delta, event

SSE = b"text/event-stream; charset=utf-8"


def observe(*pieces: bytes, media: bytes = SSE, encoding: bytes = b"", whole: bool = True) -> tuple[Outcome, Observer]:
    ticks = itertools.count(1)
    observer = Observer(lambda: float(next(ticks)))
    observer.begin(media, encoding)
    for piece in pieces:
        observer.feed([piece])
    return observer.end(whole=whole), observer


def outcome(*pieces: bytes, **more: Any) -> Outcome:
    return observe(*pieces, **more)[0]


def choice(index: int, finish: str | None = None) -> bytes:
    return event({"choices": [{"index": index, "delta": {"content": "x"}, "finish_reason": finish}]})


def response_event(kind: str, **more: Any) -> bytes:
    return b"event: %b\n" % kind.encode() + event({"type": kind, **more})


STREAMS = {
    "complete": ([delta("a"), delta("b"), delta(finish="stop"), DONE], Outcome.COMPLETE),
    "unknown finish reason": ([delta("a"), delta(finish="repetition")], Outcome.COMPLETE),
    "without a finish reason": ([delta("a"), delta("b"), DONE], Outcome.TRUNCATED),
    "aborted": ([delta("a"), delta(finish="abort"), DONE], Outcome.ABORTED),
    "error event": ([delta("a"), event({"error": {"message": "x"}}), DONE], Outcome.ERROR_EVENT),
    "error as text": ([event({"error": "out of memory"})], Outcome.ERROR_EVENT),
    "named error event": ([delta("a"), b"event: error\ndata: oops\n\n"], Outcome.ERROR_EVENT),
    "error after the end": ([delta(finish="stop"), event({"error": {"m": 1}})], Outcome.ERROR_EVENT),
    "error in the content": ([delta('"error": {"x": 1}'), delta(finish="stop")], Outcome.COMPLETE),
    "null error": ([delta("a", error=None), delta(finish="stop", error="")], Outcome.COMPLETE),
    "one of two choices": ([choice(0), choice(1), choice(0, "stop")], Outcome.TRUNCATED),
    "both choices": ([choice(0), choice(1), choice(0, "stop"), choice(1, "length")], Outcome.COMPLETE),
    "broken JSON": ([delta("a"), b'data: {"choices":[\n\n', delta(finish="stop")], Outcome.UNOBSERVED),
    "broken JSON of a plain shape": (
        [delta("a"), delta("b")[:-4] + b"\n\n", delta(finish="stop")],
        Outcome.UNOBSERVED,
    ),
    "no object": ([b"data: 12\n\n", delta(finish="stop")], Outcome.UNOBSERVED),
    "comments": ([b": ping\n\n", delta("a"), b":\n\n", delta(finish="stop")], Outcome.COMPLETE),
    "no blank behind the colon": ([delta("a").replace(b"data: ", b"data:"), delta(finish="stop")], Outcome.COMPLETE),
    "multi-byte text": ([delta("日本 é 😀"), delta("語"), delta(finish="stop")], Outcome.COMPLETE),
    "text with quotes and escapes": ([delta('a"\\\n\u2028'), delta('"'), delta(finish="stop")], Outcome.COMPLETE),
    "data in several lines": ([b'data: {"choices": [\ndata: ]}\n\n', delta(finish="stop")], Outcome.COMPLETE),
    "byte order mark": ([b"\xef\xbb\xbf" + delta("a"), delta(finish="stop")], Outcome.COMPLETE),
    "end without a blank line": ([delta("a"), delta(finish="stop")[:-1]], Outcome.COMPLETE),
    "nothing": ([], Outcome.TRUNCATED),
    "responses completed": (
        [
            response_event("response.created", response={"error": None}),
            response_event("response.output_text.delta", delta="a"),
            response_event("response.completed", response={"usage": {"input_tokens": 3, "output_tokens": 1}}),
        ],
        Outcome.COMPLETE,
    ),
    "responses incomplete": ([response_event("response.incomplete", response={})], Outcome.COMPLETE),
    "responses failed": ([response_event("response.failed", response={})], Outcome.ERROR_EVENT),
    "responses cut": ([response_event("response.output_text.delta", delta="a")], Outcome.TRUNCATED),
}


@pytest.mark.parametrize("name", STREAMS)
def test_streams(name: str) -> None:
    events, expected = STREAMS[name]
    assert outcome(*events) == expected


@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("name", STREAMS)
def test_T9_split_at_every_byte_with_every_line_ending(name: str, ending: bytes) -> None:
    events, expected = STREAMS[name]
    stream = b"".join(events).replace(b"\n", ending)
    assert outcome(stream) == expected
    assert outcome(*(stream[at : at + 1] for at in range(len(stream)))) == expected


texts = st.text(max_size=12)
plain_events = st.builds(delta, texts)
odd_events = st.sampled_from([event_ for events, _ in STREAMS.values() for event_ in events])


@given(
    events=st.lists(plain_events | odd_events, max_size=12),
    cuts=st.lists(st.integers(0, 3000), max_size=12),
)
def test_T9_arbitrary_splits_give_the_same_outcome_and_counts(events: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(events)
    edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    split = [stream[start:end] for start, end in itertools.pairwise(edges)]
    by_event, by_split = observe(*events), observe(*split)
    assert by_event[0] == by_split[0]
    for count in ("content_events", "data_events", "usage", "first_content_at"):
        assert getattr(by_event[1], count) == getattr(by_split[1], count)


@given(texts=st.lists(texts, max_size=20))
def test_plain_events_are_counted_whether_parsed_or_recognised(texts: list[str]) -> None:
    _, observer = observe(*(delta(text) for text in texts))
    assert observer.content_events == sum(1 for text in texts if text)
    assert observer.data_events == len(texts)


def test_the_first_content_is_neither_the_role_nor_empty_text() -> None:
    role = event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": None}}]})
    _, observer = observe(role, delta(""))
    assert observer.first_content_at is None
    _, observer = observe(role, delta(""), delta("a"), delta("b"))
    assert observer.first_content_at == 1


@pytest.mark.parametrize(
    "field", [{"reasoning_content": "x"}, {"reasoning": "x"}, {"tool_calls": [{"index": 0}]}, {"content": "x"}]
)
def test_reasoning_and_tool_calls_are_content(field: dict[str, Any]) -> None:
    _, observer = observe(event({"choices": [{"index": 0, "delta": field}]}))
    assert observer.first_content_at is not None


def test_text_completions_are_read_too() -> None:
    stream = [event({"choices": [{"index": 0, "text": "a", "finish_reason": end}]}) for end in (None, "length")]
    result, observer = observe(*stream)
    assert (result, observer.content_events) == (Outcome.COMPLETE, 2)


def test_usage_is_taken_as_the_server_counts() -> None:
    last = event({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}})
    assert observe(delta("a"), delta(finish="stop"), last)[1].usage == Usage(3, 2)
    assert observe(delta("a", usage={"prompt_tokens": "3"}))[1].usage is None


@pytest.mark.parametrize("count", [-5, 10**15, (1 << 24) + 1])
@pytest.mark.parametrize("name", ["prompt_tokens", "completion_tokens"])
def test_usage_that_nobody_can_have_counted_is_none(name: str, count: int) -> None:
    """It locked a key for good, and made counters fall."""
    usage = {"prompt_tokens": 3, "completion_tokens": 2}
    assert observe(delta("a", usage=usage))[1].usage == Usage(3, 2)
    assert observe(delta("a", usage=usage | {name: count}))[1].usage is None


def test_an_endless_event_is_unobserved_and_not_kept() -> None:
    result, observer = observe(b"data: ", *[b"x" * 65_536] * (MAX_PENDING // 65_536 + 2), whole=True)
    assert result == Outcome.UNOBSERVED
    assert not observer.streaming


@pytest.mark.parametrize("line", [b"data\n", b"data:\n", b"data: x\n"])
def test_an_endless_event_of_short_lines_is_not_kept_either(line: bytes) -> None:
    result, observer = observe(*[line * 10_000] * (MAX_PENDING // (10_000 * len(b"data")) + 1), whole=True)
    assert result == Outcome.UNOBSERVED
    assert not observer.streaming


def test_a_long_event_in_small_pieces_costs_no_more_than_its_length() -> None:
    reader, began = EventReader(), process_time()
    for _ in range(MAX_PENDING // 100):
        reader.feed(b"x" * 100)
    assert process_time() - began < 1, "each piece must not cost what came before it"


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (ANSWER, Outcome.COMPLETE),
        ({"object": "list", "data": []}, Outcome.COMPLETE),
        ({"error": {"message": "x"}}, Outcome.ERROR_EVENT),
        ({"error": None}, Outcome.COMPLETE),
        ({"choices": [{"finish_reason": "abort"}]}, Outcome.ABORTED),
        ([], Outcome.UNOBSERVED),
    ],
)
def test_documents(document: Any, expected: Outcome) -> None:
    body = json.dumps(document).encode()
    assert outcome(body[:5], body[5:], media=b"application/json") == expected
    assert outcome(body[:5], media=b"application/json", whole=False) == Outcome.TRUNCATED


def test_a_large_document_is_judged_by_its_framing() -> None:
    assert outcome(*[b"x" * 65_536] * (MAX_DOCUMENT // 65_536 + 1), media=b"application/json") == Outcome.COMPLETE


def test_what_cannot_be_read_is_unobserved() -> None:
    assert outcome(delta(finish="stop"), encoding=b"gzip") == Outcome.UNOBSERVED
    assert outcome(b"hello", media=b"text/plain") == Outcome.UNOBSERVED
    assert outcome(b"{", media=b"application/json") == Outcome.UNOBSERVED
