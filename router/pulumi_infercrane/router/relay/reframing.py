"""Answers whose bytes do not go out as they came: for clients that know no chunks, and with the alias as `model`."""

from typing import Protocol

from pulumi_infercrane.router.protocol.answer_alias import AnswerAlias
from pulumi_infercrane.router.protocol.observer import Observer
from pulumi_infercrane.router.protocol.renaming import MAX_HELD, DocumentRenaming, EventRenaming, Renaming
from pulumi_infercrane.router.protocol.response import DECHUNKED, REFRAMED, ResponseReader
from pulumi_infercrane.router.traffic import Traffic


class Reframed(Protocol):
    """A body on its way to a client."""

    dropped: frozenset[bytes]
    """Headers of the upstream that do not hold for these bytes, and those no answer keeps."""
    framing: bytes
    """Whole header lines instead."""

    def pass_on(self, pieces: list[bytes]) -> bytes:
        """What goes out now that these pieces have come."""

    def end(self) -> bytes:
        """What goes out at the end of a whole answer."""


class Dechunked:
    """The pieces themselves; where the connection ends they end."""

    dropped, framing = DECHUNKED, b""

    def pass_on(self, pieces: list[bytes]) -> bytes:
        return b"".join(pieces)

    def end(self) -> bytes:
        return b""


class Renamed:
    """With the alias, which may have another length: in chunks of our own."""

    __slots__ = ("_chunked", "_renaming", "_traffic", "framing")

    dropped = REFRAMED

    def __init__(self, renaming: Renaming, traffic: Traffic, *, chunked: bool) -> None:
        self.framing = b"Transfer-Encoding: chunked\r\n" if chunked else b""
        self._renaming = renaming
        self._traffic = traffic
        self._chunked = chunked

    def pass_on(self, pieces: list[bytes]) -> bytes:
        return self._framed(b"".join([self._renaming.feed(piece) for piece in pieces]))

    def end(self) -> bytes:
        rest = self._framed(self._renaming.end())
        self._traffic.not_renamed += self._renaming.too_large
        return rest + b"0\r\n\r\n" if self._chunked else rest

    def _framed(self, data: bytes) -> bytes:
        return b"%x\r\n%b\r\n" % (len(data), data) if data and self._chunked else data


def renamed(
    alias: AnswerAlias, reader: ResponseReader, observer: Observer, traffic: Traffic, *, chunked: bool
) -> Renamed | None:
    """How an answer gets its alias. None when it passes as it came: errors do, and what cannot be read is counted."""
    if reader.status >= 300 or reader.complete:
        return None
    if observer.streaming:
        return Renamed(EventRenaming(alias), traffic, chunked=chunked)
    if observer.is_document and int(reader.headers.first.get(b"content-length", 0)) <= MAX_HELD:
        return Renamed(DocumentRenaming(alias), traffic, chunked=chunked)
    traffic.not_renamed += 1
    return None
