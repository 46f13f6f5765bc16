"""Traffic windows: what the revisions behind one route did between two moments, side by side.

A window begins where the one before it ended, so together they leave no time out. It ends when it is closed, when the
route changes, and when it is full; nothing in it is from another route. It is on disk from its beginning on. When
counts are lost with a process, the window ends where it was known whole, and one that says so begins there.

Nothing is counted before the first canary step of a route, or before somebody asks for a window.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from pulumi_infercrane.router.clock import utc_now
from pulumi_infercrane.router.counting.counters import Counted
from pulumi_infercrane.router.counting.window_journal import Journal, Subject, read
from pulumi_infercrane.router.errors import StateNotWritten, WindowUnknown
from pulumi_infercrane.router.tables.table import RouteTable
from pulumi_infercrane.router.tables.transitions import carried

MAX_REQUESTS = 10_000
"""Complete requests of one window: writing its document keeps the data plane waiting for a few milliseconds."""
MAX_KEPT = 256
"""Closed windows of a router."""

_OPEN = "open"
_SUFFIX = ".jsonl"
_DECISION = "sha256:"
_NAME = "%Y%m%dT%H%M%S.%fZ"
_INSTANT = timedelta(milliseconds=1)

_log = logging.getLogger(__name__)


class Windows:
    """The windows of all services of a router, in a folder with one for each service. Nobody else writes there."""

    def __init__(self, folder: Path, now: Callable[[], datetime] = utc_now) -> None:
        self._folder = folder
        self._now = now
        self._latest = datetime.min.replace(tzinfo=UTC)
        self._tables: Mapping[str, RouteTable] = {}
        self._counted: set[str] = set()
        """Services of which a window should be open."""
        self._open: dict[str, Journal] = {}
        self._closed: dict[tuple[str, str], Path] = {}
        """By service and name, the oldest first."""
        self._early: list[Counted] = []
        """Of routes that are not known here yet."""

    def resume(self, *, handed_over: bool) -> None:
        """Find what the router before left. It went on counting only when it handed over."""
        for path in sorted(self._folder.glob(f"*/*{_SUFFIX}"), key=lambda path: path.name):
            service = path.parent.name
            if path.stem == _OPEN:
                self._counted.add(service)
                if handed_over:
                    self._reopen(service, path)
            elif (ended := _end_of(path.stem)) is not None:
                self._closed[service, path.stem] = path
                self._latest = max(self._latest, ended)

    def wants(self, table: RouteTable) -> bool:
        """Whether it is to be counted what this route does."""
        return table.service in self._counted or bool(table.weights_decision_id)

    @property
    def counting(self) -> tuple[str, ...]:
        """The services of which a window should be open."""
        return tuple(self._counted)

    def follow(self, tables: Mapping[str, RouteTable]) -> None:
        """The routes are these now: what was counted belongs to those before."""
        self._tables = tables
        now = self.moment()
        for service in self._counted - tables.keys():
            self._counted.discard(service)
            with self._kept_on_disk(service):
                self._end(service, now)
                self._path(service).unlink(missing_ok=True)
        for table in tables.values():
            self._follow(table, now)
        early, self._early = self._early, []
        for counted in early:
            if counted.service in tables:
                self.add(counted)

    def add(self, counted: Counted) -> None:
        """What a process counted. A process may know of a change of the route before we do."""
        journal, table = self._open.get(counted.service), self._tables.get(counted.service)
        if table is None or counted.generation > table.generation:
            self._early.append(counted)
        elif journal is not None and counted.generation == journal.subject.generation:
            with self._kept_on_disk(counted.service):
                journal.add(counted.tallies)

    def whole(self, until: datetime) -> None:
        """All processes have said what they counted until then. Full windows end, and those that lack something."""
        for service, journal in tuple(self._open.items()):
            with self._kept_on_disk(service):
                journal.reach(max(journal.until, until))
                if journal.lost or journal.completed >= MAX_REQUESTS:
                    self._next(service)
        for service in self._counted - self._open.keys():
            with self._kept_on_disk(service):
                self._begin(self._tables[service], self.moment())

    def lose(self, whose: Literal["worker", "router"] = "worker") -> None:
        """A process is gone that has not said what it counted since the windows were whole."""
        for service in tuple(self._open):
            with self._kept_on_disk(service):
                self._lose(service, whose)

    def want(self, service: str) -> bool:
        """It is to be counted what the routes of a service do; False when it was already."""
        new = service not in self._counted
        self._counted.add(service)
        return new

    def begin(self, table: RouteTable) -> None:
        """Open a window of a service unless one is open.

        Raises:
            StateNotWritten: the disk refuses.
        """
        if table.service not in self._open:
            with self._or_refused(table.service):
                self._begin(table, self.moment())

    def close(self, table: RouteTable) -> None:
        """End the window of a service and begin the next.

        Raises:
            StateNotWritten: the disk refuses.
        """
        self.begin(table)
        with self._or_refused(table.service):
            self._next(table.service)

    def end(self) -> None:
        """The router ends in good order: everything that was counted is here."""
        now = self.moment()
        for service in tuple(self._open):
            with self._kept_on_disk(service):
                self._open.pop(service).end(now)

    def names(self, service: str) -> tuple[str, ...]:
        """Closed windows, the oldest first."""
        return tuple(name for owner, name in self._closed if owner == service)

    def document(self, service: str, name: str) -> dict[str, Any]:
        """A closed window as `infercrane.window/v1`, with NaN for `null`.

        Raises:
            WindowUnknown: it was taken away, or never there.
        """
        unknown = f"service {service} has no closed window {name[:80]}"
        try:
            return read(self._closed[service, name]).document()
        except KeyError:
            raise WindowUnknown(unknown) from None
        except (OSError, ValueError) as error:
            raise WindowUnknown(f"{unknown} that can be read: {error}") from error

    def forget(self, service: str, name: str) -> None:
        """It is safe elsewhere; forgotten twice is forgotten."""
        path = self._closed.pop((service, name), None)
        if path is not None:
            path.unlink(missing_ok=True)

    def moment(self) -> datetime:
        """Now, to the millisecond, as it is written; while a clock that was set back catches up, time stands still."""
        now = self._now()
        self._latest = max(self._latest, now.replace(microsecond=now.microsecond // 1000 * 1000))
        return self._latest

    # one service

    def _follow(self, table: RouteTable, now: datetime) -> None:
        journal = self._open.get(table.service)
        if not self.wants(table) or (journal is not None and journal.subject.generation == table.generation):
            return
        self._counted.add(table.service)
        with self._kept_on_disk(table.service):
            self._end(table.service, now)
            self._begin(table, now)

    def _next(self, service: str) -> None:
        now, table = self.moment(), self._tables[service]
        if service not in self._open or now <= self._open[service].started:
            return
        self._end(service, now)
        self._begin(table, now)

    def _begin(self, table: RouteTable, now: datetime) -> None:
        path = self._path(table.service)
        if not table.active:
            self._counted.discard(table.service)
            return
        if path.exists():
            self._recover(table, path)
            now = self._latest  # where what was lost ends
        self._open[table.service] = Journal.begin(path, _subject(table), now)

    def _end(self, service: str, now: datetime) -> None:
        journal = self._open.pop(service, None)
        if journal is None:
            return
        journal.end(now)
        self._put_away(service, journal.path, journal.started, now)

    def _lose(self, service: str, whose: Literal["worker", "router"]) -> None:
        journal = self._open[service]
        if journal.lost:
            return
        if journal.until > journal.started:
            self._end(service, journal.until)
            journal = self._open[service] = Journal.begin(journal.path, journal.subject, journal.until)
        journal.lose(whose)

    def _recover(self, table: RouteTable, path: Path) -> None:
        """What a router left that did not hand over: until where it is whole; and what it lacks, if it did not end."""
        service = table.service
        if not self._reopen(service, path):
            return
        if (ended := self._open[service].ended) is not None:
            self._latest = max(self._latest, ended)
            self._put_away(service, path, self._open[service].started, ended)
            self._abandon(service)
            return
        self._lose(service, "router")
        self._latest = max(self.moment(), self._open[service].started + _INSTANT)
        journal = self._open.pop(service)
        journal.end(self._latest, table.generation)
        self._put_away(service, path, journal.started, self._latest)

    def _reopen(self, service: str, path: Path) -> bool:
        try:
            journal = self._open[service] = Journal.reopen(path)
            self._latest = max(self._latest, journal.until)
        except (OSError, ValueError) as error:
            _log.error("service %s: %s is not usable, its window is lost: %s", service, path, error)
            path.unlink(missing_ok=True)
            return False
        return True

    def _put_away(self, service: str, path: Path, started: datetime, ended: datetime) -> None:
        """A closed window; one that took no time is nothing."""
        if ended <= started:
            path.unlink(missing_ok=True)
            return
        name = f"{_compact(started)}-{_compact(ended)}"
        self._closed[service, name] = path.rename(path.with_name(name + _SUFFIX))
        while len(self._closed) > MAX_KEPT:
            owner, oldest = next(iter(self._closed))
            _log.warning("service %s: window %s was never taken away and is forgotten", owner, oldest)
            self.forget(owner, oldest)

    def _abandon(self, service: str) -> None:
        journal = self._open.pop(service, None)
        if journal is not None:
            journal.close()

    def _path(self, service: str) -> Path:
        return self._folder / service / (_OPEN + _SUFFIX)

    @contextmanager
    def _or_refused(self, service: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self._abandon(service)
            raise StateNotWritten(f"the traffic window of {service} cannot be written: {error.strerror}") from error

    @contextmanager
    def _kept_on_disk(self, service: str) -> Iterator[None]:
        """What cannot be written is lost: the journal on disk says until when it is whole."""
        try:
            yield
        except OSError as error:
            _log.error("service %s: its traffic window cannot be written, counts are lost: %s", service, error)
            self._abandon(service)


def _subject(table: RouteTable) -> Subject:
    decision_id = table.weights_decision_id if table.weights else table.decision_id
    named = decision_id if decision_id.startswith(_DECISION) else ""
    declared = table.declared
    return Subject(
        table.service, table.generation, named, dict(carried(table)), tuple(declared.revisions), declared.stack
    )


def _compact(time: datetime) -> str:
    return f"{time:%Y%m%dT%H%M%S}.{time.microsecond // 1000:03}Z"


def _end_of(name: str) -> datetime | None:
    """When a closed window ended; None for a file that is none."""
    try:
        return datetime.strptime(name.partition("-")[2], _NAME).replace(tzinfo=UTC)
    except ValueError:
        return None
