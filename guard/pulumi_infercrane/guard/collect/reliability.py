"""Kind `reliability`: a soak of the candidate, what was seen to go wrong in it, and drills on the candidate after it.

Ghost replicas are not measured, and so left out: only who rents them sees them. What needs a handle that was not given
is left out too.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from pulumi_infercrane.guard.canonical import digest
from pulumi_infercrane.guard.collect.bounds import Bounds, paid_seconds
from pulumi_infercrane.guard.collect.drills import cold_start, rehearse
from pulumi_infercrane.guard.collect.envelope import TOOL_VERSION, Findings, write_evidence
from pulumi_infercrane.guard.collect.handles import NO_HANDLES, Handles, Rehearsal
from pulumi_infercrane.guard.collect.journal import Journal
from pulumi_infercrane.guard.collect.load import Comparison, Side
from pulumi_infercrane.guard.collect.paired import partial_path
from pulumi_infercrane.guard.collect.probes import probe, require_serving
from pulumi_infercrane.guard.collect.soak import ClosedLoop, Soak, parts, soaked_s
from pulumi_infercrane.guard.collect.stream import open_session
from pulumi_infercrane.guard.collect.target import CollectError, Progress, Target

KIND = "reliability"
ALONE = True

MOST_COLD_STARTS = 100
MOST_STREAMS = 1000


@dataclass(frozen=True, kw_only=True)
class Plan(Bounds):
    """How long, under which load, and which drills come after it."""

    duration_s: float
    concurrency: int = 4
    max_tokens: int = 48
    random_seed: int = 1
    cold_starts: int = 0
    """How often the candidate is ended and started again."""
    drain_streams: int = 0
    """How many streams are open when rollback and drain are rehearsed; 0 rehearses nothing."""
    drain_tokens: int = 512
    """How long those streams are; they must outlast the rollback."""
    handles: Handles = NO_HANDLES

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.duration_s <= 0 or min(self.concurrency, self.max_tokens, self.drain_tokens) < 1:
            raise CollectError("duration, concurrency, max_tokens and drain_tokens must be positive")
        if self.duration_s > self.max_seconds:
            raise CollectError(f"a soak of {self.duration_s:g} s takes longer than max_seconds, {self.max_seconds:g}")
        _within("cold_starts", self.cold_starts, MOST_COLD_STARTS)
        _within("drain_streams", self.drain_streams, MOST_STREAMS)
        if self.cold_starts and self.handles.restart is None:
            raise CollectError("cold starts need somebody who can restart the candidate")
        if self.drain_streams and self.handles.rehearse is None:
            raise CollectError("a drain needs somebody who can rehearse it")

    @property
    def load(self) -> ClosedLoop:
        return ClosedLoop(self.concurrency, self.max_tokens, self.random_seed)

    @property
    def drills(self) -> int:
        return self.cold_starts + (1 if self.drain_streams else 0)


async def collect(candidate: Target, baseline: Target, *, out: Path, plan: Plan, progress: Progress) -> list[Path]:
    """Soak the candidate, drill it, and write its envelope below `out`.

    The baseline is left alone, except for the few short answers that a rehearsal needs of it.

    Raises:
        CollectError: it would cost too much, the candidate cannot be reached at the start, a drill did not come to its
            end, or `out` cannot be written.
    """
    if paid_seconds(plan, candidate) < plan.duration_s:
        raise CollectError(f"max_cost does not pay for a soak of {plan.duration_s:g} s: raise it, or soak less")
    with Journal(partial_path(out, KIND, candidate), _key(plan, candidate)) as journal:
        async with open_session() as session:
            comparison = await _Run(session, candidate, baseline, plan, progress, journal).carry_out()
        paths = write_evidence(
            out,
            kind=KIND,
            comparison=comparison,
            scenario=_scenario(plan),
            findings={"candidate": Findings(_header(journal, plan), tuple(comparison.candidate.records))},
            more={"probes": _probes(comparison.candidate)},
        )
        journal.remove()
    return paths


def _within(name: str, number: int, most: int) -> None:
    if not 0 <= number <= most:
        raise CollectError(f"{name} is {number}, from 0 to {most} are possible")


def _key(plan: Plan, candidate: Target) -> str:
    """Duration and drills are left out: what was interrupted may be asked to last longer, or for more of them."""
    asked = {"kind": KIND, "tool_version": TOOL_VERSION, "scenario": _scenario(plan)}
    return digest({**asked, "target": [candidate.revision_digest, candidate.base_url, candidate.model]})


def _scenario(plan: Plan) -> dict[str, Any]:
    return {
        "id": "soak",
        "load_model": "closed",
        "concurrency": plan.concurrency,
        "output_len": {"kind": "max", "mean": plan.max_tokens},
        "streaming": True,
        "random_seed": plan.random_seed,
        "cache": "unique-prompts",
    }


def _header(journal: Journal, plan: Plan) -> dict[str, Any]:
    """Counts over all parts of the soak, where every part has them, and the drills that were asked for."""
    seen = [part["seen"] for part in parts(journal)]
    known = [name for name in seen[0] if all(name in part for part in seen)]
    sums = {name: math.fsum(part[name] for part in seen) for name in known}
    counts = {name: value if name == "unready_s" else int(value) for name, value in sums.items()}
    return {"duration_s": round(soaked_s(journal), 3), **counts, **_drilled(journal, plan)}


def _drilled(journal: Journal, plan: Plan) -> dict[str, Any]:
    starts = _cold_starts(journal)
    return {**(_rehearsed(journal, plan) or {}), **({"cold_starts_s": starts} if starts else {})}


def _cold_starts(journal: Journal) -> list[float]:
    return [block["cold_start_s"] for block in journal.blocks if "cold_start_s" in block]


def _rehearsed(journal: Journal, plan: Plan) -> Mapping[str, Any] | None:
    """What the rehearsal that this plan asks for showed; None when there was none."""
    found = (block for block in journal.blocks if block.get("rehearsal_of") == [plan.drain_streams, plan.drain_tokens])
    return next((block["rehearsed"] for block in found), None)


def _probes(side: Side) -> dict[str, dict[str, Any]]:
    """What the candidate says of itself both before and after.

    That it says less, or counts anew, is a finding of the soak; it is no doubt about who was measured.
    """
    told: list[str] = [name for name in ("models", "version") if name in side.before and name in side.after]
    before, after = ({name: probed[name] for name in told} for probed in (side.before, side.after))
    return {"before": before, "after": after}


@dataclass
class _Run:
    session: aiohttp.ClientSession
    candidate: Target
    baseline: Target
    plan: Plan
    progress: Progress
    journal: Journal
    began: float = field(default_factory=time.perf_counter)

    async def carry_out(self) -> Comparison:
        await require_serving(self.session, self.candidate)
        drilling = soaked_s(self.journal) >= self.plan.duration_s
        probed = {"candidate": await probe(self.session, self.candidate)}
        self.journal.begin(probed, restarts=drilling and self.plan.cold_starts > 0)
        if (left := self.plan.duration_s - soaked_s(self.journal)) > 0:
            soak = Soak(self.session, self.candidate, self.plan.load, self.plan.handles.oom_kills, self.journal)
            await soak.carry_out(left, lambda seconds: self._show(seconds, self.plan.drills))
        if self.plan.drills:
            await self._drill_in_time()
        return await self._comparison()

    async def _drill_in_time(self) -> None:
        """All drills of this call, as long as time and money for it last."""
        time_left = self.plan.max_seconds - (time.perf_counter() - self.began)
        spent = math.fsum(block["seconds"]["candidate"] for block in self.journal.blocks)
        money_left = paid_seconds(self.plan, self.candidate) - spent
        try:
            async with asyncio.timeout(min(time_left, money_left)):
                await self._drill()
        except TimeoutError as error:
            bound = f"after {self.plan.max_seconds:g} s" if time_left < money_left else "for max_cost"
            raise CollectError(
                f"the drills on {self.candidate.name} are not finished {bound}, no evidence was written: the same "
                "command goes on behind the last drill; allow more or ask less"
            ) from error

    async def _drill(self) -> None:
        plan, handles = self.plan, self.plan.handles
        if handles.rehearse and plan.drain_streams and _rehearsed(self.journal, plan) is None:
            async with handles.rehearse(self.candidate, self.baseline) as route:
                await self._rehearse(route)
        if handles.restart:
            for number in range(len(_cold_starts(self.journal)), plan.cold_starts):
                self._show(0.0, plan.cold_starts - number)
                await self._restart(handles.restart)
        self._show(0.0, 0)

    async def _rehearse(self, route: Rehearsal) -> None:
        plan, begun = self.plan, time.perf_counter()
        sides = self.candidate, self.baseline
        found = await rehearse(self.session, *sides, route, streams=plan.drain_streams, tokens=plan.drain_tokens)
        drain = {"streams_open": found.streams_open, "streams_completed": found.streams_completed}
        rehearsed = {"rollback_drill_s": round(found.rollback_s, 6), "drain": drain}
        self._keep(begun, rehearsal_of=[plan.drain_streams, plan.drain_tokens], rehearsed=rehearsed)

    async def _restart(self, restart: Callable[[], Awaitable[float]]) -> None:
        begun = time.perf_counter()
        seconds = await cold_start(self.session, self.candidate, restart)
        self._keep(begun, cold_start_s=round(seconds, 6))

    def _keep(self, begun: float, **found: Any) -> None:
        self.journal.append({"seconds": {"candidate": round(time.perf_counter() - begun, 6)}, **found})

    def _show(self, seconds: float, drills: int) -> None:
        """What is left: seconds of the soak, and drills, each shown as if it took a second."""
        total = math.ceil(self.plan.duration_s) + self.plan.drills
        self.progress(self.candidate.label, total - math.ceil(seconds) - drills, total)

    async def _comparison(self) -> Comparison:
        side = Side(self.candidate)
        side.before, side.after = self.journal.before["candidate"], await probe(self.session, self.candidate)
        side.records = [record for part in parts(self.journal) for record in part["records"]["candidate"]]
        side.seconds = soaked_s(self.journal)
        return Comparison(side, None, self.journal.started, self.journal.ended)
