"""What a stack can do to its candidate for a drill, and knows of it. Never to a revision that has traffic."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from pulumi_infercrane.components.errors import ComponentError
from pulumi_infercrane.components.revision import RevisionSpec
from pulumi_infercrane.components.supervision.files import folder_of
from pulumi_infercrane.components.supervision.memory import oom_kills
from pulumi_infercrane.components.supervision.observing import exists, read_record
from pulumi_infercrane.components.supervision.restarting import restart
from pulumi_infercrane.guard.collect import CollectError, Target
from pulumi_infercrane.guard.collect.handles import Handles, Rehearsal
from pulumi_infercrane.router.control.client import ControlClient, LiveService, RouterError
from pulumi_infercrane.stacks.config import StackConfig
from pulumi_infercrane.stacks.project import Project


def handles_of(project: Project, config: StackConfig) -> Handles:
    """The handles on the candidate of a stack, which is a supervised process of this machine."""
    stack = _Stack(project.place.control, project.place.root, config)
    return Handles(restart=stack.restart, rehearse=stack.rehearse, oom_kills=stack.oom_kills)


@dataclass(frozen=True)
class _Stack:
    control: Path
    root: Path
    config: StackConfig

    async def restart(self) -> float:
        """Restart the candidate's process."""
        _refuse_traffic(await self._live(), self._candidate)
        try:
            started = await asyncio.to_thread(restart, self._folder)
        except ComponentError as error:
            raise CollectError(f"{self._candidate.name} cannot be restarted: {error}") from error
        return time.perf_counter() - (time.time() - started)

    @asynccontextmanager
    async def rehearse(self, candidate: Target, baseline: Target) -> AsyncIterator[Rehearsal]:
        """A second router with both revisions behind it, as the first one knows them."""
        from pulumi_infercrane.stacks.rehearsal import rehearsal  # loads the data plane

        live = await self._live()
        sides = {"baseline": baseline.revision_digest, "candidate": candidate.revision_digest}
        try:
            async with rehearsal(live.table, **sides, drain_s=self.config.router.drainS) as route:
                yield route
        except RouterError as error:
            raise CollectError(f"rollback and drain cannot be rehearsed: {error}") from error

    def oom_kills(self) -> int | None:
        """Those in the control group of the candidate's supervisor, which outlives the process that is killed."""
        record = read_record(self._folder)
        return oom_kills(record["supervisor"]["pid"]) if record and exists(record, "supervisor") else None

    @property
    def _candidate(self) -> RevisionSpec:
        return self.config.revision(self.config.candidate or "")

    @property
    def _folder(self) -> Path:
        return folder_of(self.root, f"{self._candidate.name}-{self._candidate.digest[7:15]}")

    async def _live(self) -> LiveService:
        try:
            async with ControlClient(self.control) as router:
                return await router.get(self.config.service)
        except RouterError as error:
            raise CollectError(f"the router of {self.config.service} cannot be asked: {error}") from error


def _refuse_traffic(live: LiveService, candidate: RevisionSpec) -> None:
    """A revision that users may reach is not restarted for a drill."""
    digest = candidate.digest
    uses = {
        "is active": live.active == digest,
        "has a share of the traffic": live.weights.get(digest, 0) > 0,
        "is the fallback": live.table.get("fallback") == digest,
        "has requests in flight": live.inflight.get(digest, 0) > 0,
    }
    for use, holds in uses.items():
        if holds:
            raise CollectError(f"{candidate.name} {use}, so it is not restarted: take that back first")
