"""Connections to one upstream address, pooled."""

import asyncio
import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import httptools

from pulumi_infercrane.router.errors import AnswerInvalid
from pulumi_infercrane.router.histograms import Histogram
from pulumi_infercrane.router.protocol.response import ResponseReader
from pulumi_infercrane.router.routing.dialer import Address, Dialer

if TYPE_CHECKING:
    from pulumi_infercrane.router.relay.exchange import Exchange

MAX_IDLE = 1024
REST_S = 0.25
MAX_UNOBSERVED = 4
"""Pieces of a stream read together: what reading needs is then fetched from memory once, not once per event."""
LARGE = 16 * 1024
"""Bytes that are read at once, so that little is held back."""
HIGH_WATER = 64 * 1024
LOW_WATER = 16 * 1024


class UpstreamConnection(asyncio.Protocol):
    """Carries one exchange at a time; between two it waits in its pool."""

    __slots__ = (
        "_exchange",
        "_pieces",
        "_reader",
        "_relaying",
        "_write",
        "idle_until",
        "pool",
        "rests_until",
        "transport",
    )

    transport: asyncio.Transport

    def __init__(self, pool: "Pool") -> None:
        self.pool = pool
        self.idle_until = 0.0
        self.rests_until = 0.0
        self._exchange: Exchange | None = None
        self._reader: ResponseReader | None = None
        self._relaying: ResponseReader | None = None
        """The reader again, once bytes go straight to the client."""
        self._write: Callable[[bytes], None] | None = None
        self._pieces: list[bytes] = []

    @property
    def usable(self) -> bool:
        """Open and reading, so that a request may be written to it."""
        return not self.transport.is_closing() and self.transport.is_reading()

    def begin(self, exchange: "Exchange", message: bytes, pieces: list[bytes]) -> ResponseReader:
        """Send a whole request and let `exchange` take the answer, its body in `pieces`."""
        self._exchange = exchange
        self._reader = reader = ResponseReader(pieces)
        self.transport.write(message)
        return reader

    def relay_to(self, write: Callable[[bytes], None], pieces: list[bytes]) -> None:
        """From now on received bytes go to `write` as they are; body pieces gather in `pieces` until observed."""
        self._write, self._pieces = write, pieces
        self._relaying = self._reader

    def pause(self) -> None:
        """Take no more bytes from the upstream for now."""
        if not self.transport.is_closing():
            self.transport.pause_reading()

    def resume(self) -> None:
        """Take bytes again."""
        if not self.transport.is_closing():
            self.transport.resume_reading()

    def release(self) -> None:
        """The answer is complete: wait for the next exchange, or close."""
        reader = self._end()
        if self.transport.get_write_buffer_size():
            self.transport.abort()  # it answered before it had read it all: the rest would come before the next
        elif reader is None or not reader.keep_alive or reader.surplus or not self.usable:
            self.transport.close()
        else:
            self.pool.give(self, reader.idle_seconds(self.pool.idle_seconds), rest=reader.is_event_stream)

    def abort(self) -> None:
        """Close at once, so that the upstream stops generating."""
        self._end()
        self.transport.abort()

    def _end(self) -> ResponseReader | None:
        reader = self._reader
        self._exchange = self._reader = self._relaying = self._write = None
        self._pieces = []
        if reader is not None:
            reader.close()
        return reader

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport = cast("asyncio.Transport", transport)
        transport.set_write_buffer_limits(high=HIGH_WATER, low=LOW_WATER)

    def data_received(self, data: bytes) -> None:
        reader, write = self._relaying, self._write
        if reader is None or write is None:
            self._before_body(data)
            return
        feed = reader.feed_body  # called from a local: a method call on a slot is slow in CPython 3.11
        try:
            feed(data)
        except httptools.HttpParserError:
            self._fail()
            return
        if reader.over:
            self._last(reader, write, data)
            return
        write(data)
        pieces = self._pieces
        if not pieces or len(pieces) >= MAX_UNOBSERVED or len(data) > LARGE:
            self._look(reader, data)

    def _last(self, reader: ResponseReader, write: Callable[[bytes], None], data: bytes) -> None:
        if reader.surplus or reader.ends_late(data):
            self._fail()
        elif self._exchange is not None:
            write(data)
            self._exchange.answer_complete()

    def eof_received(self) -> None:
        """Nothing to do: the transport closes itself."""

    def connection_lost(self, exc: Exception | None) -> None:
        exchange, reader = self._exchange, self._reader
        self._exchange = None
        self.pool.forget(self)
        if exchange is not None and reader is not None:
            exchange.upstream_lost(clean=exc is None)
        self._end()

    def _before_body(self, data: bytes) -> None:
        exchange, reader = self._exchange, self._reader
        if exchange is None or reader is None:
            self.transport.abort()  # nobody asked: an upstream out of step
            return
        try:
            rest = data if reader.head_done else reader.feed_head(data)
            if reader.interim:
                exchange.pass_on_interim(reader)
            if rest is not None:
                exchange.pass_on(reader, rest)
        except AnswerInvalid:
            self._fail()

    def _look(self, reader: ResponseReader, data: bytes) -> None:
        """Have pieces observed; what came without any must come to an end."""
        if not self._pieces:
            self._bound(reader, data)
        elif self._exchange is not None:
            self._exchange.observe()

    def _bound(self, reader: ResponseReader, data: bytes) -> None:
        try:
            reader.bound_framing(data)
        except AnswerInvalid:
            self._fail()

    def _fail(self) -> None:
        if self._exchange is not None:
            self._exchange.upstream_misbehaved()


class Pool:
    """Idle connections to one address, last in first out, so that few stay warm and the others expire.

    A connection that carried an event stream rests first: llama-server offers to keep it, closes it all the same
    right after the stream (within 0.1 ms), and a request written in between would be lost.
    """

    def __init__(self, address: Address, dialer: Dialer, idle_seconds: float, clock: Callable[[], float]) -> None:
        self.address = address
        self.dialer = dialer
        self.idle_seconds = idle_seconds
        self._clock = clock
        self._idle: dict[UpstreamConnection, None] = {}  # ordered sets
        self._resting: dict[UpstreamConnection, None] = {}
        self._retired = False
        self._open: set[UpstreamConnection] = set()
        self.dialled = Histogram()
        """How long those took that were made."""

    @property
    def open(self) -> int:
        """Connections, idle and busy."""
        return len(self._open)

    def take(self) -> UpstreamConnection | None:
        """A connection that is still good, or None."""
        now = self._clock()
        if self._resting:
            self._wake(now)
        while self._idle:
            connection, _ = self._idle.popitem()
            if connection.usable and connection.idle_until > now:
                return connection
            connection.transport.close()
        return None

    def give(self, connection: UpstreamConnection, idle_seconds: float, *, rest: bool) -> None:
        """Keep a connection for its next exchange, unless it would be closed by the other side first."""
        if self._retired or idle_seconds <= 0 or len(self._idle) + len(self._resting) >= MAX_IDLE:
            connection.transport.close()
            return
        now = self._clock()
        connection.idle_until = now + idle_seconds
        if rest:
            connection.rests_until = now + REST_S
            self._resting[connection] = None
        else:
            self._idle[connection] = None

    def forget(self, connection: UpstreamConnection) -> None:
        """It was closed."""
        self._idle.pop(connection, None)
        self._resting.pop(connection, None)
        self._open.discard(connection)

    def expire(self) -> None:
        """Close what has waited long enough."""
        now = self._clock()
        for connection in [idle for idle in self._all() if idle.idle_until <= now]:
            connection.transport.close()

    def retire(self) -> None:
        """No table names this address any more: close what is idle, and what is busy after its exchange."""
        self._retired = True
        for connection in self._all():
            connection.transport.close()

    def _all(self) -> tuple[UpstreamConnection, ...]:
        return (*self._idle, *self._resting)

    def _wake(self, now: float) -> None:
        for connection in tuple(itertools.takewhile(lambda one: one.rests_until <= now, self._resting)):
            del self._resting[connection]
            self._idle[connection] = None

    async def dial(self, timeout_s: float) -> UpstreamConnection:
        """A new connection.

        Raises:
            OSError: there is none, for whatever reason; nothing was sent.
        """
        began = self._clock()
        connection = await self.dialer.open(self.address, lambda: UpstreamConnection(self), timeout_s)
        self.dialled.add(self._clock() - began)
        if not connection.transport.is_closing():
            self._open.add(connection)  # not when it is made: of a dial that is given up on nobody tells the end
        return connection
