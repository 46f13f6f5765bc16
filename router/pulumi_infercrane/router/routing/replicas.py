"""The replicas of one revision: which of them take requests, and which one takes the next.

A replica that fails is left out for a growing time, one whose probes fail until a probe succeeds; the last one is
never left out. Both only change which replicas are `ready`: a request costs the same whether they are watched or not.
"""

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pulumi_infercrane.router.balance import Choose, Chooser
from pulumi_infercrane.router.tables.table import Health

if TYPE_CHECKING:
    from pulumi_infercrane.router.routing.routes import Endpoint

_LEAST_SHARE = 0.1
"""Of what a replica gets in the end, when it begins to start slowly."""

_log = logging.getLogger(__name__)


class Replica:
    """What is known about one upstream of a revision; kept over changes of the table."""

    __slots__ = (
        "answered",
        "ejected_until",
        "ejections",
        "failed",
        "failed_probes",
        "failures",
        "inflight",
        "last_ejection_s",
        "probe_due",
        "returned_at",
        "seen_by_probe",
        "share",
        "unreachable",
    )

    def __init__(self, now: float) -> None:
        self.inflight = 0
        self.answered = 0
        """Requests with a valid answer below status 500."""
        self.failed = 0
        """Requests without one."""
        self.failures = 0
        """In a row."""
        self.ejected_until = 0.0
        """By the router's clock; 0 when it is not ejected."""
        self.ejections = 0
        self.last_ejection_s = 0.0
        self.returned_at = now
        """When it last began to take requests."""
        self.failed_probes = 0
        """In a row."""
        self.probe_due = now
        self.seen_by_probe = 0
        """`answered` when it was last probed."""
        self.share = 0.0
        """What a slow start owes it, in requests."""
        self.unreachable = False
        """Whether the last connection to it failed."""


class ReplicaState(NamedTuple):
    """How a replica is at this moment; the counts since this process began to serve it."""

    ready: bool
    """Whether it gets new requests."""
    inflight: int
    answered: int
    failed: int
    ejections: int
    failed_probes: int


class Replicas:
    """The upstreams of a revision in one table. `endpoints` are all that can be used, draining ones included."""

    def __init__(
        self,
        endpoints: Sequence["Endpoint"],
        chooser: Chooser,
        health: Health | None,
        clock: Callable[[], float],
    ) -> None:
        self.endpoints = tuple(endpoints)
        self.health = health
        self.ready: tuple[Endpoint, ...] = ()
        self.exhausted = False
        """Whether all are out, the last of them only kept for want of another."""
        self._chooser = chooser
        self._clock = clock
        self._serving = tuple(endpoint for endpoint in endpoints if not endpoint.draining)
        self._starting = False
        self._steady: tuple[Endpoint, ...] = ()
        self._choose_steady: Choose | None = None
        self._choose: Choose | None = None
        self.refresh()

    def pick(self, request_id: bytes, body: bytes) -> "Endpoint":
        """The replica for a new request; there is at least one."""
        if self._choose is None:
            raise LookupError("a revision without usable replicas is refused before")
        endpoint = self._choose(request_id, body)
        if self._starting and self._choose_steady is not None and not self._has_its_turn(endpoint.replica):
            return self._choose_steady(request_id, body)
        return endpoint

    def others(self, tried: "Endpoint") -> list["Endpoint"]:
        """Where a request may go that could not be handed to `tried`: the ready ones first."""
        rest = [endpoint for endpoint in self._serving if endpoint not in self.ready]
        return [endpoint for endpoint in (*self.ready, *rest) if endpoint is not tried]

    def succeeded(self, endpoint: "Endpoint") -> None:
        """A valid answer came."""
        replica = endpoint.replica
        replica.answered += 1
        if replica.failures:
            replica.failures = 0
            self._restore(replica)

    def failed(self, endpoint: "Endpoint") -> None:
        """No connection, no valid answer in time, or a status from 500."""
        replica = endpoint.replica
        replica.failed += 1
        replica.failures += 1
        health = self.health
        if health is not None and replica.failures >= health.eject_after and not replica.ejected_until:
            self._eject(endpoint, health)

    def dialled(self, endpoint: "Endpoint", *, well: bool) -> bool:
        """How a dial ended. True when the one before ended otherwise: worth a line in the log."""
        replica = endpoint.replica
        if not well:
            self.failed(endpoint)
        changed = replica.unreachable is well
        replica.unreachable = not well
        return changed

    def probed(self, endpoint: "Endpoint", *, well: bool) -> None:
        """The answer to a probe. One that fails says nothing about a replica that answered requests meanwhile."""
        replica = endpoint.replica
        works = well or replica.answered > replica.seen_by_probe
        replica.seen_by_probe = replica.answered
        was_out = self._is_out(endpoint)
        replica.failed_probes = 0 if works else replica.failed_probes + 1
        if was_out != self._is_out(endpoint):
            _log.warning("replica %s: probes %s", endpoint.id, "succeed again" if works else "fail")
            self.refresh()

    def refresh(self) -> None:
        """Take back whose time is over, and go on with the slow starts. Called by the sweep."""
        now = self._clock()
        for replica in (endpoint.replica for endpoint in self._serving):
            if replica.ejected_until and replica.ejected_until <= now:
                replica.failures = 0
                self._restore(replica, refresh=False)
        inside = tuple(endpoint for endpoint in self._serving if not self._is_out(endpoint))
        self.exhausted = bool(self._serving) and not inside
        self._take(inside or (self.ready or self._serving)[-1:])
        self._start_slowly(now)

    def _eject(self, endpoint: "Endpoint", health: Health) -> None:
        replica, now = endpoint.replica, self._clock()
        if now - replica.returned_at > replica.last_ejection_s:
            replica.last_ejection_s = 0
        replica.last_ejection_s = min(replica.last_ejection_s * 2 or health.eject_s, health.eject_most_s)
        replica.ejected_until = now + replica.last_ejection_s
        replica.ejections += 1
        _log.warning("replica %s failed %d times in a row", endpoint.id, replica.failures)
        self.refresh()

    def _restore(self, replica: Replica, *, refresh: bool = True) -> None:
        if not replica.ejected_until:
            return
        replica.ejected_until = 0.0
        replica.returned_at = self._clock()
        if refresh:
            self.refresh()

    def _is_out(self, endpoint: "Endpoint") -> bool:
        replica, health = endpoint.replica, self.health
        if health is None:
            return False
        return bool(replica.ejected_until) or (health.probe_s > 0 and replica.failed_probes >= health.probe_failures)

    def _take(self, ready: tuple["Endpoint", ...]) -> None:
        if ready == self.ready:
            return
        for endpoint in ready:
            if self.ready and endpoint not in self.ready:
                endpoint.replica.returned_at = self._clock()
        self.ready = ready
        self._choose = self._chooser(ready) if ready else None

    def _start_slowly(self, now: float) -> None:
        """Keep apart those that have their full share."""
        slow_s = self.health.slow_start_s if self.health is not None else 0
        starting = [endpoint for endpoint in self.ready if now - endpoint.replica.returned_at < slow_s]
        steady = tuple(endpoint for endpoint in self.ready if endpoint not in starting)
        self._starting = bool(starting and steady)
        if self._starting and steady != self._steady:
            self._steady, self._choose_steady = steady, self._chooser(steady)

    def _has_its_turn(self, replica: Replica) -> bool:
        """Of the requests chosen for a starting replica it gets a share that grows with time, evenly, not by chance."""
        slow_s = self.health.slow_start_s if self.health is not None else 0
        age = self._clock() - replica.returned_at
        if age >= slow_s:
            return True
        replica.share += max(_LEAST_SHARE, age / slow_s)
        if replica.share < 1:
            return False
        replica.share -= 1
        return True


def state_of(replicas: Replicas, endpoint: "Endpoint") -> ReplicaState:
    """What is told to people and to metrics."""
    one = endpoint.replica
    ready = endpoint in replicas.ready
    return ReplicaState(ready, one.inflight, one.answered, one.failed, one.ejections, one.failed_probes)
