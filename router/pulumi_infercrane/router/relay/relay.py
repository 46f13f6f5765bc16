"""The data plane of one process: what all its connections share."""

import asyncio
import itertools
import logging
import re
import secrets
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from time import time
from typing import TYPE_CHECKING
from urllib.parse import unquote

import orjson

from pulumi_infercrane.router.clients.admission import Admission, Ticket
from pulumi_infercrane.router.clients.credentials import authenticate, refuse_key_in_url
from pulumi_infercrane.router.clients.keys import Key, Keyring
from pulumi_infercrane.router.counting.counters import Counters
from pulumi_infercrane.router.counting.traffic import TrafficBook
from pulumi_infercrane.router.errors import RequestRefused
from pulumi_infercrane.router.protocol.alias import requested_model
from pulumi_infercrane.router.protocol.observer import Outcome
from pulumi_infercrane.router.protocol.paths import MODELS, PROTOCOL_OF
from pulumi_infercrane.router.protocol.request import Head, Limits, Request, has_body
from pulumi_infercrane.router.protocol.response import own_answer
from pulumi_infercrane.router.relay.client import ClientConnection
from pulumi_infercrane.router.relay.idle import Idle
from pulumi_infercrane.router.relay.mirror import Copy, Mirrors
from pulumi_infercrane.router.relay.probes import Prober
from pulumi_infercrane.router.relay.uploads import Uploads
from pulumi_infercrane.router.routing.dispatch import Bound, choose, no_model, refuse_path, stopping
from pulumi_infercrane.router.routing.routes import Compiler, Routes

if TYPE_CHECKING:
    from pulumi_infercrane.router.clients.trusted_proxies import TrustedProxies
    from pulumi_infercrane.router.recording.recorder import Recorder
    from pulumi_infercrane.router.telemetry.requests import Asked
    from pulumi_infercrane.router.telemetry.telemetry import Telemetry

_log = logging.getLogger(__name__)

MAX_TURNED_AWAY = 1024
SWEPT_TOGETHER = 64
"""Connections whose timers run before others have their turn: those of a thousand take 4 ms."""
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_UNROUTABLE = frozenset({"no_route", "no_upstream"})
_SHED = frozenset({"draining", "overloaded"})


def outcome_of(refused: RequestRefused) -> Outcome:
    """The class a refused request is counted in."""
    if refused.code in _UNROUTABLE:
        return Outcome.UNROUTABLE
    if refused.code in _SHED:
        return Outcome.SHED
    return {401: Outcome.AUTH, 403: Outcome.AUTH, 429: Outcome.LIMITED}.get(refused.status, Outcome.CLIENT_ERROR)


@dataclass(frozen=True)
class ConnectionTimers:
    """Seconds. Those of an exchange are in the route table."""

    head_s: float = 10
    body_s: float = 60
    idle_s: float = 75
    linger_s: float = 5
    """For a client to take the last bytes of a connection that is ending."""
    pool_idle_s: float = 3
    """vLLM and uvicorn close idle connections after 5."""
    sweep_s: float = 1


def _may_be_large(head: Head) -> bool:
    """Whether a body has more than four digits of bytes: worth asking for the key before it is read."""
    size = head.headers.first.get(b"content-length")
    return size is None or len(size) > 4


class Relay:
    """`routes` is replaced as a whole; whatever is dispatched afterwards goes by the new one."""

    def __init__(
        self,
        compiler: Compiler,
        traffic: TrafficBook,
        limits: Limits | None = None,
        timers: ConnectionTimers | None = None,
    ) -> None:
        self.routes: Routes = compiler.compile({})
        self.compiler = compiler
        self.traffic = traffic
        self.clock: Callable[[], float] = traffic.clock
        self.limits = limits or Limits()
        self.timers = timers or ConnectionTimers()
        self.clients: set[ClientConnection] = set()
        self.idle = Idle(self.clients, self.clock, self.timers.sweep_s)
        self.uploads = Uploads(self.limits.body)
        self.mirrors = Mirrors(traffic)
        self.prober = Prober(traffic.clock)
        self.counters = Counters(traffic)
        self.scheme = b"http"
        """By which clients come."""
        self.proxies: TrustedProxies | None = None
        """Who may say on whose behalf it asks; None is nobody."""
        self.max_connections = sys.maxsize
        """Of clients; who comes when there are so many takes the place of an idle one, or is told to come again."""
        self.ending = False
        """Every connection ends after the answer it is at, or the next."""
        self.stopping = False
        """Nothing new is answered either."""
        self.recorder: Recorder | None = None
        self.telemetry: Telemetry | None = None
        self.keyring: Keyring | None = None
        """Replaced as a whole; None lets everybody in."""
        self.wall_clock: Callable[[], float] = time
        """Keys expire by it."""
        self.admission = Admission(traffic, self._bind_again)
        self._id_prefix = secrets.token_hex(6).encode()
        self._id_count = itertools.count(1)

    @property
    def most_turned_away(self) -> int:
        """Connections beyond the most there may be that are given an answer; the rest is closed without one."""
        return min(MAX_TURNED_AWAY, self.max_connections)

    def connection(self) -> ClientConnection:
        """A protocol for a new client."""
        return ClientConnection(self)

    def bind(self, request: Request, request_id: bytes, peer: bytes) -> Bound | Ticket | bytes:
        """The revision a request is bound to, its place in a queue, or our own answer to it.

        Raises:
            RequestRefused: the request is answered with an error.
        """
        if self.stopping:
            raise stopping()
        refuse_path(request.head)
        key = self._identify(request.head)
        scheme = self.scheme
        if self.proxies is not None:
            scheme = self.proxies.scheme_of(peer, request.head.headers, scheme)
            peer = self.proxies.client_of(peer, request.head.headers)
        if request.head.path not in PROTOCOL_OF:
            return self._models(request, request_id, key)
        model = requested_model(request.body)
        binding, spill, mirror, instead_of = choose(model, request, request_id, self.routes)
        if self.recorder is not None:
            self.recorder.offer(request_id, request.head.path, request.body)
        bound = Bound(request, binding, model, request_id, peer, spill, mirror, instead_of, scheme=scheme)
        if self.telemetry is not None:
            name = key.name if key is not None else ""
            bound.asked = self.telemetry.asked(request_id, request.head, peer, model, name)
        if key is None and not self.admission.queues:
            return bound
        try:
            return self.admission.admit(bound, key)
        except RequestRefused as refused:
            refused.asked = bound.asked
            raise

    def _bind_again(self, bound: Bound) -> Bound:
        """By the routes and keys of this moment."""
        if self.stopping:
            raise stopping()
        self._identify(bound.request.head)
        binding, spill, mirror, instead_of = choose(bound.model, bound.request, bound.request_id, self.routes)
        return replace(bound, binding=binding, spill=spill, mirror=mirror, instead_of=instead_of)

    def _identify(self, head: Head) -> Key | None:
        """Whose request this is; None where no keys are needed."""
        if len(head.target) != len(head.path):
            refuse_key_in_url(head)
        return None if self.keyring is None else authenticate(head.headers, self.keyring, self.wall_clock())

    def refuse_head(self, head: Head) -> None:
        """Called before a body is read; what has no body can wait for its turn.

        Raises:
            RequestRefused: nobody here would read the body.
        """
        if not has_body(head):
            return
        try:
            refuse_path(head)
            if self.keyring is not None and _may_be_large(head):
                self._identify(head)
        except RequestRefused as refused:
            refused.head = head
            raise

    def request_id(self, head: Head | None) -> bytes:
        """The client's id when it is harmless, else one of ours."""
        given = head.headers.first.get(b"x-request-id") if head is not None else None
        if given is not None and _REQUEST_ID.fullmatch(given):
            return given
        return b"%b-%d" % (self._id_prefix, next(self._id_count))

    def asked(self, request_id: bytes, head: Head | None, peer: bytes) -> "Asked | None":
        """What is remembered of a request that no revision is bound to; None when nobody wants to know."""
        if self.telemetry is None:
            return None
        if self.proxies is not None and head is not None:
            peer = self.proxies.client_of(peer, head.headers)
        return self.telemetry.asked(request_id, head, peer)

    def count_refused(self, refused: RequestRefused) -> None:
        """Book a request that no revision was bound to."""
        outcome = outcome_of(refused)
        self.traffic.unbound[outcome] += 1
        self.traffic.refused[refused.service, refused.reason] += 1
        if refused.asked is not None:
            refused.asked.end(outcome, refused.status, refused.reason, refused.service)

    async def sweep_forever(self) -> None:
        """Run all timers: one pass per `sweep_s` instead of a timer per event."""
        while True:
            await asyncio.sleep(self.timers.sweep_s)
            timed: tuple[ClientConnection | Copy, ...] = (*self.clients, *self.mirrors.open)
            for begin in range(0, len(timed), SWEPT_TOGETHER):
                self._check(timed[begin : begin + SWEPT_TOGETHER])
                await asyncio.sleep(0)
            try:
                self._sweep_routes()
            except Exception:  # noqa: BLE001 - the timers of the connections have to go on
                _log.exception("sweep failed")

    def _check(self, timed: Sequence[ClientConnection | Copy]) -> None:
        now = self.clock()
        for one in timed:
            try:
                one.check(now)
            except Exception:  # noqa: BLE001 - a fault in one connection must not end the timers of all
                _log.exception("the timers of a connection failed")

    def _sweep_routes(self) -> None:
        for pool in self.compiler.pools:
            pool.expire()
        for binding in self.routes.watched:
            binding.replicas.refresh()
        self.prober.probe_due(self.routes.watched, self.clock())
        for traffic in self.traffic.all():
            traffic.cut_overdue(self.clock())
        self.traffic.drop_ended()

    def finish_up(self) -> None:
        """Answer nothing new, nor what waits for a permit; connections close after what they are answering."""
        self.ending = self.stopping = True
        self.mirrors.cancel()
        for client in tuple(self.clients):
            client.finish_up()

    def cut(self) -> None:
        """End every connection now."""
        for client in tuple(self.clients):
            client.cut()

    def _models(self, request: Request, request_id: bytes, key: Key | None) -> bytes:
        """The aliases a key may use, whatever the upstreams call their models and whether they answer or not."""
        aliases = self.routes.by_alias.items()
        names = sorted(name for name, route in aliases if key is None or key.serves(route.table.service))
        data = [{"id": name, "object": "model", "created": 0, "owned_by": "infercrane"} for name in names]
        wanted = unquote(request.head.path[len(MODELS) + 1 :].decode("latin-1"))
        if wanted and wanted not in names:
            raise no_model(wanted)
        close = self.ending or not request.keep_alive or request.head.version == "1.0"
        headers = b"X-Request-Id: %b\r\n%b" % (request_id, b"Connection: close\r\n" if close else b"")
        body = orjson.dumps(data[names.index(wanted)] if wanted else {"object": "list", "data": data})
        return own_answer(200, body, headers, head_only=request.head.method == b"HEAD")
