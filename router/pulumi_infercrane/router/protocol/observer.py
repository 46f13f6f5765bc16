"""Reads a copy of an answer and says how it went. The bytes on their way to the client are never touched."""

import re
from collections.abc import Callable, Iterable
from enum import StrEnum
from functools import lru_cache

import orjson

from pulumi_infercrane.router.histograms import Histogram
from pulumi_infercrane.router.protocol.answers import Reading, Usage, read
from pulumi_infercrane.router.protocol.sse import Event, EventReader

MAX_DOCUMENT = 256 * 1024
"""Bytes of a not streamed answer that are kept to be read; of a larger one only the framing is known."""

_ABORTED = frozenset({"abort", "error"})
_is_plain = re.compile(rb'[^"\\\x00-\x1f]+').fullmatch


class Outcome(StrEnum):
    """How a request ended; every request has exactly one."""

    COMPLETE = "complete"
    ABORTED = "aborted"
    ERROR_EVENT = "error_event"
    TRUNCATED = "truncated"
    HTTP_ERROR = "http_error"
    IDLE_TIMEOUT = "idle_timeout"
    TOTAL_TIMEOUT = "total_timeout"
    CLIENT_CANCELLED = "client_cancelled"
    FIRST_BYTE_TIMEOUT = "first_byte_timeout"
    CONNECT_FAILED = "connect_failed"
    UPSTREAM_CLOSED = "upstream_closed"
    UPSTREAM_PROTOCOL = "upstream_protocol"
    UNROUTABLE = "unroutable"
    SHED = "shed"
    LIMITED = "limited"
    AUTH = "auth"
    CLIENT_ERROR = "client_error"
    UNOBSERVED = "unobserved"


@lru_cache(maxsize=64)
def _readable(content_type: bytes, content_encoding: bytes) -> bytes:
    """The media type without parameters; empty when the body is compressed."""
    if content_encoding.strip().lower() not in (b"", b"identity"):
        return b""
    return content_type.partition(b";")[0].strip().lower()


class Observer:
    """One per attempt. `feed` takes body pieces without transfer coding, in order, as they come or several at once.

    Most events of a stream differ from the one before only in their text. `feed` remembers the bytes round the text
    of a plain event; a piece that has exactly these bytes round text without quotes, escapes and control characters
    is one more plain event and needs no parsing. Everything else is parsed.
    """

    __slots__ = (
        "_choices",
        "_clock",
        "_document",
        "_error",
        "_events",
        "_finished",
        "_lost",
        "_noted_at",
        "_noted_events",
        "_parsed_content",
        "_parsed_events",
        "_plain_events",
        "_prefix",
        "_size",
        "_suffix",
        "first_content_at",
        "is_document",
        "streaming",
        "usage",
    )

    def __init__(self, clock: Callable[[], float]) -> None:
        self.first_content_at: float | None = None
        """By `clock`, when the first text, reasoning or tool call came."""
        self.streaming = False
        """Whether the body is an event stream that can be read."""
        self.is_document = False
        """Whether it is one JSON document that can be read."""
        self.usage: Usage | None = None
        self._clock = clock
        self._plain_events = 0
        self._parsed_events = 0
        self._parsed_content = 0
        self._events: EventReader | None = None
        self._document: list[bytes] = []
        self._size = 0
        self._choices: set[int] = set()
        self._finished: dict[int, str] = {}
        self._error = False
        self._lost = False
        self._noted_at = 0.0
        """When gaps were noted the last time."""
        self._noted_events = 0
        self._prefix = b""
        self._suffix = b""

    def begin(self, content_type: bytes, content_encoding: bytes) -> None:
        """What the head says about the body."""
        media = _readable(content_type, content_encoding)
        self.is_document = media == b"application/json"
        if media == b"text/event-stream":
            self.streaming, self._events = True, EventReader()

    @property
    def data_events(self) -> int:
        """Data events so far, `[DONE]` included; what the gap timer watches."""
        return self._parsed_events + self._plain_events

    @property
    def content_events(self) -> int:
        """Events with text, reasoning or a tool call."""
        return self._parsed_content + self._plain_events

    @property
    def eager(self) -> bool:
        """Whether the next event must be seen when it comes, because it may be the first with content."""
        return self.streaming and self.first_content_at is None

    def feed(self, pieces: Iterable[bytes]) -> None:
        """Take copies of body bytes. Never raises."""
        prefix, suffix = self._prefix, self._suffix
        for piece in pieces:
            if (
                prefix
                and piece.startswith(prefix)
                and piece.endswith(suffix)
                and _is_plain(piece, len(prefix), len(piece) - len(suffix))
            ):
                self._plain_events += 1
            else:
                self._parse(piece)
                prefix, suffix = self._prefix, self._suffix

    def note_gaps(self, gaps: Histogram) -> None:
        """Once for what was read together, not once per event: book the time since the last call, event by event."""
        if self.first_content_at is None:
            return
        now, events, seen = self._clock(), self._parsed_events + self._plain_events, self._noted_events
        if events > seen > 0:
            gaps.add_together(now - self._noted_at, events - seen)
        self._noted_at, self._noted_events = now, events

    def _parse(self, piece: bytes) -> None:
        if self.is_document:
            self._feed_document(piece)
        elif self._events is not None:
            self._feed_events(self._events, piece)

    def end(self, *, whole: bool) -> Outcome:
        """The outcome by what was seen. `whole` tells whether the framing came to its end."""
        if self.is_document:
            return self._end_document(whole=whole)
        if self._events is None:
            return Outcome.UNOBSERVED if whole else Outcome.TRUNCATED
        self._take_events(self._events.end())
        if self._lost and not self._error:
            return Outcome.UNOBSERVED
        return self.verdict() or Outcome.TRUNCATED

    def verdict(self) -> Outcome | None:
        """What is settled already, before the body ends."""
        if self._error:
            return Outcome.ERROR_EVENT
        if not self._finished:
            return None
        if not _ABORTED.isdisjoint(self._finished.values()):
            return Outcome.ABORTED
        if self._choices <= self._finished.keys() and not self._lost:
            return Outcome.COMPLETE
        return None

    def _feed_events(self, events: EventReader, piece: bytes) -> None:
        self._prefix = b""
        self._take_events(events.feed(piece))
        if events.pending:
            self._prefix = b""
        if events.too_long:
            self.streaming, self._events, self._lost = False, None, True

    def _take_events(self, events: list[Event]) -> None:
        for event in events:
            self._prefix = b""
            self._parsed_events += 1
            if event.data != b"[DONE]":
                self._take_event(event)

    def _take_event(self, event: Event) -> None:
        try:
            document = orjson.loads(event.data)
        except orjson.JSONDecodeError:
            document = None
        if event.name == b"error":
            self._error = True
        elif isinstance(document, dict):
            reading = read(document)
            self._note(reading)
            self._remember_shape(event, reading)
        else:
            self._lost = True

    def _note(self, reading: Reading) -> None:
        self._error = self._error or reading.error
        self._choices.update(reading.choices)
        self._finished.update(reading.finished)
        self.usage = reading.usage or self.usage
        if reading.content:
            self._parsed_content += 1
            if self.first_content_at is None:
                self.first_content_at = self._clock()

    def _remember_shape(self, event: Event, reading: Reading) -> None:
        text = b'"%b"' % reading.text.encode()
        if event.name or not reading.text or reading.usage or event.data.count(text) != 1:
            return
        before, _, after = event.data.partition(text)
        self._prefix = b'data: %b"' % before
        self._suffix = b'"%b\n\n' % after

    def _feed_document(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size <= MAX_DOCUMENT:
            self._document.append(piece)
        else:
            self._document.clear()

    def _end_document(self, *, whole: bool) -> Outcome:
        if not whole:
            return Outcome.TRUNCATED
        if self._size > MAX_DOCUMENT:
            return Outcome.COMPLETE
        try:
            document = orjson.loads(b"".join(self._document))
        except orjson.JSONDecodeError:
            return Outcome.UNOBSERVED
        if not isinstance(document, dict):
            return Outcome.UNOBSERVED
        self._note(read(document))
        return self.verdict() or Outcome.COMPLETE
