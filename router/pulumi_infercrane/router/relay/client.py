"""One client connection: requests in, answers out in their order."""

import asyncio
import fcntl
import socket
import struct
import sys
import termios
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from pulumi_infercrane.router.clients.admission import Ticket
from pulumi_infercrane.router.errors import RequestRefused
from pulumi_infercrane.router.protocol.observer import Outcome
from pulumi_infercrane.router.protocol.request import Phase, Request, RequestReader
from pulumi_infercrane.router.protocol.response import error_body, own_answer
from pulumi_infercrane.router.relay.exchange import Exchange
from pulumi_infercrane.router.relay.mirror import Copy
from pulumi_infercrane.router.routing.dispatch import Bound, crowded, stopping
from pulumi_infercrane.router.routing.upstream import HIGH_WATER, LOW_WATER
from pulumi_infercrane.router.tables.table import Timers

if TYPE_CHECKING:
    from pulumi_infercrane.router.relay.relay import Relay

MAX_HELD = 64 * 1024
"""Bytes of further requests taken while one is being answered."""

MAX_WAITING = 1024
"""Requests that may come at once on a connection and wait for their turn."""

RETRY_SOON = b"Retry-After: 1\r\n"
_IDLE = Phase.IDLE
_NOT_LOOKED = sys.maxsize
_KINDS = {403: "permission_error", 429: "rate_limit_error", 502: "upstream_error", 504: "upstream_error"}


class ClientConnection(asyncio.Protocol):
    """Reading from the client is never paused: paused, its departure would not be seen."""

    __slots__ = (
        "_copy",
        "_deaf",
        "_exchange",
        "_held",
        "_left",
        "_peer",
        "_phase",
        "_phase_since",
        "_reader",
        "_relay",
        "_served",
        "_stall_s",
        "_uploading",
        "_waiting",
        "closing",
        "stalled_since",
        "transport",
        "write",
    )

    transport: asyncio.Transport
    write: Callable[[bytes], None]

    def __init__(self, relay: "Relay") -> None:
        self._relay = relay
        self._waiting: list[Request | RequestRefused] = []
        self._reader = RequestReader(relay.limits, relay.refuse_head, self._waiting.append, self._on_continue)
        self._exchange: Exchange | Ticket | None = None
        self._copy: Copy | None = None
        """Of the request being answered; ends with it when the client leaves."""
        self._held = bytearray()
        """What came while others were answered. Unread until its turn: its bytes are all it costs, and are counted."""
        self._deaf = False
        """Nothing more is read from this client; the connection is about to end."""
        self._served = False
        self._uploading = 0
        """What it holds of the bytes that bodies on their way may take."""
        self._phase = Phase.IDLE
        self._phase_since = relay.clock()
        self._left = _NOT_LOOKED
        """Bytes the client had not taken when it was last given more time."""
        self._stall_s = Timers.client_stall_s
        self._peer = b"unknown"
        self.closing = False
        self.stalled_since: float | None = None

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport = cast("asyncio.Transport", transport)
        self.write = transport.write
        transport.set_write_buffer_limits(high=HIGH_WATER, low=LOW_WATER)
        self._peer = _name(transport.get_extra_info("peername"))
        relay = self._relay
        excess = len(relay.clients) + 1 - relay.max_connections
        room = excess <= 0 or relay.idle.close_oldest()
        relay.clients.add(self)
        if not room:
            self._turn_away(excess)

    def data_received(self, data: bytes) -> None:
        if self._deaf:
            return
        if self._exchange is not None or self._waiting or self._held:
            self._hold(data)
            return
        try:
            self._reader.feed(data)
            if self._uploading or self._reader.phase is Phase.BODY:
                self._uploading = self._relay.uploads.hold(self._uploading, self._reader.unfinished)
        except RequestRefused as refused:
            self._deaf = True
            self._waiting.append(refused)
        if self._waiting:
            self._advance()

    def eof_received(self) -> None:
        """A client that stops sending counts as gone, so that its generation stops."""
        self._hang_up()

    def connection_lost(self, exc: Exception | None) -> None:
        self._deaf = True
        self._waiting.clear()
        self._held.clear()
        self._relay.clients.discard(self)
        self._uploading = self._relay.uploads.hold(self._uploading, 0)
        self._reader.close()
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.client_lost()
        if self._copy is not None:
            self._copy.cancel()

    def pause_writing(self) -> None:
        self.stalled_since = self._relay.clock()
        if self._exchange is not None:
            self._exchange.pause()

    def resume_writing(self) -> None:
        self.stalled_since = None
        if self._exchange is not None:
            self._exchange.resume()
        else:
            self._advance()

    # called by the exchange

    def answer_done(self, *, close: bool) -> None:
        self._exchange = self._copy = None
        self._phase, self._phase_since = self._reader.phase, self._relay.clock()
        self._left = _NOT_LOOKED
        if close:
            self._close()
        elif self._waiting or self._held:
            asyncio.get_running_loop().call_soon(self._advance)  # others have their turn too, and nothing recurs
        elif self._phase is not _IDLE and self._reader.awaits_continue:
            self._continue()

    def answer_error(self, status: int, code: str, message: str, headers: bytes) -> None:
        if status == 503:
            headers += RETRY_SOON
        self.write(_error_answer(status, code, message, headers, self.closing))
        self.answer_done(close=self.closing)

    def break_off(self, *, reset: bool) -> None:
        """What was received is still delivered; without framing only a reset tells a cut from an end."""
        self._exchange = None
        if reset and _is_tls(self.transport):
            self._hang_up()  # an end without notice: what a cut looks like in TLS
            return
        if reset:
            sock = self.transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._close()

    # called by the relay

    def check(self, now: float) -> None:
        """Close the connection, or end its exchange, when a timer has run out."""
        if self._exchange is not None:
            self._exchange.check(now)
            return
        if self._phase is not self._reader.phase and not self._deaf:
            self._phase, self._phase_since = self._reader.phase, now
        seconds = now - self._phase_since
        if seconds > self._allowance():
            self._time_is_up(now, seconds)

    def finish_up(self) -> None:
        """The router is stopping: close when nothing is being answered, else after that answer."""
        self.closing = True
        if isinstance(self._exchange, Ticket):
            self._exchange.refuse(stopping())
        self.leave_if_idle(self._phase_since)

    def leave_if_idle(self, since: float) -> None:
        """Close when nothing was asked for after that moment."""
        if self._phase_since <= since and not self._is_busy():
            self._close()

    @property
    def idle_since(self) -> float | None:
        """None while anything is asked or answered."""
        return None if self._deaf or self._is_busy() else self._phase_since

    def give_way(self) -> bool:
        """Leave, unless the client is still taking its last answer: somebody else needs the room."""
        if _unsent(self.transport):
            return False
        self._hang_up()
        return True

    def cut(self) -> None:
        """The router stops now."""
        if self._exchange is not None:
            self._exchange.cut()
        self._hang_up()

    # inside

    def _is_busy(self) -> bool:
        return self._exchange is not None or bool(self._waiting or self._held) or self._reader.phase is not _IDLE

    def _on_continue(self) -> None:
        if self._exchange is None and not self._waiting:
            self._continue()

    def _continue(self) -> None:
        self.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _hold(self, data: bytes) -> None:
        self._held += data
        if len(self._held) > MAX_HELD:
            self._hang_up()

    def _advance(self) -> None:
        """Serve what is next, or read on; errors take their place in the order too."""
        if self._exchange is not None or self.stalled_since is not None or self.transport.is_closing():
            return
        if len(self._waiting) > MAX_WAITING:
            self._hang_up()
        elif self._waiting:
            self._take(self._waiting.pop(0))
        elif self._held:
            data = bytes(self._held)
            self._held.clear()
            self.data_received(data)

    def _take(self, item: Request | RequestRefused) -> None:
        if isinstance(item, Request):
            self._serve(item)
            return
        request_id = self._relay.request_id(item.head)
        item.asked = self._relay.asked(request_id, item.head, self._peer)
        self._refuse(item, request_id, close=True)

    def _serve(self, request: Request) -> None:
        relay = self._relay
        self._served = True
        self.closing = relay.ending or not request.keep_alive or request.head.version == "1.0"
        request_id = relay.request_id(request.head)
        try:
            bound = relay.bind(request, request_id, self._peer)
        except RequestRefused as refused:
            refused.asked = refused.asked or relay.asked(request_id, request.head, self._peer)
            self._refuse(refused, request_id, close=self.closing, head_only=request.head.method == b"HEAD")
            return
        if isinstance(bound, Bound):
            self._begin(bound)
        elif isinstance(bound, Ticket):
            self._exchange = bound
            bound.wait(self._begin, self._turned_away)
        else:
            self.write(bound)
            asked = relay.asked(request_id, request.head, self._peer)
            if asked is not None:
                asked.end(Outcome.COMPLETE, 200)
            self.answer_done(close=self.closing)

    def _begin(self, bound: Bound, waiting_since: float | None = None) -> None:
        """Dispatch; the time of a request that has waited counts from when it came."""
        self._exchange = exchange = Exchange(bound, self, self._relay.clock)
        if waiting_since is not None:
            exchange.waited_since(waiting_since)
        exchange.start()
        self._stall_s = bound.binding.timers.client_stall_s
        if bound.mirror is not None:
            self._copy = self._relay.mirrors.copy(bound, bound.mirror)

    def _turned_away(self, refused: RequestRefused, bound: Bound) -> None:
        """The request has waited in vain."""
        self._exchange = None
        refused.asked = bound.asked
        if self.transport.is_closing():
            self._relay.count_refused(refused)
            return
        self._refuse(refused, bound.request_id, close=self.closing)

    def _refuse(self, refused: RequestRefused, request_id: bytes, *, close: bool, head_only: bool = False) -> None:
        self._relay.count_refused(refused)
        headers = b"X-Request-Id: %b\r\n" % request_id
        if refused.retry_after_s is not None:
            headers += b"Retry-After: %d\r\n" % refused.retry_after_s
        elif refused.status == 503:
            headers += RETRY_SOON
        if refused.status == 401:
            headers += b"WWW-Authenticate: Bearer\r\n"
        if refused.allow:
            headers += b"Allow: %b\r\n" % refused.allow.encode()
        self.write(_error_answer(refused.status, refused.code, str(refused), headers, close, head_only))
        if close:
            self._linger()
        else:
            self.answer_done(close=False)

    def _close(self) -> None:
        """End the connection when everything written has gone out."""
        self._deaf = True
        self._phase_since = self._relay.clock()
        self.transport.close()

    def _linger(self) -> None:
        """Close without destroying the answer: bytes that still arrive would make the kernel reset the connection."""
        self._deaf = True
        self._waiting.clear()
        self._phase_since = self._relay.clock()
        if self.transport.can_write_eof():
            self.transport.write_eof()
        else:
            self.transport.close()  # TLS takes what still arrives until the other side has ended too

    def _turn_away(self, excess: int) -> None:
        """There are too many connections."""
        if excess <= self._relay.most_turned_away:
            self._refuse(crowded(), self._relay.request_id(None), close=True)
        else:
            self._relay.count_refused(crowded())
            self._hang_up()

    def _hang_up(self) -> None:
        self._deaf = True
        self.transport.abort()

    def _time_is_up(self, now: float, seconds: float) -> None:
        """Close the connection, unless the client is still taking an answer: then it has more time."""
        left = _unsent(self.transport)
        if left and self._left - left >= LOW_WATER:
            self._left, self._phase_since = left, now
        elif not left or seconds > self._stall_s:
            self._hang_up()

    def _allowance(self) -> float:
        """Seconds the connection may stay in its phase."""
        timers = self._relay.timers
        if self._deaf:
            return timers.linger_s
        if self._phase is Phase.IDLE:
            return timers.idle_s if self._served else timers.head_s
        return timers.head_s if self._phase is Phase.HEAD else timers.body_s


def _name(peer: object) -> bytes:
    """The address of a client as upstreams and logs are told it; a unix socket has none."""
    return str(peer[0]).removeprefix("::ffff:").encode() if isinstance(peer, tuple) else b"unknown"


def _unsent(transport: asyncio.Transport) -> int:
    """Bytes that the client's side has not taken: those of ours, and those the kernel holds."""
    size = transport.get_write_buffer_size()
    with suppress(OSError, ValueError):  # it was closed meanwhile
        descriptor = transport.get_extra_info("socket").fileno()
        size += int.from_bytes(fcntl.ioctl(descriptor, termios.TIOCOUTQ, bytes(4)), sys.byteorder)
    return size


def _is_tls(transport: asyncio.Transport) -> bool:
    return transport.get_extra_info("sslcontext") is not None


def _error_answer(status: int, code: str, message: str, headers: bytes, close: bool, head_only: bool = False) -> bytes:
    kind = _KINDS.get(status) or ("invalid_request_error" if status < 500 else "server_error")
    headers += b"X-InferCrane-Error: %b\r\n" % code.encode()
    if close:
        headers += b"Connection: close\r\n"
    return own_answer(status, error_body(code, message, kind), headers, head_only=head_only)
