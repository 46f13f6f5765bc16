"""Requests from bytes, read alone: what a reader holds, and where its limits are."""

import tracemalloc

from pulumi_infercrane.router.protocol.request import Limits, Request, RequestReader
from tests.router.ambiguous import HOST, post

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
