"""However many ask whether the router is ready, its upstreams are dialled once in a while."""

import asyncio

from pulumi_infercrane.router.routing.readiness import SHARED_S, Readiness
from tests.router.conftest import R2, Running, revision
from tests.router.upstream import Upstream


async def test_who_asks_at_the_same_time_or_soon_after_shares_an_answer(router: Running, upstream: Upstream) -> None:
    now = 100.0
    readiness, routes = Readiness(lambda: now), router.parts.live.routes
    assert await asyncio.gather(*(readiness.reasons(routes) for _ in range(50))) == [[]] * 50
    now += SHARED_S / 2
    assert await readiness.reasons(routes) == []
    assert upstream.connections == 1
    now += SHARED_S / 2
    assert await readiness.reasons(routes) == []
    assert upstream.connections == 2


async def test_other_routes_have_an_answer_of_their_own(router: Running, upstream: Upstream) -> None:
    readiness = Readiness(lambda: 100.0)
    assert await readiness.reasons(router.parts.live.routes) == []
    await router.put({R2: revision("r2", upstream.url)}, "other", aliases=["other"])
    assert await readiness.reasons(router.parts.live.routes) == ["service other has no active revision yet"]


async def test_who_leaves_takes_the_answer_from_nobody(router: Running, upstream: Upstream) -> None:
    readiness, routes = Readiness(lambda: 100.0), router.parts.live.routes
    impatient, patient = (asyncio.create_task(readiness.reasons(routes)) for _ in range(2))
    await asyncio.sleep(0)
    impatient.cancel()
    assert await patient == []
    assert upstream.connections == 1


async def test_an_answer_is_nobodys_to_change(router: Running) -> None:
    readiness, routes = Readiness(lambda: 100.0), router.parts.live.routes
    (await readiness.reasons(routes)).append("no worker process serves")
    assert await readiness.reasons(routes) == []
