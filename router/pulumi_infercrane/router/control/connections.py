"""Connections of the control protocol: HTTP/1.1, small and strict, on a unix socket or the status port.

The data plane is in the same process: one that asks much, reads nothing or stays silent must cost next to nothing.
"""

import asyncio
import logging
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol, cast

import orjson

from pulumi_infercrane.router.control.server import Answer, error_answer
from pulumi_infercrane.router.errors import RequestRefused, RouterError
from pulumi_infercrane.router.protocol.request import Limits, Phase, Request, RequestReader
from pulumi_infercrane.router.protocol.response import own_answer

MOST_CONNECTIONS = 32
"""Of one listener: each may hold a text of some megabytes that its client does not take."""
MOST_WAITING = 16
"""Requests of one connection behind the one that is answered."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Timers:
    """Seconds."""

    head_s: float = 10
    """For a request, from its first byte to its last, and until the first one."""
    idle_s: float = 75
    stall_s: float = 10
    """As long may nothing of an answer be taken."""
    answer_s: float = 30
    """For a client to take an answer: bytes that trickle must not keep a place from others."""
    linger_s: float = 5
    """For a client to take the last bytes of a connection that is ending."""


class Answering(Protocol):
    """What answers the calls of a connection."""

    limits: Limits

    async def answer(self, request: Request) -> Answer:
        """Whatever was asked."""


class Connections:
    """Those of one listener. Where there are too many, the one goes that has asked for nothing for the longest."""

    def __init__(self, api: Answering, timers: Timers | None = None, most: int = MOST_CONNECTIONS) -> None:
        self.api = api
        self.timers = timers or Timers()
        self.open: dict[ControlConnection, None] = {}
        """In order of their last request."""
        self._most = most

    def new(self) -> "ControlConnection":
        """A protocol for a new client."""
        return ControlConnection(self)

    def opened(self, connection: "ControlConnection") -> None:
        """It may cost another one its place, or find none."""
        self.open[connection] = None
        if len(self.open) > self._most:
            next(one for one in self.open if not one.busy).hang_up()  # the new one is not busy

    def asked(self, connection: "ControlConnection") -> None:
        """It is the last one to go."""
        if connection in self.open:
            del self.open[connection]
            self.open[connection] = None


class ControlConnection(asyncio.Protocol):
    """One client. Its calls run one after the other, and nothing is read while one does or its answer waits."""

    transport: asyncio.Transport

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._reader = RequestReader(connections.api.limits, lambda _head: None, self._on_request, lambda: None)
        self._waiting: deque[Request | RequestRefused] = deque()
        self._running: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._deaf = False

    @property
    def busy(self) -> bool:
        """Whether a call runs, or its answer is on its way."""
        return self._running is not None

    def hang_up(self) -> None:
        """End it now."""
        self._connections.open.pop(self, None)
        self.transport.abort()

    def finish_up(self) -> None:
        """Close unless a call runs."""
        if self._running is None:
            self.transport.close()
        elif not self._writable.is_set():
            self.hang_up()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._allow(self._connections.timers.head_s)
        self._connections.opened(self)

    def data_received(self, data: bytes) -> None:
        if self._deaf:
            return
        begins = self._reader.phase is Phase.IDLE
        try:
            self._reader.feed(data)
        except RequestRefused as refused:
            self._deaf = True  # what still arrives must not make the kernel drop the answer
            self._waiting.append(refused)
        if self._waiting:
            self._run()
        elif begins:
            self._allow(self._connections.timers.head_s)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """A call that runs is finished: the client will ask what became of it."""
        self._connections.open.pop(self, None)
        self._allow(None)
        self._waiting.clear()
        self._writable.set()
        self._reader.close()

    # inside

    def _on_request(self, request: Request) -> None:
        if len(self._waiting) >= MOST_WAITING:
            raise RequestRefused(429, "too_many_calls", "wait for an answer before you ask for more", close=True)
        self._waiting.append(request)

    def _run(self) -> None:
        if self._running is None:
            self._allow(None)
            self._connections.asked(self)
            self.transport.pause_reading()
            self._running = asyncio.get_running_loop().create_task(self._answer_all())

    async def _answer_all(self) -> None:
        while self._waiting:
            asked = self._waiting.popleft()
            if isinstance(asked, RequestRefused):
                await self._send(error_answer(asked))
                self._linger()
                break
            await self._send(await self._answer(asked), head_only=asked.head.method == b"HEAD")
            if not asked.keep_alive:
                self._close()
                break
            await asyncio.sleep(0)  # many requests at once are not answered at once
        else:
            self._listen_again()
        self._running = None

    async def _answer(self, request: Request) -> Answer:
        try:
            return await self._connections.api.answer(request)
        except Exception:  # noqa: BLE001 - logged; the caller gets an answer
            _log.exception("control call failed")
            return error_answer(RouterError("internal error; see the router's log"))

    async def _send(self, answer: Answer, *, head_only: bool = False) -> None:
        if self.transport.is_closing():
            return
        text = isinstance(answer.document, str)
        body = answer.document.encode() if isinstance(answer.document, str) else orjson.dumps(answer.document)
        kind = b"text/plain; version=0.0.4" if text else b"application/json"
        self.transport.write(own_answer(answer.status, body, _headers(answer), media=kind, head_only=True))
        if not head_only:
            self.transport.write(body)  # apart: a copy of some megabytes takes milliseconds
        await self._taken()

    async def _taken(self) -> None:
        """Returns when the client has taken what was written, or is hung up on because it does not."""
        clock, timers = asyncio.get_running_loop().time, self._connections.timers
        until = clock() + timers.answer_s
        while not self._writable.is_set():
            left = self.transport.get_write_buffer_size()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._writable.wait(), timers.stall_s)
            stands = self.transport.get_write_buffer_size() >= left
            if not self._writable.is_set() and (stands or clock() > until):
                self.hang_up()
                return

    def _listen_again(self) -> None:
        if not self.transport.is_closing():
            timers = self._connections.timers
            self.transport.resume_reading()
            self._allow(timers.idle_s if self._reader.phase is Phase.IDLE else timers.head_s)

    def _linger(self) -> None:
        """Close without destroying the answer; see `ClientConnection`."""
        if not self.transport.is_closing():
            self.transport.write_eof()
            self.transport.resume_reading()
            self._allow(self._connections.timers.linger_s)

    def _close(self) -> None:
        self._deaf = True
        self._waiting.clear()
        if not self.transport.is_closing():
            self._allow(self._connections.timers.stall_s)
            self.transport.close()

    def _allow(self, seconds: float | None) -> None:
        """So long may pass until something else is allowed; None is as long as it takes."""
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self._timer = None if seconds is None else loop.call_later(seconds, self.hang_up)


def _headers(answer: Answer) -> bytes:
    headers = b"" if answer.generation is None else b'ETag: "%d"\r\n' % answer.generation
    return headers + (b"Allow: %b\r\n" % answer.allow.encode() if answer.allow else b"")
