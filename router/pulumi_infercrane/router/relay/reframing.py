"""Answers whose bytes do not go out as they came: for clients that know no chunks, and with the alias as `model`."""

from typing import Protocol

from pulumi_infercrane.router.counting.traffic import Traffic
from pulumi_infercrane.router.protocol.answer_alias import AnswerAlias
from pulumi_infercrane.router.protocol.observer import Observer
from pulumi_infercrane.router.protocol.renaming import MAX_HELD, DocumentRenaming, EventRenaming, Renaming
from pulumi_infercrane.router.protocol.response import DECHUNKED, REFRAMED, ResponseReader


class Reframed(Protocol):
    """A body on its way to a client."""

    dropped: frozenset[bytes]
    """Headers of the upstream that do not hold for these bytes, and those no answer keeps."""
    framing: bytes
    """Whole header lines instead."""

    def pass_on(self, pieces: list[bytes], *, whole: bool) -> bytes:
        """What goes out now that these pieces have come, the last ones of a `whole` answer or not."""


class Dechunked:
    """The pieces themselves; where the connection ends they end."""

    dropped, framing = DECHUNKED, b""

    def pass_on(self, pieces: list[bytes], *, whole: bool) -> bytes:
        return b"".join(pieces)


class Renamed:
    """With the alias, which may have another length: in chunks of our own."""

    __slots__ = ("_chunked", "_renaming", "_traffic", "framing")

    dropped = REFRAMED

    def __init__(self, renaming: Renaming, traffic: Traffic, *, chunked: bool) -> None:
        self.framing = b"Transfer-Encoding: chunked\r\n" if chunked else b""
        self._renaming = renaming
        self._traffic = traffic
        self._chunked = chunked

    def pass_on(self, pieces: list[bytes], *, whole: bool) -> bytes:
        data = b"".join([self._renaming.feed(piece) for piece in pieces])
        if whole:
            data += self._renaming.end()
            self._traffic.not_renamed += self._renaming.too_large
        if not self._chunked:
            return data
        chunk = b"%x\r\n%b\r\n" % (len(data), data) if data else b""
        return chunk + b"0\r\n\r\n" if whole else chunk


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
