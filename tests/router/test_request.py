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


def test_a_long_body_does_not_count_for_the_head_behind_it() -> None:
    body, behind = b"x" * 60_000, post(HOST, LENGTH)
    first = post(HOST, f"Content-Length: {len(body)}", body=body)
    assert Read().feed(first + behind[:40], behind[40:]) == [body, BODY]


@pytest.mark.parametrize("known", [b"", post(HOST, LENGTH)], ids=["alone", "behind another request"])
@pytest.mark.parametrize("more", [b"x" * 1000, b"X: %b\r\n" % (b"x" * 1000)], ids=["one line", "many lines"])
def test_a_head_without_end_is_refused(known: bytes, more: bytes) -> None:
    begun = post(HOST, "X: ", body=b"").removesuffix(b"\r\n\r\n")
    most = Limits().request_line + Limits().head - len(begun)
    assert Read().refused(known + begun, *[more] * (most // len(more)), more) == 431


def test_a_head_that_came_long_with_the_end_of_another_request_is_refused() -> None:
    long = b"X: %b\r\n" % (b"x" * 1000)
    assert Read().refused(post(HOST, LENGTH) + post(HOST, body=b"")[:-2] + long * 40 + b"\r\n") == 431
