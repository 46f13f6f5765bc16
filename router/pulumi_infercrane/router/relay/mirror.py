"""Copies of requests for a candidate, whose answers are thrown away.

A copy is sent after its original, over connections of its own; when there are too many, or they are too large, none is
made and that is counted. Nothing of it ever waits for the client, or makes the client wait.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from pulumi_infercrane.router.counting.traffic import Traffic, TrafficBook
from pulumi_infercrane.router.relay.exchange import Exchange
from pulumi_infercrane.router.routing.dispatch import Bound
from pulumi_infercrane.router.routing.routes import MirrorRoute

BUSY, LARGE, LARGE_ANSWER, STORED = "busy", "large", "large_answer", "stored"
"""Why a copy was not made, or not read to its end. What asks the server to keep something is never sent twice."""


class Copy:
    """The client of a copied request, as far as the exchange is concerned."""

    closing = False
    stalled_since = None

    def __init__(self, bound: Bound, route: MirrorRoute, mirrors: "Mirrors") -> None:
        self.traffic = route.binding.traffic
        self._left = route.max_bytes
        self._mirrors = mirrors
        self._exchange: Exchange | None = None
        self._bound: Bound | None = replace(
            bound, binding=route.binding, spill=None, mirror=None, instead_of=None, permit=None, asked=None
        )
        """Until it is sent: its body may be large, and its answer may take long."""

    def start(self, clock: Callable[[], float]) -> None:
        """Send it, unless the client left in between."""
        bound, self._bound = self._bound, None
        if bound is not None and self in self._mirrors.open:
            self._exchange = Exchange(bound, self, clock)
            self._exchange.start()

    def write(self, data: bytes) -> None:
        """Throw it away; end when it is too much, but not before the caller is done with it."""
        before, self._left = self._left, self._left - len(data)
        if self._left < 0 <= before:
            self._mirrors.count(self.traffic, LARGE_ANSWER)
            asyncio.get_running_loop().call_soon(self.cancel)

    def check(self, now: float) -> None:
        """Run its timers."""
        if self._exchange is not None:
            self._exchange.check(now)

    def cancel(self) -> None:
        """Nobody needs it any more."""
        if self._exchange is not None:
            self._exchange.client_lost()
        self._mirrors.ended(self)

    def answer_done(self, *, close: bool) -> None:
        self._mirrors.ended(self)

    def answer_error(self, status: int, code: str, message: str, headers: bytes) -> None:
        self._mirrors.ended(self)

    def break_off(self, *, reset: bool) -> None:
        self._mirrors.ended(self)


class Mirrors:
    """All copies under way."""

    def __init__(self, traffic: TrafficBook) -> None:
        self.open: set[Copy] = set()
        self._inflight: Counter[Traffic] = Counter()
        self._book = traffic

    def copy(self, bound: Bound, route: MirrorRoute) -> Copy | None:
        """Send a copy when what runs now has run, or count why there is none."""
        traffic, body = route.binding.traffic, bound.request.body
        reason = LARGE if len(body) > route.max_bytes else STORED if b'"store"' in body else ""
        reason = BUSY if self._inflight[traffic] >= route.max_inflight else reason
        if reason:
            self.count(traffic, reason)
            return None
        copy = Copy(bound, route, self)
        self.open.add(copy)
        self._inflight[traffic] += 1
        asyncio.get_running_loop().call_soon(copy.start, self._book.clock)
        return copy

    def count(self, traffic: Traffic, reason: str) -> None:
        """Book a copy that was not made, or not read to its end."""
        self._book.dropped_copies[traffic.service, traffic.revision, reason] += 1

    def ended(self, copy: Copy) -> None:
        """It holds nothing any more. Called as often as one likes."""
        if copy in self.open:
            self.open.discard(copy)
            self._inflight[copy.traffic] -= 1
            if not self._inflight[copy.traffic]:
                del self._inflight[copy.traffic]

    def cancel(self) -> None:
        """End all copies."""
        for copy in tuple(self.open):
            copy.cancel()
