"""Bodies with the alias in the place of `model`, wherever they are cut into pieces."""

import itertools
import json
from collections.abc import Iterable
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulumi_infercrane.router.protocol.answer_alias import AnswerAlias
from pulumi_infercrane.router.protocol.renaming import MAX_HELD, DocumentRenaming, EventRenaming, Renaming

ALIAS = AnswerAlias("chat", in_response=True)

EVENTS = (
    b': comment with "model":"m"\n\n'
    b'data: {"id":"1","model":"org/m","choices":[{"delta":{"content":"\xf0\x9f\x99\x82 \\"model\\":\\"m\\""}}]}\n\n'
    b'event: response.created\ndata:{"response":{"model":"org/m"}}\n\n'
    b'id: 7\ndata: {"object":"model",\ndata:"model"\ndata: : "org/m"}\nretry: 1\n\n\n'
    b'event: error\ndata: {"error":{"message":"model"},"model":"org/m"}\n\n'
    b'data: {"model":"org/m"\n\ndata: {"model": 1}\n\ndata\n\n'
    b"data: [DONE]\n\n"
)
RENAMED = EVENTS.replace(b'"org/m"', b'"chat"').replace(b'{"model":"chat"\n', b'{"model":"org/m"\n')
LINE_ENDS = {"LF": b"\n", "CRLF": b"\r\n", "CR": b"\r"}


def through(renaming: Renaming, pieces: Iterable[bytes]) -> bytes:
    return b"".join([*map(renaming.feed, pieces), renaming.end()])


def cut(data: bytes, *places: int) -> list[bytes]:
    return [data[start:end] for start, end in itertools.pairwise((0, *sorted(places), len(data)))]


@pytest.mark.parametrize("line_end", LINE_ENDS.values(), ids=LINE_ENDS)
@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf", b"\n\n"])
def test_events_are_the_same_wherever_they_are_cut(line_end: bytes, start: bytes) -> None:
    sent, expected = ((start + text).replace(b"\n", line_end) for text in (EVENTS, RENAMED))
    assert through(EventRenaming(ALIAS), [sent]) == expected
    assert through(EventRenaming(ALIAS), [bytes([one]) for one in sent]) == expected
    for place in range(len(sent)):
        assert through(EventRenaming(ALIAS), cut(sent, place)) == expected


EVENT_PARTS = ["\n", "\r", "\r\n", "data:", "data: ", ":", '{"model":"m"}', '{"model":', '"m"}', "x", "event: error"]


@given(st.lists(st.sampled_from(EVENT_PARTS), max_size=30), st.lists(st.integers(0, 200), max_size=8))
def test_any_stream_is_the_same_wherever_it_is_cut(parts: list[str], places: list[int]) -> None:
    sent = "".join(parts).encode()
    whole = through(EventRenaming(ALIAS), [sent])
    assert through(EventRenaming(ALIAS), cut(sent, *(place for place in places if place < len(sent)))) == whole
    assert whole.replace(b'"chat"', b'"m"') == sent


@pytest.mark.parametrize("line_end", LINE_ENDS.values(), ids=LINE_ENDS)
def test_an_event_goes_out_with_the_byte_that_ends_it(line_end: bytes) -> None:
    event = b'data: {"model":"m"}' + line_end * 2
    ends_at = len(event) - (line_end == b"\r\n")  # the CR of the empty line; its LF follows by itself
    renaming = EventRenaming(ALIAS)
    for _ in range(3):
        out = [renaming.feed(bytes([one])) for one in event]
        assert not any(out[: ends_at - 1])
        assert b"".join(out) == event.replace(b'"m"', b'"chat"')


def test_an_event_that_is_not_ended_waits_for_the_end_of_the_body() -> None:
    renaming = EventRenaming(ALIAS)
    assert renaming.feed(b'data: {}\n\ndata: {"model":"m"}\n') == b"data: {}\n\n"
    assert renaming.end() == b'data: {"model":"chat"}\n'


@pytest.mark.parametrize("size", [1000, 60_000, 2 * MAX_HELD])
@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n"])
def test_an_event_that_is_too_large_passes_and_the_next_is_renamed(size: int, end: bytes) -> None:
    small = b'data: {"model":"m"}' + end
    large = b'data: {"model":"m","x":"%b"}' % (b"x" * (MAX_HELD + 100)) + end
    sent, renaming = small + large + small, EventRenaming(ALIAS)
    renamed = small.replace(b'"m"', b'"chat"')
    assert through(renaming, [sent[at : at + size] for at in range(0, len(sent), size)]) == renamed + large + renamed
    assert renaming.too_large


def test_a_body_that_ends_in_an_event_that_is_too_large_passes() -> None:
    sent = b'data: {"model":"m","x":"%b"}' % (b"x" * MAX_HELD)
    assert through(EventRenaming(ALIAS), [sent[:-5], sent[-5:]]) == sent


DOCUMENT = b'{"id":"1","model":"org/m","choices":[{"message":{"content":"\xf0\x9f\x99\x82"}}]}\n'


def test_a_document_is_the_same_wherever_it_is_cut() -> None:
    expected = DOCUMENT.replace(b"org/m", b"chat")
    for place in range(len(DOCUMENT)):
        assert through(DocumentRenaming(ALIAS), cut(DOCUMENT, place)) == expected


def test_a_document_goes_out_when_it_is_whole() -> None:
    renaming = DocumentRenaming(ALIAS)
    assert renaming.feed(DOCUMENT) == b""
    assert json.loads(renaming.end())["model"] == "chat"
    assert not renaming.too_large


def test_a_document_that_is_too_large_passes() -> None:
    renaming = DocumentRenaming(ALIAS)
    large = [DOCUMENT, b" " * (MAX_HELD - len(DOCUMENT)), b"\n", b"  "]
    assert [len(renaming.feed(piece)) for piece in large] == [0, 0, MAX_HELD + 1, 2]
    assert renaming.end() == b""
    assert renaming.too_large


def seconds(pieces: list[bytes]) -> float:
    began = process_time()
    through(EventRenaming(ALIAS), pieces)
    return process_time() - began


def test_an_event_in_many_pieces_costs_by_its_length() -> None:
    """Four times the pieces would take sixteen times as long, were each of them to look at all before it."""
    event = b'data: {"model":"m","x":"%b"}\n\n' % (b"x" * 200_000)
    pieces = [bytes([one]) for one in event]
    assert seconds(pieces) < 8 * min(seconds(pieces[-len(pieces) // 4 :]) for _ in range(3))
