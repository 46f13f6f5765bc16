"""Traffic windows: what the revisions behind one route did between two moments, side by side.

A window begins where the one before it ended, so together they leave no time out. It ends when it is closed, when the
route changes, and when it is full; nothing in it is from another route. Closed windows are kept in memory until they
are taken away, the oldest is forgotten first.

Nothing is counted before the first canary step of a route, or before somebody asks for a window.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from pulumi_infercrane.router.clock import utc_now
from pulumi_infercrane.router.errors import WindowUnknown
from pulumi_infercrane.router.table import RouteTable
from pulumi_infercrane.router.tally import Tally
from pulumi_infercrane.router.traffic import TrafficBook
from pulumi_infercrane.router.transitions import carried

SCHEMA = "infercrane.window/v1"
TOOL_VERSION = "0.1"
MAX_REQUESTS = 10_000
"""Complete requests of one window: writing its document keeps the data plane waiting for a few milliseconds."""
MAX_KEPT_REQUESTS = 1_000_000
"""Of all closed windows of a router."""
MAX_KEPT = 256
"""Closed windows of a router."""

_DECISION = "sha256:"
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Open:
    """A window that is counted into. `since`: by the monotonic clock, when the route became what it is."""

    table: RouteTable
    started: datetime
    since: float
    tallies: Mapping[str, Tally]

    @property
    def requests(self) -> int:
        return sum(tally.completed for tally in self.tallies.values())


class Closed(NamedTuple):
    """A window nothing is added to any more."""

    opened: _Open
    ended: datetime

    @property
    def name(self) -> str:
        """Unlike that of any other window of this service."""
        return f"{_compact(self.opened.started)}-{_compact(self.ended)}"

    def document(self) -> dict[str, Any]:
        """`infercrane.window/v1`, with NaN for `null`. Revisions that had neither weight nor requests are left out."""
        table, weights = self.opened.table, carried(self.opened.table)
        decision_id = table.weights_decision_id if table.weights else table.decision_id
        return {
            "schema": SCHEMA,
            "tool_version": TOOL_VERSION,
            "service": table.service,
            **({"decision_id": decision_id} if decision_id.startswith(_DECISION) else {}),
            "generation": {"opened": table.generation, "closed": table.generation},
            "started_at": _text(self.opened.started),
            "ended_at": _text(self.ended),
            "bindings": [
                tally.binding(digest, weights.get(digest, 0))
                for digest, tally in self.opened.tallies.items()
                if tally.attempted or digest in weights
            ],
        }


class Windows:
    """The windows of all services of a router."""

    def __init__(self, book: TrafficBook, now: Callable[[], datetime] = utc_now) -> None:
        self._book = book
        self._now = now
        self._latest = datetime.min.replace(tzinfo=UTC)
        self._open: dict[str, _Open] = {}
        self._closed: dict[tuple[str, str], Closed] = {}
        """By service and name, the oldest first."""

    def follow(self, tables: Mapping[str, RouteTable]) -> None:
        """The routes are these now: what was counted belongs to those before."""
        now = self._moment()
        for service in self._open.keys() - tables.keys():
            self._end(service, now)
        for table in tables.values():
            window = self._open.get(table.service)
            if window is None and table.weights_decision_id:
                self._begin(table, now, self._book.clock())
            elif window is not None and window.table is not table:
                self._end(table.service, now)
                self._begin(table, now, self._book.clock())

    def close(self, table: RouteTable) -> None:
        """End the window of a service and begin the next; the first call only begins one, as it takes time to end."""
        now, window = self._moment(), self._open.get(table.service)
        if window is not None and now <= window.started:
            return
        self._end(table.service, now)
        if table.active:
            self._begin(table, now, window.since if window else self._book.clock())

    def close_full(self) -> None:
        """Called every second."""
        for window in tuple(self._open.values()):
            if window.requests >= MAX_REQUESTS:
                self.close(window.table)

    def names(self, service: str) -> tuple[str, ...]:
        """Closed windows, the oldest first."""
        return tuple(name for owner, name in self._closed if owner == service)

    def get(self, service: str, name: str) -> Closed:
        """A closed window.

        Raises:
            WindowUnknown: it was taken away, or never there.
        """
        try:
            return self._closed[service, name]
        except KeyError:
            raise WindowUnknown(f"service {service} has no closed window {name[:80]}") from None

    def forget(self, service: str, name: str) -> None:
        """It is safe elsewhere; forgotten twice is forgotten."""
        self._closed.pop((service, name), None)

    def _begin(self, table: RouteTable, now: datetime, since: float) -> None:
        tallies = {digest: Tally(since) for digest in table.declared.revisions}
        for digest, tally in tallies.items():
            self._book.of(table.service, digest).tally = tally
        self._open[table.service] = _Open(table, now, since, tallies)

    def _end(self, service: str, now: datetime) -> None:
        window = self._open.pop(service, None)
        if window is None:
            return
        for digest in window.tallies:
            self._book.of(service, digest).tally = None
        if now > window.started:
            closed = Closed(window, now)
            self._closed[service, closed.name] = closed
            self._forget_most()

    def _moment(self) -> datetime:
        """Now, to the millisecond, as it is written; while a clock that was set back catches up, time stands still."""
        now = self._now()
        self._latest = max(self._latest, now.replace(microsecond=now.microsecond // 1000 * 1000))
        return self._latest

    def _forget_most(self) -> None:
        kept = sum(closed.opened.requests for closed in self._closed.values())
        while kept > MAX_KEPT_REQUESTS or len(self._closed) > MAX_KEPT:
            service, name = next(iter(self._closed))
            kept -= self._closed.pop((service, name)).opened.requests
            _log.warning("service %s: window %s was never taken away and is forgotten", service, name)


def _text(time: datetime) -> str:
    """RFC 3339 in UTC, to the millisecond."""
    return f"{time:%Y-%m-%dT%H:%M:%S}.{time.microsecond // 1000:03}Z"


def _compact(time: datetime) -> str:
    return f"{time:%Y%m%dT%H%M%S}.{time.microsecond // 1000:03}Z"
