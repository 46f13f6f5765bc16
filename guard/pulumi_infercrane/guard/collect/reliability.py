"""Kind `reliability`: a soak of the candidate under a constant closed loop, and what was seen to go wrong in it.

Not measured, and so left out: kills for lack of memory and ghost replicas, which only who runs the replica can see;
cold starts and the drills, which need the means to stop and start it.
"""

import asyncio
import itertools
import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp

from pulumi_infercrane.guard.canonical import digest
from pulumi_infercrane.guard.collect.bounds import Bounds, paid_seconds
from pulumi_infercrane.guard.collect.envelope import TOOL_VERSION, Findings, write_evidence
from pulumi_infercrane.guard.collect.journal import Journal
from pulumi_infercrane.guard.collect.load import Comparison, Question, Side
from pulumi_infercrane.guard.collect.paired import partial_path
from pulumi_infercrane.guard.collect.probes import probe, require_serving
from pulumi_infercrane.guard.collect.prompts import as_questions, generated_prompts
from pulumi_infercrane.guard.collect.stream import Chat, ask, open_session
from pulumi_infercrane.guard.collect.target import CollectError, Progress, Target
from pulumi_infercrane.guard.collect.watch import Watch, look_on

KIND = "reliability"

KEEP_EVERY_S = 10.0
SHOW_EVERY_S = 1.0
PAUSE_AFTER_FAILURE_S = 0.25
"""A dead replica refuses thousands of requests a second: they would be all that is counted."""

_PROMPTS = 1000
"""Different ones; they come again under another title."""


@dataclass(frozen=True, kw_only=True)
class Plan(Bounds):
    """How long, and under which load."""

    duration_s: float
    concurrency: int = 4
    max_tokens: int = 48
    random_seed: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.duration_s <= 0 or min(self.concurrency, self.max_tokens) < 1:
            raise CollectError("duration, concurrency and max_tokens must be positive")
        if self.duration_s > self.max_seconds:
            raise CollectError(f"a soak of {self.duration_s:g} s takes longer than max_seconds, {self.max_seconds:g}")


async def collect(candidate: Target, baseline: Target, *, out: Path, plan: Plan, progress: Progress) -> list[Path]:
    """Soak the candidate and write its envelope below `out`; the baseline is left alone.

    Raises:
        CollectError: the soak would cost too much, the candidate cannot be reached at the start, or `out` cannot be
            written.
    """
    if paid_seconds(plan, candidate) < plan.duration_s:
        raise CollectError(f"max_cost does not pay for a soak of {plan.duration_s:g} s: raise it, or soak less")
    with Journal(partial_path(out, KIND, candidate), _key(plan, candidate)) as journal:
        async with open_session() as session:
            comparison = await _Soak(session, Side(candidate), plan, progress, journal).carry_out()
        paths = write_evidence(
            out,
            kind=KIND,
            comparison=comparison,
            scenario=_scenario(plan),
            findings={"candidate": Findings(_header(journal, comparison), tuple(comparison.candidate.records))},
            more={"probes": _probes(comparison.candidate)},
        )
        journal.remove()
    return paths


def _key(plan: Plan, candidate: Target) -> str:
    """The duration is left out: a soak that was interrupted may be asked to last longer."""
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


def _header(journal: Journal, comparison: Comparison) -> dict[str, Any]:
    """Counts over all parts of the soak; a count that one part does not have is not known."""
    parts = [block["seen"] for block in journal.blocks]
    known = [name for name in parts[0] if all(name in part for part in parts)]
    sums = {name: math.fsum(part[name] for part in parts) for name in known}
    counts = {name: value if name == "unready_s" else int(value) for name, value in sums.items()}
    return {"duration_s": round(comparison.candidate.seconds, 3), **counts}


def _probes(side: Side) -> dict[str, dict[str, Any]]:
    """What the candidate says of itself both before and after.

    That it says less, or counts anew, is a finding of the soak; it is no doubt about who was measured.
    """
    told: list[str] = [name for name in ("models", "version") if name in side.before and name in side.after]
    before, after = ({name: probed[name] for name in told} for probed in (side.before, side.after))
    return {"before": before, "after": after}


@dataclass
class _Soak:
    session: aiohttp.ClientSession
    side: Side
    plan: Plan
    progress: Progress
    journal: Journal
    watch: Watch = field(default_factory=Watch)
    finished: list[Mapping[str, Any]] = field(default_factory=list)
    """Since they were last kept."""
    kept_at: float = 0.0
    zero: float = 0.0

    async def carry_out(self) -> Comparison:
        target = self.side.target
        await require_serving(self.session, target)
        self.journal.begin({"candidate": await probe(self.session, target)})
        self.zero = time.perf_counter() - (datetime.now(UTC) - self.journal.started).total_seconds()
        soaked = math.fsum(block["seconds"]["candidate"] for block in self.journal.blocks)
        if soaked < self.plan.duration_s:
            await self._soak(soaked)
        self.side.before, self.side.after = self.journal.before["candidate"], await probe(self.session, target)
        self.side.records = [record for block in self.journal.blocks for record in block["records"]["candidate"]]
        self.side.seconds = math.fsum(block["seconds"]["candidate"] for block in self.journal.blocks)
        return Comparison(self.side, None, self.journal.started, self.journal.ended)

    async def _soak(self, soaked: float) -> None:
        self.kept_at = time.perf_counter()
        until = self.kept_at + self.plan.duration_s - soaked
        kept = (record["id"] for block in self.journal.blocks for record in block["records"]["candidate"])
        questions = _questions(self.plan, max(map(int, kept), default=0))
        watching = asyncio.create_task(look_on(self.session, self.side.target, self.watch))
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._keep_until(until))
                for _ in range(self.plan.concurrency):
                    group.create_task(self._ask_until(until, questions))
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        self._keep()

    async def _ask_until(self, until: float, questions: Iterator[Question]) -> None:
        target = self.side.target
        while (begun := time.perf_counter()) < until:
            question = next(questions)
            answer = await ask(self.session, target.base_url, Chat(target.model, question.fields))
            line = {"id": question.id, "start_s": round(begun - self.zero, 3), "outcome": answer.outcome}
            self.finished.append(line if answer.e2e_s is None else {**line, "e2e_s": round(answer.e2e_s, 6)})
            if answer.outcome == "connect_failed":
                self.watch.refused()
            if not answer.complete:
                await asyncio.sleep(PAUSE_AFTER_FAILURE_S)

    async def _keep_until(self, until: float) -> None:
        total = math.ceil(self.plan.duration_s)
        while (left := until - time.perf_counter()) > 0:
            self.progress(self.side.target.label, total - math.ceil(left), total)
            if time.perf_counter() - self.kept_at > KEEP_EVERY_S:
                self._keep()
            await asyncio.sleep(min(SHOW_EVERY_S, left))
        self.progress(self.side.target.label, total, total)

    def _keep(self) -> None:
        """Keep what was finished since the last time; what is under way belongs to the next part."""
        now = time.perf_counter()
        part = {"seconds": {"candidate": round(now - self.kept_at, 6)}, "records": {"candidate": self.finished}}
        self.journal.append({**part, "seen": self.watch.take()})
        self.finished, self.kept_at = [], now


def _questions(plan: Plan, last: int) -> Iterator[Question]:
    """Without end; ids count on from `last`, over interruptions too."""
    prompts = generated_prompts(_PROMPTS, plan.random_seed)
    number = itertools.count(last + 1)
    while True:
        for question in as_questions(prompts, plan.max_tokens):
            yield Question(f"{next(number):06}", question.fields)
