"""Who leaves when there are too many connections."""

import heapq
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pulumi_infercrane.router.relay.client import ClientConnection

MOST = 1024
"""That leave between two searches."""


class Idle:
    """Connections on which nothing is asked. They are looked for only when there is no room, and then only once in
    `every_s`: nobody pays for it otherwise, and a flood of connections is not a flood of searches.
    """

    def __init__(self, clients: "Collection[ClientConnection]", clock: Callable[[], float], every_s: float) -> None:
        self._clients = clients
        self._clock = clock
        self._every_s = every_s
        self._look_at = float("-inf")
        self._found: list[tuple[float, ClientConnection]] = []
        """The oldest is last."""

    def close_oldest(self) -> bool:
        """Close the one that has been idle longest. False when there is none."""
        return self._close_found() or (self._look() and self._close_found())

    def _close_found(self) -> bool:
        while self._found:
            since, client = self._found.pop()
            if client.idle_since == since and client.give_way():
                return True
        return False

    def _look(self) -> bool:
        now = self._clock()
        if now < self._look_at:
            return False
        self._look_at = now + self._every_s
        idle = [(since, client) for client in self._clients if (since := client.idle_since) is not None]
        self._found = heapq.nsmallest(MOST, idle, key=lambda one: one[0])[::-1]
        return True
