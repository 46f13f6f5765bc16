"""The traffic windows of a running router: what this process counts, or its workers do, brought together in time."""

import asyncio
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pulumi_infercrane.router.counting.counters import Counters
from pulumi_infercrane.router.counting.windows import Windows
from pulumi_infercrane.router.tables.table import RouteTable

if TYPE_CHECKING:
    from pulumi_infercrane.router.serving.workers.crew import Crew

LOOK_EVERY_S = 2.0
"""As much is lost at most of what a process counted that is killed."""

_log = logging.getLogger(__name__)


class LiveWindows:
    """With a `crew` it is the workers who count; what they say comes to `kept` as it arrives."""

    def __init__(self, windows: Windows, counters: Counters, crew: "Crew | None" = None) -> None:
        self.kept = windows
        self._counters = counters
        self._crew = crew
        if crew is not None:
            crew.on_counted, crew.on_lost = windows.add, windows.lose

    def follow(self, tables: Mapping[str, RouteTable]) -> None:
        """The routes are these now. Workers have been told, and have said what they counted of those before."""
        if self._crew is None:
            for service in self.kept.counting:
                if service not in tables:
                    self._counters.end(service)
            for table in tables.values():
                self._counters.follow(table, count=self.kept.wants(table))
            self._take()
        self.kept.follow(tables)
        self._mark()

    async def close(self, table: RouteTable) -> tuple[str, ...]:
        """End the window of a service and begin the next; names of all that are closed.

        The first call only begins one, as it takes time to end.

        Raises:
            StateNotWritten: the disk refuses.
        """
        end = self.kept.begin if self.kept.want(table.service) else self.kept.close
        await self._gather(table)
        end(table)
        self._mark()
        return self.kept.names(table.service)

    async def keep(self) -> None:
        """Have on disk what was counted. Never returns."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            try:
                await self.look()
            except Exception:  # noqa: BLE001 - logged; what could not be kept now is kept the next time
                _log.exception("the traffic windows were not kept")

    async def look(self) -> None:
        """Have on disk what was counted until now."""
        if self.kept.counting:
            await self._gather(None)

    def end(self) -> None:
        """The router ends, and nothing is counted any more."""
        self._take()
        self.kept.end()

    async def _gather(self, begin: RouteTable | None) -> None:
        """Everything that ended until now is in the windows; also count what a route does."""
        asked_at = self.kept.moment()
        if self._crew is None:
            if begin is not None:
                self._counters.begin(begin)
            self._take()
        else:
            await self._crew.count(begin.service if begin is not None else "")
        if self._crew is None or self._crew.all_count:
            self.kept.whole(asked_at)
        self._mark()

    def _mark(self) -> None:
        """What a worker of an older program does is in no window."""
        if self._crew is not None and not self._crew.all_count:
            self.kept.lose()

    def _take(self) -> None:
        for counted in self._counters.take():
            self.kept.add(counted)
