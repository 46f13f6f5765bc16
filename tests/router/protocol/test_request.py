"""Requests from bytes, read alone: what a reader holds, and where its limits are."""

import tracemalloc

import pytest

from pulumi_infercrane.router.errors import RequestRefused
from pulumi_infercrane.router.protocol.request import Limits, Request, RequestReader
from tests.router.ambiguous import BODY, HOST, LENGTH, post

CHUNKED_HEAD = post(HOST, "Transfer-Encoding: chunked", body=b"")


class Read:
    """A reader and what it called back."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.reader = RequestReader(Limits(), lambda head: None, self.requests.append, lambda: None)

    def feed(self, *pieces: bytes) -> list[bytes]:
        """Take these reads; the bodies so far."""
        for piece in pieces:
            self.reader.feed(piece)
        return [request.body for request in self.requests]

    def refused(self, *pieces: bytes) -> int:
        """The status that the last of these reads ends in."""
        self.feed(*pieces[:-1])
        with pytest.raises(RequestRefused) as raised:
            self.feed(pieces[-1])
        assert raised.value.close
        return raised.value.status


def test_a_body_in_tiny_chunks_takes_little_more_than_its_bytes() -> None:
    read, count = Read(), 200_000
    read.feed(CHUNKED_HEAD)
    tracemalloc.start()
    for _ in range(count // 1000):
        read.feed(b"2\r\nab\r\n" * 1000)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert held < 3 * len(b"ab") * count
    assert read.feed(b"0\r\n\r\n") == [b"ab" * count]


def test_any_number_of_requests_at_once_may_wish_for_another_protocol() -> None:
    one = post(HOST, LENGTH, "Connection: Upgrade", "Upgrade: h2c")
    assert Read().feed(one * 1000) == [BODY] * 1000


def test_a_long_body_does_not_count_for_the_head_behind_it() -> None:
    body, behind = b"x" * 60_000, post(HOST, LENGTH)
    first = post(HOST, f"Content-Length: {len(body)}", body=body)
    assert Read().feed(first + behind[:40], behind[40:]) == [body, BODY]


def test_chunks_do_not_count_for_the_head_behind_them() -> None:
    chunks, behind = b"1\r\nx\r\n" * 10_000 + b"0\r\n\r\n", post(HOST, LENGTH)
    assert Read().feed(CHUNKED_HEAD + chunks + behind[:40], behind[40:]) == [b"x" * 10_000, BODY]


@pytest.mark.parametrize("known", [b"", post(HOST, LENGTH)], ids=["alone", "behind another request"])
@pytest.mark.parametrize("more", [b"x" * 1000, b"X: %b\r\n" % (b"x" * 1000)], ids=["one line", "many lines"])
def test_a_head_without_end_is_refused(known: bytes, more: bytes) -> None:
    begun = post(HOST, "X: ", body=b"").removesuffix(b"\r\n\r\n")
    most = Limits().request_line + Limits().head - len(begun)
    assert Read().refused(known + begun, *[more] * (most // len(more)), more) == 431


def test_a_head_that_came_long_with_the_end_of_another_request_is_refused() -> None:
    long = b"X: %b\r\n" % (b"x" * 1000)
    assert Read().refused(post(HOST, LENGTH) + post(HOST, body=b"")[:-2] + long * 40 + b"\r\n") == 431


@pytest.mark.parametrize("begun", [b"0\r\nX-Trailer: ", b"5;x="], ids=["trailer", "chunk extension"])
@pytest.mark.parametrize("body", [b"", b"x" * 1_000_000], ids=["at once", "behind a long body"])
def test_what_is_beside_a_body_is_bounded(begun: bytes, body: bytes) -> None:
    chunk = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
    piece = b"x" * 1000
    assert Read().refused(CHUNKED_HEAD + chunk, begun, *[piece] * (Limits().head // len(piece)), piece) == 431


def test_many_trailers_are_as_large_as_one() -> None:
    line = b"X: %b\r\n" % (b"x" * 1000)
    assert Read().refused(CHUNKED_HEAD, b"0\r\n", *[line] * (Limits().head // len(line)), line) == 431


@pytest.mark.parametrize("size", [1, 3, 1000], ids=["byte by byte", "in threes", "many chunks at once"])
def test_a_body_may_come_in_chunks_of_one_byte(size: int) -> None:
    data = b"0001\r\nx\r\n" * 10_000 + b"0\r\nX-Trailer: 1\r\n\r\n"
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    assert Read().feed(CHUNKED_HEAD, *pieces) == [b"x" * 10_000]


def test_two_bodies_in_three_reads_are_not_beside_each_other() -> None:
    body = b"x" * 100_000
    one = post(HOST, f"Content-Length: {len(body)}", body=body)
    assert Read().feed(one[:50_000], one[50_000:] + one[:50_000], one[50_000:]) == [body, body]


@pytest.mark.parametrize("at", range(25, 45, 3))
def test_another_protocol_is_refused_however_its_request_line_is_cut(at: int) -> None:
    data = post(HOST, LENGTH, version="RTSP/1.0")
    whole = post(HOST, LENGTH)
    assert Read().refused(data[:at], data[at:]) == 505
    assert Read().refused(whole + data[:at], data[at:]) == 505
    assert Read().feed(whole[:at], whole[at:]) == [BODY]


def test_a_body_may_speak_of_another_protocol() -> None:
    body = post(HOST, version="RTSP/1.0")
    one = post(HOST, f"Content-Length: {len(body)}", body=body)
    assert Read().feed(one + one) == [body, body]
