"""Which requests run now, which wait, and which are refused: by the limits of their service and of their key.

A service without limits and a key without limits cost nothing here. Everything a request holds is in its permit,
which its exchange gives back when it ends.
"""

import asyncio
import math
from collections.abc import Callable, Mapping

from pulumi_infercrane.router.clients.budgets import Budget, Charge
from pulumi_infercrane.router.clients.credentials import priority, refuse_scope
from pulumi_infercrane.router.clients.keys import PRIORITIES, Key, KeyLimits
from pulumi_infercrane.router.counting.traffic import TrafficBook
from pulumi_infercrane.router.errors import RequestRefused
from pulumi_infercrane.router.histograms import Histogram
from pulumi_infercrane.router.protocol.observer import Observer, Outcome
from pulumi_infercrane.router.routing.dispatch import Bound
from pulumi_infercrane.router.tables.table import RouteTable, ServiceLimits

Rebind = Callable[[Bound], Bound]
"""Binds a request again, by the routes and keys of the moment; raises RequestRefused."""


class Admission:
    """Of one process."""

    def __init__(self, book: TrafficBook, rebind: Rebind) -> None:
        self.queues: dict[str, ServiceQueue] = {}
        """Of the services that have limits."""
        self._lifted: dict[str, ServiceQueue] = {}
        """Of those that had some and still have requests open which count when there are limits again."""
        self._book = book
        self._rebind = rebind
        self._budgets: dict[str, Budget] = {}

    def follow(self, tables: Mapping[str, RouteTable]) -> None:
        """The tables have changed: whatever waits is looked at again."""
        for service, table in tables.items():
            if table.declared.limits is not None:
                queue = self.queues.get(service) or self._lifted.pop(service, None)
                self.queues[service] = queue = queue or ServiceQueue(service, self._book, self._rebind)
                queue.limits = table.declared.limits
        for queue in tuple(self.queues.values()):
            if not _limited(tables.get(queue.service)):
                self._lifted[queue.service] = self.queues.pop(queue.service)
                queue.limits = ServiceLimits()
            queue.tables_changed()
        self._lifted = {service: queue for service, queue in self._lifted.items() if queue.inflight or queue.length}

    def forget(self, key: str) -> None:
        """A key was revoked."""
        self._budgets.pop(key, None)

    def admit(self, bound: Bound, key: Key | None) -> "Bound | Ticket":
        """The request with its permit, or its place in the queue.

        Raises:
            RequestRefused: 403 for what the key may not do, 429 for its limits, 503 for those of the service.
        """
        service, headers = bound.binding.traffic.service, bound.request.head.headers
        charge = None
        if key is not None:
            refuse_scope(key, service, headers)
        urgency = priority(key, service, headers)
        if key is not None and key.grant.limits is not None:
            charge = self._budget(key.name, key.grant.limits).charge(bound.request.body, service)
        queue = self.queues.get(service)
        if queue is not None:
            return queue.enter(bound, urgency, charge)
        if charge is not None:
            bound.permit = Permit(None, charge)
        return bound

    def _budget(self, key: str, limits: KeyLimits) -> Budget:
        budget = self._budgets.get(key)
        if budget is None:
            budget = self._budgets[key] = Budget(key, limits, self._book.clock)
        return budget


def _limited(table: RouteTable | None) -> bool:
    return table is not None and table.declared.limits is not None


class ServiceQueue:
    """The requests of one service that run with a permit, and those that wait for one."""

    def __init__(self, service: str, book: TrafficBook, rebind: Rebind) -> None:
        self.service = service
        self.limits = ServiceLimits()
        self.inflight = 0
        self.waited = Histogram()
        """Of requests that have left the queue, in whatever way."""
        self._book = book
        self._rebind = rebind
        self._waiting: tuple[dict[Ticket, None], ...] = tuple({} for _ in PRIORITIES)
        """Per class, in order of arrival."""
        self._waiting_bytes = 0
        self._looking_again = False
        self._changes = 0
        """Of the tables; what waits is bound by those of its `seen`."""

    @property
    def length(self) -> int:
        return sum(map(len, self._waiting))

    def enter(self, bound: Bound, urgency: int, charge: Charge | None) -> "Bound | Ticket":
        """Admitted when there is room and nobody before it could use it; else queued.

        Raises:
            RequestRefused: the queue is full.
        """
        if not self._looking_again and self._has_room(bound):
            return self._admitted(bound, charge)
        try:
            self._make_place(len(bound.request.body), urgency)
        except RequestRefused:
            if charge is not None:
                charge.refund()
            raise
        ticket = Ticket(self, bound, urgency, charge, self._book.clock(), self._changes)
        self._waiting[urgency][ticket] = None
        self._waiting_bytes += len(bound.request.body)
        return ticket

    def leave(self, ticket: "Ticket") -> None:
        """Out of the queue, by whatever way; what it was charged stays with the caller."""
        del self._waiting[ticket.urgency][ticket]
        self._waiting_bytes -= len(ticket.bound.request.body)
        self.waited.add(self._book.clock() - ticket.since)

    def client_left(self) -> None:
        """Book a request whose client did not wait."""
        self._book.unbound[Outcome.CLIENT_CANCELLED] += 1

    def release(self) -> None:
        """A permit came back."""
        self.inflight -= 1
        self.look_again()

    def tables_changed(self) -> None:
        """What waits may go elsewhere now."""
        self._changes += 1
        self.look_again()

    def look_again(self) -> None:
        """Admit what waits as soon as the loop is free: never in the middle of another exchange's end."""
        if not self._looking_again and any(self._waiting):
            self._looking_again = True
            asyncio.get_running_loop().call_soon(self._admit_waiting)

    def overloaded(self, reason: str, message: str) -> RequestRefused:
        """A 503 that says when to come again."""
        wait_s = max(1, math.ceil(self.limits.queue_timeout_s))
        return RequestRefused(503, "overloaded", message, retry_after_s=wait_s, service=self.service, reason=reason)

    @property
    def _is_full(self) -> bool:
        return self.limits.max_inflight is not None and self.inflight >= self.limits.max_inflight

    def _has_room(self, bound: Bound) -> bool:
        if self._is_full:
            return False
        of_one = self.limits.max_inflight_per_revision
        return of_one is None or bound.binding.traffic.inflight < of_one

    def _admitted(self, bound: Bound, charge: Charge | None) -> Bound:
        self.inflight += 1
        bound.permit = Permit(self, charge)
        return bound

    def _make_place(self, size: int, urgency: int) -> None:
        """The youngest of the least urgent go when somebody more urgent comes, unless that is not enough."""
        length, held, displaced = self.length + 1, self._waiting_bytes + size, []
        less_urgent = (ticket for waiting in reversed(self._waiting[urgency + 1 :]) for ticket in reversed(waiting))
        while length > self.limits.max_queue or held > self.limits.max_queue_bytes:
            ticket = next(less_urgent, None)
            if ticket is None:
                raise self.overloaded("queue_full", f"{self.service} is busy and its queue is full")
            displaced.append(ticket)
            length, held = length - 1, held - len(ticket.bound.request.body)
        for ticket in displaced:
            ticket.refuse(self.overloaded("displaced", f"{self.service} is busy with more urgent requests"))

    def _admit_waiting(self) -> None:
        self._looking_again = False
        full: set[str] = set()
        for waiting in self._waiting:
            for ticket in tuple(waiting):
                if self._is_full:
                    return
                if ticket in waiting and not self._waits_for(full, ticket):
                    self._try_admitting(ticket, full)

    def _waits_for(self, full: set[str], ticket: "Ticket") -> bool:
        """Whether its revision is known to be full: every request that ends comes by here, however many wait."""
        bound = ticket.bound
        return bound.binding.traffic.revision in full and bound.spill is None and ticket.seen == self._changes

    def _try_admitting(self, ticket: "Ticket", full: set[str]) -> None:
        """A request goes by the routes of the moment it leaves the queue, not of the one it entered it."""
        try:
            ticket.bound, ticket.seen = self._rebind(ticket.bound), self._changes
        except RequestRefused as refused:
            ticket.refuse(refused)
            return
        if self._has_room(ticket.bound):
            self.leave(ticket)
            ticket.admit(self._admitted(ticket.bound, ticket.charge))
        else:
            full.add(ticket.bound.binding.traffic.revision)


class Ticket:
    """A request that waits. Its client connection treats it as the exchange it is going to be."""

    __slots__ = ("_admitted", "_left", "_queue", "_refused", "_timer", "bound", "charge", "seen", "since", "urgency")

    def __init__(
        self, queue: ServiceQueue, bound: Bound, urgency: int, charge: Charge | None, since: float, seen: int
    ) -> None:
        self.bound = bound
        self.urgency = urgency
        self.charge = charge
        self.since = since
        self.seen = seen
        self._queue = queue
        self._left = False

    def wait(self, admitted: Callable[[Bound, float], None], refused: Callable[[RequestRefused, Bound], None]) -> None:
        """Say who is told how it ends; one of them is called, unless the client leaves.

        `admitted` gets the request with its permit, and when it came.
        """
        self._admitted, self._refused = admitted, refused
        seconds = self._queue.limits.queue_timeout_s
        self._timer = asyncio.get_running_loop().call_later(seconds, self._timed_out)

    def admit(self, bound: Bound) -> None:
        """It has left the queue with a permit."""
        self._left = True
        self._timer.cancel()
        self._admitted(bound, self.since)

    def refuse(self, refused: RequestRefused) -> None:
        """It leaves the queue now; the answer follows when the loop is free, since others may wait behind it."""
        if self._leave():
            asyncio.get_running_loop().call_soon(self._refused, refused, self.bound)

    def client_lost(self) -> None:
        """Nobody waits for the answer any more."""
        if self._leave():
            self._queue.client_left()
            if self.bound.asked is not None:
                self.bound.asked.end(Outcome.CLIENT_CANCELLED, None, service=self._queue.service)

    def cut(self) -> None:
        """The router stops now; that ends the connection, and so this."""

    def pause(self) -> None:
        """Nothing is being sent."""

    def resume(self) -> None:
        """Nothing is being sent."""

    def check(self, now: float) -> None:
        """The queue has a timer of its own."""

    def _timed_out(self) -> None:
        self.refuse(
            self._queue.overloaded("queue_timeout", f"{self._queue.service} did not get to this request in time")
        )

    def _leave(self) -> bool:
        """False when it had left before."""
        if self._left:
            return False
        self._left = True
        self._timer.cancel()
        self._queue.leave(self)
        if self.charge is not None:
            self.charge.refund()
        return True


class Permit:
    """What an admitted request holds until its exchange ends."""

    __slots__ = ("_charge", "_queue")

    def __init__(self, queue: ServiceQueue | None, charge: Charge | None) -> None:
        self._queue = queue
        self._charge = charge

    def release(self, outcome: Outcome, observer: Observer, *, sent: bool) -> None:
        """Give it all back. Called once. `sent` tells whether an upstream was handed the request."""
        if self._charge is not None and sent:
            self._charge.settle(outcome, observer)
        elif self._charge is not None:
            self._charge.refund()
        if self._queue is not None:
            self._queue.release()
