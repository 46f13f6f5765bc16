"""Drills on real parts: a supervised model server restarts, and a real router rolls back and drains under streams."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from pulumi_infercrane.components.supervision.observing import observe
from pulumi_infercrane.components.supervision.readiness import Probe, problem
from pulumi_infercrane.components.supervision.restarting import restart
from pulumi_infercrane.components.supervision.starting import Specification, ensure
from pulumi_infercrane.components.supervision.stopping import stop
from pulumi_infercrane.guard import load_evidence
from pulumi_infercrane.guard.collect import Target, find
from pulumi_infercrane.guard.collect.drills import rehearse
from pulumi_infercrane.guard.collect.handles import Handles, Rehearsal
from pulumi_infercrane.guard.collect.stream import open_session
from pulumi_infercrane.stacks.rehearsal import rehearsal
from tests.guard.collect.scripted import target_of
from tests.runtimes.llama import LlamaServer
from tests.stacks.test_rehearsal import table_of

pytestmark = pytest.mark.runtime
Start = Callable[..., LlamaServer]
READY_S = 30.0
LONG = 900
"""Tokens; a slot of the servers below has room for 1024."""


@pytest.fixture
def supervised(runtimes: dict[str, Any], tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """Folder and address of a model server under a supervisor of ours."""
    server, model = runtimes["server"]["path"], runtimes["models"]["tiny-a"]["path"]
    place = ("-m", model, "--alias", "chat", "--host", "127.0.0.1", "--port", "{port}")
    argv = (server, *place, "-c", "1024", "--parallel", "2", "--threads", "1", "--metrics", "--fit", "off")
    specification = Specification("r2", tmp_path, argv, {}, "127.0.0.1", 0, 5, 2, 60, 1)
    url = f"http://127.0.0.1:{ensure(specification)[0].port}"
    try:
        asyncio.run(serving(url))
        yield specification.folder, url
    finally:
        stop(specification.folder)


async def serving(url: str) -> None:
    """Return when the server generates; `ensure` only says that its process has been started."""
    probe = Probe(url, "/health", model="chat", models_path="/v1/models", generation_path="/v1/chat/completions")
    async with asyncio.timeout(READY_S):
        while await problem(probe):
            await asyncio.sleep(0.05)


@pytest.fixture
def sides(llama_server: Start) -> tuple[Target, Target]:
    servers = [llama_server("tiny-a", parallel=8, context=8192) for _ in range(2)]
    candidate, baseline = (target_of(name, one.url) for name, one in zip(("r2", "r1"), servers, strict=True))
    return candidate, baseline


def route(sides: tuple[Target, Target], drain_s: float) -> AbstractAsyncContextManager[Rehearsal]:
    candidate, baseline = (side.revision_digest for side in sides)
    return rehearsal(table_of(*sides), candidate=candidate, baseline=baseline, drain_s=drain_s)


async def test_streams_outlast_a_rollback_and_a_drain(sides: tuple[Target, Target]) -> None:
    async with open_session() as session, route(sides, 30.0) as drill:
        found = await rehearse(session, *sides, drill, streams=8, tokens=LONG)
    assert 0 < found.rollback_s < 5
    assert 1 <= found.streams_completed == found.streams_open <= 8


async def test_cold_starts_of_a_supervised_server(supervised: tuple[Path, str], tmp_path: Path) -> None:
    folder, url = supervised
    pids = [observe(folder).pid]

    async def restarted() -> float:
        started = await asyncio.to_thread(restart, folder)
        pids.append(observe(folder).pid)
        return time.perf_counter() - (time.time() - started)

    collector = find("reliability")
    given = {"duration_s": 1.0, "concurrency": 2, "max_tokens": 8, "cold_starts": 3}
    plan = collector.plan({**given, "handles": Handles(restart=restarted)})
    candidate = target_of("r2", url)
    await collector.collect(candidate, candidate, out=tmp_path / "out", plan=plan, progress=lambda *_: None)
    (item,) = load_evidence(tmp_path / "out").items
    assert item.problem is None
    assert len(item.record.cold_starts_s) == 3
    assert all(0.01 < seconds < 10 for seconds in item.record.cold_starts_s)
    assert (item.record.crashes, item.record.restarts) == (0, 0)
    assert len(set(pids)) == 4
    assert observe(folder).restarts == 0
