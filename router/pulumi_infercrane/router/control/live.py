"""Changes the served tables, one at a time: validate, persist, then replace the routes in one assignment.

Until the assignment every request goes by the old tables, after the acknowledgement none does.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from pulumi_infercrane.router.addresses import Listening, points_at
from pulumi_infercrane.router.clients.admission import ServiceQueue
from pulumi_infercrane.router.clock import utc_now
from pulumi_infercrane.router.counting.live_windows import LiveWindows
from pulumi_infercrane.router.counting.traffic import Load, Loads, Traffic
from pulumi_infercrane.router.errors import (
    RevisionInUse,
    RevisionUnknown,
    RouterError,
    ServiceInUse,
    ServiceUnknown,
    TableInvalid,
)
from pulumi_infercrane.router.relay.relay import Relay
from pulumi_infercrane.router.routing.replicas import ReplicaState, state_of
from pulumi_infercrane.router.routing.routes import Routes
from pulumi_infercrane.router.tables import transitions
from pulumi_infercrane.router.tables.calls import DrainState, Flip, Weights
from pulumi_infercrane.router.tables.store import TableStore
from pulumi_infercrane.router.tables.table import DRAINING, Declared, RouteTable

if TYPE_CHECKING:
    from pulumi_infercrane.router.serving.workers.crew import Crew

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Applied:
    """`applied` is False when the call found what it asks for in place."""

    table: RouteTable
    applied: bool


def go_by(relay: Relay, tables: Mapping[str, RouteTable]) -> None:
    """Route by these tables from now on."""
    relay.routes = relay.compiler.compile(tables)
    relay.admission.follow(tables)
    for table in tables.values():
        for digest, revision in table.declared.revisions.items():
            if revision.state != DRAINING:
                relay.traffic.of(table.service, digest).drain_until = None


class LiveRoutes:
    """The tables of a running router. `listening` is its own data address, which no upstream may point at.

    With a `crew` it is the workers who dispatch: a change is in effect when each of them goes by it.
    """

    def __init__(
        self,
        relay: Relay,
        store: TableStore,
        listening: Listening,
        windows: LiveWindows,
        now: Callable[[], datetime] = utc_now,
        crew: "Crew | None" = None,
    ) -> None:
        self._relay = relay
        self._store = store
        self._listening = listening
        self._now = now
        self._crew = crew
        self.windows = windows
        self._one_at_a_time = asyncio.Lock()

    @property
    def routes(self) -> Routes:
        return self._relay.routes

    @property
    def queues(self) -> tuple[ServiceQueue, ...]:
        """Of the services with limits."""
        return tuple(self._relay.admission.queues.values())

    @property
    def tables(self) -> dict[str, RouteTable]:
        return self._relay.routes.tables

    def serve(self, tables: Mapping[str, RouteTable]) -> None:
        """Route by these tables from now on."""
        self._go_by(tables)
        self.windows.follow(tables)

    def _go_by(self, tables: Mapping[str, RouteTable]) -> None:
        before = self.tables
        for table in (table for name, table in tables.items() if table is not before.get(name)):
            for finding in self._relay.compiler.unusable(table):
                _log.error("service %s: %s: requests to it are refused", table.service, finding)
        go_by(self._relay, tables)

    def table(self, service: str) -> RouteTable:
        """The served table.

        Raises:
            ServiceUnknown: there is none.
        """
        table = self.tables.get(service)
        if table is None:
            raise ServiceUnknown(f"this router has no service {service}")
        return table

    async def inflight(self, table: RouteTable) -> dict[str, int]:
        """Requests in flight per revision."""
        loads = await self._loads()
        return {digest: _load(loads, table, digest).inflight for digest in table.declared.revisions}

    async def replicas(self, table: RouteTable) -> dict[str, dict[str, ReplicaState]]:
        """Revision → upstream id → how it is; without those that cannot be used."""
        if self._crew is not None:
            return await self._crew.replicas(table.service)
        return replicas_of(self.routes, table.service)

    async def put(self, service: str, declared: Declared, expected_generation: str | None) -> Applied:
        """Replace the declared part; see `transitions.put` for what is refused."""
        async with self._changing(service):
            before = self.tables.get(service)
            last = 0 if before is not None else await asyncio.to_thread(self._store.last_generation, service)
            after = transitions.put(before, service, declared, expected_generation, last)
            self._refuse(after)
            await self._refuse_removing_busy(before, after)
            applied = await self._apply(before, after)
            self._forget(service, transitions.removed_revisions(before, after))
            return applied

    async def flip(self, service: str, flip: Flip) -> Applied:
        """Move the active revision; see `transitions.flip` for what is refused."""
        async with self._changing(service):
            before = self.table(service)
            return await self._apply(before, transitions.flip(before, flip, self._now()))

    async def weigh(self, service: str, weights: Weights) -> Applied:
        """Share the traffic with a candidate, or take that back; see `transitions.weigh` for what is refused."""
        async with self._changing(service):
            before = self.table(service)
            return await self._apply(before, transitions.weigh(before, weights, self._now()))

    async def drain(self, service: str, revision: str, deadline_s: float) -> Applied:
        """Send a revision no new requests, and cut what is still open after `deadline_s` seconds."""
        async with self._changing(service):
            before = self.table(service)
            deadline = self._now() + timedelta(seconds=deadline_s)
            after = transitions.drain(before, revision, deadline.strftime("%Y-%m-%dT%H:%M:%SZ"))
            applied = await self._apply(before, after)
            self._traffic(after, revision).drain_until = self._relay.clock() + deadline_s
            if self._crew is not None:
                await self._crew.drain(service, revision, deadline_s)
            return applied

    async def drain_state(self, service: str, revision: str) -> DrainState:
        """How far draining has come.

        Raises:
            ServiceUnknown, RevisionUnknown: nothing to look at.
        """
        table = self.table(service)
        declared = table.declared.revisions.get(revision)
        if declared is None:
            raise RevisionUnknown(f"service {service} declares no revision {revision}")
        load = _load(await self._loads(), table, revision)
        done = declared.state == DRAINING and load.inflight == 0
        return DrainState(load.inflight, load.oldest_s, load.cut, done)

    async def close_window(self, service: str) -> tuple[str, ...]:
        """Names of the closed windows of a service, the oldest first; see `LiveWindows.close`.

        Raises:
            ServiceUnknown: there is none.
            StateNotWritten: the disk refuses.
        """
        async with self._one_at_a_time:
            return await self.windows.close(self.table(service))

    async def delete(self, service: str) -> None:
        """Forget a service.

        Raises:
            ServiceUnknown: there is none.
            ServiceInUse: requests are in flight.
        """
        async with self._changing(service):
            table = self.table(service)
            if any((await self.inflight(table)).values()):
                raise ServiceInUse(f"service {service} has requests in flight: drain its revisions first")
            await asyncio.to_thread(self._store.delete, service)
            self._count(service, "applied")
            self._go_by({name: other for name, other in self.tables.items() if name != service})
            if self._crew is not None:
                await self._crew.delete(service)
            self.windows.follow(self.tables)
            self._forget(service, table.declared.revisions)

    async def _apply(self, before: RouteTable | None, after: RouteTable) -> Applied:
        if after is before:
            self._count(after.service, "unchanged")
            return Applied(after, applied=False)
        await asyncio.to_thread(self._store.save, after)
        self._go_by({**self.tables, after.service: after})
        self._count(after.service, "applied")
        if self._crew is not None:
            await self._crew.go_by(after, count=self.windows.kept.wants(after))
        self.windows.follow(self.tables)
        return Applied(after, applied=True)

    @asynccontextmanager
    async def _changing(self, service: str) -> AsyncIterator[None]:
        """Alone until the end of the block; counts it when it changes nothing because of an error."""
        async with self._one_at_a_time:
            try:
                yield
            except Exception as error:
                refused = isinstance(error, RouterError) and error.status < 500
                self._count(service, "refused" if refused else "failed")
                raise

    def _count(self, service: str, result: str) -> None:
        """Names of services that are not there are not kept."""
        self._relay.traffic.applied[service if service in self.tables else "", result] += 1

    def _refuse(self, table: RouteTable) -> None:
        findings = self._relay.compiler.unusable(table)
        findings += [
            f"revisions.{digest}.upstreams: {upstream.url} is this router itself"
            for digest, revision in table.declared.revisions.items()
            for upstream in revision.upstreams
            if points_at(upstream.url, self._listening)
        ]
        findings += transitions.shared_aliases(table, self.tables)
        if findings:
            raise TableInvalid(findings)

    async def _refuse_removing_busy(self, before: RouteTable | None, after: RouteTable) -> None:
        removed = transitions.removed_revisions(before, after)
        loads = await self._loads() if removed else {}
        for digest in removed:
            count = _load(loads, after, digest).inflight
            if count:
                raise RevisionInUse(f"revision {digest} has {count} requests in flight: drain it first")

    def _forget(self, service: str, revisions: Iterable[str]) -> None:
        """Removed revisions end their series."""
        for digest in revisions:
            self._relay.traffic.forget(service, digest)
            if self._crew is not None:
                self._crew.forget(service, digest)

    async def _loads(self) -> Loads:
        return await self._crew.loads() if self._crew is not None else self._relay.traffic.loads()

    def _traffic(self, table: RouteTable, digest: str) -> Traffic:
        return self._relay.traffic.of(table.service, digest)


def replicas_of(routes: Routes, service: str) -> dict[str, dict[str, ReplicaState]]:
    """Of one process: see `LiveRoutes.replicas`."""
    return {
        digest: {endpoint.id: state_of(binding.replicas, endpoint) for endpoint in binding.endpoints}
        for digest, binding in routes.by_service[service].bindings.items()
    }


def _load(loads: Loads, table: RouteTable, digest: str) -> Load:
    return loads.get((table.service, digest), Load())
