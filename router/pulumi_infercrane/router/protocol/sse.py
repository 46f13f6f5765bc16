"""Server-sent events from pieces of bytes, cut anywhere."""

from typing import NamedTuple

MAX_PENDING = 1024 * 1024
"""Bytes of one unfinished event. `response.completed` repeats the whole answer, so it must hold a long one."""

_BOM = b"\xef\xbb\xbf"


class Event(NamedTuple):
    """One dispatched event; several data lines are joined by LF."""

    name: bytes
    data: bytes


class EventReader:
    """Line endings may be LF, CRLF or CR; comments and unknown fields are skipped."""

    __slots__ = ("_begun", "_data", "_line", "_more", "_name", "_size")

    def __init__(self) -> None:
        self._line = b""
        self._more = bytearray()
        """What follows `_line` without a line end; it grows in place, for an event may come in thousands of pieces."""
        self._name = b""
        self._data: list[bytes] = []
        self._size = 0
        self._begun = False

    @property
    def pending(self) -> bool:
        """Whether part of an event is held back."""
        return bool(self._line or self._more or self._data or self._name)

    @property
    def too_long(self) -> bool:
        """Whether the unfinished event exceeds MAX_PENDING: the rest of the stream cannot be observed."""
        return len(self._line) + len(self._more) + self._size > MAX_PENDING

    def feed(self, piece: bytes) -> list[Event]:
        """Events completed by this piece; check `too_long` afterwards."""
        if not piece.endswith(b"\n") and self._goes_on(piece):
            self._more += piece
            return []
        if self._more:
            self._join()
        lines = (self._line + piece).splitlines(keepends=True)
        # a lone CR at the end may be the first half of CRLF
        self._line = lines.pop() if lines and not lines[-1].endswith(b"\n") else b""
        return [event for line in lines if (event := self._take(line.rstrip(b"\r\n"))) is not None]

    def end(self) -> list[Event]:
        """What is left when the body ends without a blank line."""
        self._join()
        lines = [self._line.rstrip(b"\r\n"), b""]
        self._line = b""
        return [event for line in lines if (event := self._take(line)) is not None]

    def _goes_on(self, piece: bytes) -> bool:
        """Whether this piece ends no line."""
        return b"\n" not in piece and b"\r" not in piece and not self._line.endswith(b"\r")

    def _join(self) -> None:
        self._line += bytes(self._more)
        self._more.clear()

    def _take(self, line: bytes) -> Event | None:
        if not self._begun:
            self._begun, line = True, line.removeprefix(_BOM)
        if not line:
            return self._dispatch()
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
            self._size += len(line)  # not of the value: lines without one are held too
        elif field == b"event":
            self._name = value
        return None

    def _dispatch(self) -> Event | None:
        event = Event(self._name, b"\n".join(self._data)) if self._data else None
        self._name, self._data, self._size = b"", [], 0
        return event
