"""A second router with two scripted replicas behind it: the real flip, the real drain, and nothing left of it."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pulumi_infercrane.guard.collect import Target
from pulumi_infercrane.guard.collect.drills import rehearse
from pulumi_infercrane.guard.collect.stream import open_session
from pulumi_infercrane.router.errors import RouterError
from pulumi_infercrane.stacks.rehearsal import rehearsal
from tests.guard.collect.scripted import ScriptedServer, Step, delta, finish, good, target_of


def table_of(*sides: Target) -> dict[str, Any]:
    """As the router of a stack tells it."""
    revisions = {
        side.revision_digest: {
            "label": side.label,
            "state": "serving",
            "upstream_model": side.model,
            "dialect": "llama.cpp",
            "upstreams": [{"id": f"{side.label}-0", "url": side.base_url}],
        }
        for side in sides
    }
    live = {"generation": 7, "active": sides[-1].revision_digest, "decision_id": "sha256:x", "pins": []}
    declared = {"service": "chat", "aliases": ["chat"], "protocols": ["chat"], "timers": {}, "revisions": revisions}
    return live | declared


async def drill(seconds: float, drain_s: float, **changes: Any) -> Any:
    """Three streams that go on for so long when the drain has begun, on servers that answer everything else at once."""
    draining: list[bool] = []

    def stream() -> Iterator[Step]:
        yield delta(content="a")
        while not draining:
            yield 0.01
        yield seconds
        yield finish()

    servers = [ScriptedServer(script=lambda _, body: good("ok") if body["max_tokens"] == 1 else stream()) for _ in "12"]
    for server in servers:
        await server.start()
    candidate, baseline = (target_of(name, one.url) for name, one in zip(("r2", "r1"), servers, strict=True))
    table = table_of(candidate, baseline)
    table["revisions"][candidate.revision_digest] |= changes
    digests = {"candidate": candidate.revision_digest, "baseline": baseline.revision_digest}
    try:
        async with open_session() as session, rehearsal(table, **digests, drain_s=drain_s) as route:

            async def drain() -> None:
                draining.append(True)
                await route.drain()

            watched = replace(route, drain=drain)
            return await rehearse(session, candidate, baseline, watched, streams=3, tokens=64)
    finally:
        for server in servers:
            await server.stop()


async def test_streams_that_end_in_time_are_not_cut() -> None:
    found = await drill(seconds=0.1, drain_s=30.0)
    assert (found.streams_open, found.streams_completed) == (3, 3)
    assert 0 < found.rollback_s < 5


async def test_streams_that_take_longer_than_the_drain_are_cut() -> None:
    found = await drill(seconds=30.0, drain_s=0.0)
    assert (found.streams_open, found.streams_completed) == (3, 0)


async def test_a_candidate_that_is_draining_in_the_other_router_serves_in_this_one() -> None:
    found = await drill(0.0, 30.0, state="draining", drain_deadline="2026-11-30T12:00:00Z")
    assert found.streams_completed == 3


async def test_the_state_of_the_router_goes_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    await drill(seconds=0.0, drain_s=5.0)
    assert list(tmp_path.iterdir()) == []


async def test_a_table_that_makes_no_sense_is_refused_and_leaves_no_listener() -> None:
    before = len(asyncio.all_tasks())
    with pytest.raises(RouterError):
        await drill(0.1, 1.0, upstreams=[])
    assert len(asyncio.all_tasks()) == before
