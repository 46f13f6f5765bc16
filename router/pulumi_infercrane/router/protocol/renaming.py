"""Bodies of answers, cut anywhere, with the alias in the place of `model`: one document, or event after event."""

import re
from typing import Protocol

from pulumi_infercrane.router.protocol.answer_alias import AnswerAlias

MAX_HELD = 1024 * 1024
"""Bytes of a document, or of one event, that are held back until it is complete. A larger one passes as it came."""

_LINE_ENDS = b"\r\n"
_end_of_event = re.compile(rb"(?:\n[\r\n]|\r\r)[\r\n]*")
"""An empty line, and those that follow; lines end with LF, CRLF or CR."""
_data_line = re.compile(rb"((?:\xef\xbb\xbf)?data:)([^\r\n]*)([\r\n]*)").fullmatch


class Renaming(Protocol):
    """A body on its way to a client."""

    too_large: bool
    """Whether something passed as it came because it was larger than MAX_HELD."""

    def feed(self, piece: bytes) -> bytes:
        """What can go out now that this piece has come."""

    def end(self) -> bytes:
        """What is left when the body has come to its end."""


class DocumentRenaming:
    """A body that is one JSON document."""

    __slots__ = ("_alias", "_held", "too_large")

    def __init__(self, alias: AnswerAlias) -> None:
        self.too_large = False
        self._alias = alias
        self._held = bytearray()

    def feed(self, piece: bytes) -> bytes:
        if self.too_large:
            return piece
        self._held += piece
        self.too_large = len(self._held) > MAX_HELD
        return self._take() if self.too_large else b""

    def end(self) -> bytes:
        return self._alias.put_in(self._take())

    def _take(self) -> bytes:
        held, self._held = bytes(self._held), bytearray()
        return held


class EventRenaming:
    """A body of server-sent events. Each goes out as soon as the empty line that ends it has begun."""

    __slots__ = ("_alias", "_held", "_inside", "too_large")

    def __init__(self, alias: AnswerAlias) -> None:
        self.too_large = False
        self._alias = alias
        self._held = bytearray()
        """The beginning of an event; no empty line is in it."""
        self._inside = False
        """Whether more of that event has gone out already, because it is too large."""

    def feed(self, piece: bytes) -> bytes:
        if not self._held:
            if _is_plain(piece):
                return b"data:" + self._alias.put_in(piece[5:-2]) + b"\n\n"
            rest = piece.lstrip(_LINE_ENDS)  # empty lines between events, or the second half of a CRLF
            return piece[: len(piece) - len(rest)] + self._feed(rest)
        return self._feed(piece)

    def end(self) -> bytes:
        rest = bytes(self._held)
        self._held.clear()
        return rest if self._inside else self._renamed(rest)

    def _feed(self, piece: bytes) -> bytes:
        held = self._held
        looked_through = max(0, len(held) - 1)
        held += piece
        end = _behind_events(held, looked_through)
        if not end and (len(held) > MAX_HELD or self._inside):
            self.too_large = self._inside = True
            return self._take(len(held) - 1)  # one byte stays: an empty line may begin with it
        return self._all_renamed(self._take(end)) if end else b""

    def _take(self, end: int) -> bytes:
        taken = bytes(self._held[:end])
        del self._held[:end]
        return taken

    def _all_renamed(self, events: bytes) -> bytes:
        pieces, done = [], 0
        for found in _end_of_event.finditer(events):
            event, done = events[done : found.end()], found.end()
            self.too_large = self.too_large or len(event) > MAX_HELD
            pieces.append(event if self._inside or len(event) > MAX_HELD else self._renamed(event))
            self._inside = False
        return b"".join(pieces)

    def _renamed(self, event: bytes) -> bytes:
        """A JSON text may be spread over data lines, but no string in it: each line keeps its end."""
        lines = event.splitlines(keepends=True)
        data = [_data_line(line) for line in lines]
        text = b"\n".join([found[2] for found in data if found])
        renamed = self._alias.put_in(text)
        if renamed is text:
            return event
        values = iter(renamed.split(b"\n"))
        return b"".join(
            [found[1] + next(values) + found[3] if found else line for line, found in zip(lines, data, strict=True)]
        )


def _is_plain(piece: bytes) -> bool:
    """Whether a piece is one event of one line, as nearly all are: found without looking at each byte in turn."""
    one_line = piece.startswith(b"data:") and piece.endswith(b"\n\n") and piece.find(b"\n") == len(piece) - 2
    return one_line and b"\r" not in piece


def _behind_events(held: bytearray, start: int) -> int:
    """Where the last empty line that is found from `start` on ends; 0 without one."""
    last = max(held.rfind(b"\n\n", start), held.rfind(b"\n\r", start), held.rfind(b"\r\r", start))
    return last + 2 + (held[last + 2 : last + 3] == b"\n") if last >= 0 else 0
