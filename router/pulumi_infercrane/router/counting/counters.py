"""What this process counts for the windows that are open, until it is taken away: by one router, or by a supervisor."""

from collections.abc import Mapping
from typing import NamedTuple

from pulumi_infercrane.router.counting.tally import Counts, Tally
from pulumi_infercrane.router.counting.traffic import TrafficBook
from pulumi_infercrane.router.tables.table import RouteTable


class Counted(NamedTuple):
    """What one process counted of one route since it was last asked; also as a JSON list."""

    service: str
    generation: int
    """Of the route: with another one it belongs to another window."""
    tallies: Mapping[str, Counts]
    """By revision; those without a request are left out."""


class _Route(NamedTuple):
    generation: int
    tallies: Mapping[str, Tally]


class Counters:
    """Tallies for the revisions of some services. Requests find theirs in `Traffic`."""

    def __init__(self, book: TrafficBook) -> None:
        self._book = book
        self._routes: dict[str, _Route] = {}
        self._ended: list[Counted] = []
        """Of routes that are no more."""

    def begin(self, table: RouteTable) -> None:
        """Count what this route does from now on, and no longer what the one before it does."""
        known = self._routes.get(table.service)
        if known is not None and known.generation == table.generation:
            return
        self.end(table.service)
        since = self._book.clock()
        tallies = {digest: Tally(since) for digest in table.declared.revisions}
        for digest, tally in tallies.items():
            self._book.of(table.service, digest).tally = tally
        self._routes[table.service] = _Route(table.generation, tallies)

    def end(self, service: str) -> None:
        """Count nothing of a service any more."""
        route = self._routes.pop(service, None)
        if route is None:
            return
        for digest in route.tallies:
            self._book.of(service, digest).tally = None
        self._ended += _taken(service, route)

    def follow(self, table: RouteTable, *, count: bool) -> None:
        """The route of a service is this now."""
        if count:
            self.begin(table)
        else:
            self.end(table.service)

    def take(self) -> list[Counted]:
        """Everything that was counted since the last time; counting goes on."""
        taken, self._ended = self._ended, []
        for service, route in self._routes.items():
            taken += _taken(service, route)
        return taken


def _taken(service: str, route: _Route) -> list[Counted]:
    tallies = {digest: tally.take() for digest, tally in route.tallies.items() if tally.attempted}
    return [Counted(service, route.generation, tallies)] if tallies else []
