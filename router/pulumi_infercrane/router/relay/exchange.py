"""One request, from its dispatch to its end."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from pulumi_infercrane.router.protocol.answer_alias import AnswerAlias
from pulumi_infercrane.router.protocol.headers import REVISION
from pulumi_infercrane.router.protocol.observer import Observer, Outcome
from pulumi_infercrane.router.protocol.response import FRAMED, ResponseReader
from pulumi_infercrane.router.relay.consequences import REFUSALS, judge
from pulumi_infercrane.router.relay.reframing import Dechunked, Reframed, renamed
from pulumi_infercrane.router.routing.dispatch import Bound
from pulumi_infercrane.router.routing.routes import Binding, Endpoint
from pulumi_infercrane.router.routing.upstream import UpstreamConnection

if TYPE_CHECKING:
    from pulumi_infercrane.router.telemetry.requests import Asked

MAX_ATTEMPTS = 2
"""Connections tried; a request that was handed to one is never sent again."""

_log = logging.getLogger(__name__)


class Client(Protocol):
    """What an exchange needs of the connection it answers to."""

    @property
    def write(self) -> Callable[[bytes], None]:
        """Sends bytes as they are."""

    @property
    def stalled_since(self) -> float | None:
        """When the client's receive buffer became full; None while it keeps up."""

    @property
    def closing(self) -> bool:
        """Whether the connection will be closed after the current answer."""

    def answer_done(self, *, close: bool) -> None:
        """The answer is complete."""

    def answer_error(self, status: int, code: str, message: str, headers: bytes) -> None:
        """Nothing of an answer was sent yet: send this one."""

    def break_off(self, *, reset: bool) -> None:
        """Part of an answer was sent: end the connection so that the client sees the cut."""


class Exchange:
    """Bound to one revision for its whole life; ends exactly once, in `_finish`."""

    __slots__ = (
        "_alias",
        "_asked",
        "_attempt",
        "_binding",
        "_bound",
        "_chosen_by_client",
        "_client",
        "_clock",
        "_dechunk",
        "_dialing",
        "_endpoint",
        "_events_seen",
        "_finished",
        "_head_sent",
        "_moved",
        "_observer",
        "_permit",
        "_pieces",
        "_progress_at",
        "_reader",
        "_reframed",
        "_request_id",
        "_upstream",
        "started_at",
    )

    def __init__(self, bound: Bound, client: Client, clock: Callable[[], float]) -> None:
        self.started_at = clock()
        self._bound: Bound | None = bound
        """Let go when it is sent: its body may be large, and it is never sent again."""
        self._binding = bound.binding
        self._request_id = bound.request_id
        self._permit = bound.permit
        self._asked = bound.asked
        self._chosen_by_client = REVISION in bound.request.head.headers.first
        """A pinned request is no part of the share its revision has."""
        self._client = client
        self._clock = clock
        self._observer = Observer(clock)
        self._endpoint: Endpoint | None = None
        """The replica this request is counted at."""
        self._upstream: UpstreamConnection | None = None
        self._reader: ResponseReader | None = None
        self._dialing: asyncio.Task[None] | None = None
        self._attempt = 1
        self._head_sent = False
        self._finished = False
        self._dechunk = bound.request.head.version == "1.0"
        """HTTP/1.0 clients do not know chunks."""
        self._alias: AnswerAlias | None = None
        """What `model` is to be in the answer; None leaves it as it comes."""
        self._reframed: Reframed | None = None
        """What becomes of a body that does not go out as it comes."""
        self._pieces: list[bytes] = []
        """Body pieces that were passed on and not observed yet."""
        self._moved = False
        """Whether anything of a body came since the last sweep."""
        self._events_seen = 0
        self._progress_at = self.started_at

    def waited_since(self, since: float) -> None:
        """The request has waited in a queue: its time counts from when it came."""
        if self._asked is not None:
            self._asked.queued_s = self.started_at - since
        self.started_at = since

    def start(self) -> None:
        """Send the request on a pooled connection, or dial."""
        binding, bound = self._binding, self._bound
        if bound is None:
            return
        binding.traffic.open.add(self)
        if bound.instead_of is not None:
            bound.instead_of.spilled[binding.traffic.revision] += 1
        endpoint = binding.replicas.pick(bound.request_id, bound.request.body)
        self._endpoint = endpoint
        endpoint.replica.inflight += 1
        connection = endpoint.pool.take()
        if connection is not None:
            self._begin(connection, endpoint)
        else:
            self._dialing = asyncio.get_running_loop().create_task(self._dial(endpoint))

    # called by the upstream connection

    def pass_on(self, reader: ResponseReader, rest: bytes) -> None:
        """The head is complete, or body bytes came that cannot go out as they are: send them.

        Raises:
            AnswerInvalid: nothing of `rest` was sent.
        """
        head = b"" if self._head_sent else self._head(reader)
        reader.feed(rest)
        if self._reframed is not None:
            rest = self._reframed.pass_on(self._pieces, whole=reader.complete)
        self._head_sent = True
        self._client.write(head + rest)
        self.observe()
        if reader.complete:
            self.answer_complete()
        elif self._upstream is not None and self._reframed is None and not self._observer.eager:
            self._upstream.relay_to(self._client.write, self._pieces)

    def observe(self) -> None:
        """Read what was passed on since the last time."""
        if self._pieces:
            self._moved = True
            if self._reader is not None:
                self._reader.beside_body = 0
            self._observer.feed(self._pieces)
            self._observer.note_gaps(self._binding.traffic.gaps)
            self._pieces.clear()

    def pass_on_interim(self, reader: ResponseReader) -> None:
        """103 heads go to clients that may know them."""
        if not self._dechunk:
            self._client.write(b"".join(reader.interim))
        reader.interim.clear()

    def answer_complete(self) -> None:
        """The framing of the answer came to its end."""
        close = self._client.closing or (self._reader is not None and self._reader.ends_at_eof)
        self._finish(self._outcome(whole=True), reuse=True)
        self._client.answer_done(close=close)

    def upstream_lost(self, *, clean: bool) -> None:
        """The connection ended before the answer did, unless its end is the end of the answer."""
        self._upstream = None
        if self._head_sent and clean and self._reader is not None and self._reader.ends_at_eof:
            if self._reframed is not None:
                self._client.write(self._reframed.pass_on([], whole=True))
            self.answer_complete()
        elif self._head_sent:
            self._break(self._outcome(whole=False))
        else:
            self._refuse(Outcome.UPSTREAM_CLOSED, "the upstream closed the connection before it answered")

    def upstream_misbehaved(self) -> None:
        """The answer is not HTTP, or more than one answer."""
        if self._head_sent:
            self._break(Outcome.UPSTREAM_PROTOCOL)
        else:
            self._refuse(Outcome.UPSTREAM_PROTOCOL, "the upstream's answer is not valid HTTP")

    # called by the client connection

    def client_lost(self) -> None:
        """Nobody waits for the answer any more. What was settled before stays so."""
        self.observe()
        self._finish(self._observer.verdict() or Outcome.CLIENT_CANCELLED)

    def pause(self) -> None:
        """The client does not keep up."""
        if self._upstream is not None:
            self._upstream.pause()

    def resume(self) -> None:
        """The client reads again."""
        if self._upstream is not None:
            self._progress_at = self._clock()
            self._upstream.resume()

    # called by the sweep and by draining

    def check(self, now: float) -> None:
        """End the exchange when one of its timers has run out."""
        total_s = self._binding.timers.total_s
        if total_s is not None and now - self.started_at > total_s:
            self._give_up(Outcome.TOTAL_TIMEOUT, "the answer did not end in time")
            return
        stalled = self._client.stalled_since
        if stalled is not None:
            if now - stalled > self._binding.timers.client_stall_s:
                self._break(Outcome.CLIENT_CANCELLED)
            return
        self.observe()
        moved, self._moved = self._moved, False
        if self._observer.data_events != self._events_seen or (moved and not self._observer.streaming):
            self._events_seen, self._progress_at = self._observer.data_events, now
        self._check_silence(now - self._progress_at)

    def cut(self) -> None:
        """The drain deadline has passed."""
        self._give_up(Outcome.SHED, "the revision was drained before it answered")

    # inside

    def _check_silence(self, seconds: float) -> None:
        """A whole answer has the first-byte timer for every byte, a stream also the one between data events."""
        timers = self._binding.timers
        if not self._head_sent:
            if self._upstream is not None and seconds > timers.first_byte_s:
                self._refuse(Outcome.FIRST_BYTE_TIMEOUT, "the upstream did not begin to answer in time")
        elif self._observer.streaming and self._events_seen == 0:
            if seconds > timers.first_byte_s:
                self._break(Outcome.FIRST_BYTE_TIMEOUT)
        elif seconds > (timers.gap_s if self._observer.streaming else timers.first_byte_s):
            self._break(Outcome.IDLE_TIMEOUT)

    async def _dial(self, chosen: Endpoint) -> None:
        connection, bound = await self._connect(chosen), self._bound
        if connection is None and bound is not None and bound.spill is not None and bound.spill.replicas.ready:
            self._spill(bound, bound.spill)
            self._attempt += 1
            connection = await self._connect(bound.spill.replicas.pick(bound.request_id, bound.request.body))
        self._dialing = None
        if connection is None or self._endpoint is None:
            self._refuse(Outcome.CONNECT_FAILED, "no upstream of the revision takes connections")
        else:
            self._begin(connection, self._endpoint)

    async def _connect(self, chosen: Endpoint) -> UpstreamConnection | None:
        """A connection to a replica of the revision, at the second attempt to another one."""
        binding = self._binding
        endpoints = [chosen, *binding.replicas.others(chosen)][:MAX_ATTEMPTS]
        for attempt, endpoint in enumerate(endpoints, start=self._attempt):
            self._attempt = attempt
            self._count_at(endpoint)
            if endpoint is not chosen:
                binding.traffic.retried += 1
            try:
                connection = endpoint.pool.take() or await endpoint.pool.dial(binding.timers.connect_s)
            except OSError as error:
                if binding.replicas.dialled(endpoint, well=False):
                    _log.warning("upstream %s of revision %s: %s", endpoint.id, binding.label, str(error) or "timeout")
            else:
                if binding.replicas.dialled(endpoint, well=True):
                    _log.warning("upstream %s of revision %s takes connections again", endpoint.id, binding.label)
                return connection
        return None

    def _spill(self, bound: Bound, other: Binding) -> None:
        """Nothing was sent: another revision answers, and the failure stays booked on this one."""
        self._book(Outcome.CONNECT_FAILED)
        self._binding.traffic.spilled[other.traffic.revision] += 1
        other.traffic.open.add(self)
        self._binding, self._bound = other, replace(bound, binding=other, spill=None)

    def _count_at(self, endpoint: Endpoint) -> None:
        """Count the request at this replica, and no longer at the one before."""
        if self._endpoint is not None:
            self._endpoint.replica.inflight -= 1
        self._endpoint = endpoint
        endpoint.replica.inflight += 1

    def _begin(self, connection: UpstreamConnection, endpoint: Endpoint) -> None:
        bound, self._bound = self._bound, None
        if bound is None:
            connection.abort()
            return
        if self._binding.answer_as_alias:
            self._alias = bound.answer_alias()
        self._upstream = connection
        self._progress_at = self._clock()
        self._reader = connection.begin(self, bound.message(endpoint, self._attempt), self._pieces)
        if self._client.stalled_since is not None:
            connection.pause()

    def _head(self, reader: ResponseReader) -> bytes:
        values = reader.headers.first
        self._observer.begin(values.get(b"content-type", b""), values.get(b"content-encoding", b""))
        added = self._answer_headers()
        if self._observer.streaming:
            added += b"X-Accel-Buffering: no\r\n"
            if b"cache-control" not in values:
                added += b"Cache-Control: no-cache\r\n"
        if self._client.closing or reader.ends_at_eof:
            added += b"Connection: close\r\n"
        reframed = self._reframed = self._reframing(reader)
        if reframed is None:
            return reader.head(added, FRAMED)
        return reader.head(added + reframed.framing, reframed.dropped)

    def _reframing(self, reader: ResponseReader) -> Reframed | None:
        if self._alias is not None:
            traffic, chunked = self._binding.traffic, not self._dechunk
            changed = renamed(self._alias, reader, self._observer, traffic, chunked=chunked)
            if changed is not None:
                return changed
        return Dechunked() if self._dechunk and reader.chunked else None

    def _answer_headers(self) -> bytes:
        return self._binding.answer_headers(self._request_id, self._attempt)

    def _outcome(self, *, whole: bool) -> Outcome:
        status = self._reader.status if self._reader is not None else 0
        if whole and status >= 300:
            return Outcome.HTTP_ERROR
        if whole and status == 204:
            return Outcome.COMPLETE
        self.observe()
        return self._observer.end(whole=whole)

    def _refuse(self, outcome: Outcome, message: str) -> None:
        if self._finish(outcome):
            status, code = REFUSALS[outcome]
            self._client.answer_error(status, code, message, self._answer_headers())

    def _give_up(self, outcome: Outcome, message: str) -> None:
        if self._head_sent:
            self._break(outcome)
        else:
            self._refuse(outcome, message)

    def _break(self, outcome: Outcome) -> None:
        unframed = self._dechunk or (self._reader is not None and self._reader.ends_at_eof)
        if self._finish(outcome):
            self._client.break_off(reset=unframed)

    def _finish(self, outcome: Outcome, *, reuse: bool = False) -> bool:
        """The one place where an exchange lets go of everything it holds. False when it had ended before."""
        if self._finished:
            return False
        self._finished = True
        self._book(outcome)
        endpoint, self._endpoint = self._endpoint, None
        if self._asked is not None:
            self._tell(self._asked, outcome, endpoint)
        if endpoint is not None:
            endpoint.replica.inflight -= 1
            status = self._reader.status if self._reader is not None else 0
            judge(self._binding.replicas, endpoint, outcome, status)
        dialing, self._dialing = self._dialing, None
        if dialing is not None:
            dialing.cancel()
        upstream, self._upstream = self._upstream, None
        if upstream is not None and reuse:
            upstream.release()
        elif upstream is not None:
            upstream.abort()
        if self._permit is not None:
            self._permit.release(outcome, self._observer, sent=self._bound is None)
        return True

    def _tell(self, asked: "Asked", outcome: Outcome, endpoint: Endpoint | None) -> None:
        status, reason = REFUSALS.get(outcome, (None, ""))
        if self._head_sent and self._reader is not None:
            status, reason = self._reader.status, ""
        traffic = self._binding.traffic
        upstream = endpoint.id if endpoint is not None else ""
        asked.answered(
            outcome, status, reason, self._observer, (traffic.service, traffic.revision, upstream), self._attempt
        )

    def _book(self, outcome: Outcome) -> None:
        traffic, now = self._binding.traffic, self._clock()
        traffic.open.discard(self)
        status = self._reader.status if self._reader is not None else 0
        traffic.record(outcome, self._observer, self.started_at, now)
        if outcome is Outcome.HTTP_ERROR:
            traffic.http_errors[status] += 1
        if traffic.tally is not None and not self._chosen_by_client:
            traffic.tally.add(outcome, status, self._observer, self.started_at, now)
