"""A Route with settings against a real router, with the calls in the order of the engine."""

from typing import Any

import pytest

from pulumi_infercrane.components.plugin.resource import (
    CheckRequest,
    CreateRequest,
    DiffRequest,
    DiffResult,
    ReadRequest,
    UpdateRequest,
)
from pulumi_infercrane.components.plugin.resources.route import Route
from pulumi_infercrane.router.control.client import ControlClient, LiveService
from tests.components.plugin.releasing import URN, Run, route_inputs
from tests.components.plugin.releasing import router as router
from tests.components.plugin.releasing import run as run
from tests.components.plugin.releasing import short as short


class Routed:
    """What the engine keeps of a Route between its calls."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.inputs: dict[str, Any] = {}
        self.outputs: dict[str, Any] = {}

    async def check(self, **settings: Any) -> dict[str, Any]:
        news = route_inputs(self.run.control, self.run.evidence.baseline, self.run.evidence.candidate) | settings
        checked = await Route().check(CheckRequest(self.run.context, URN, "chat", self.inputs, self.outputs, news))
        assert not checked.failures, checked.failures
        return dict(checked.inputs)

    async def diff(self, news: dict[str, Any]) -> DiffResult:
        return await Route().diff(DiffRequest(self.run.context, "route/chat", URN, self.inputs, self.outputs, news))

    async def up(self, **settings: Any) -> list[str]:
        """Names of what changed, in place."""
        if self.inputs:
            await self.refresh()
        news = await self.check(**settings)
        difference = await self.diff(news)
        assert not difference.replaces
        if not self.inputs:
            made = await Route().create(CreateRequest(self.run.context, URN, "chat", news, preview=False, timeout_s=0))
            self.inputs, self.outputs = news, dict(made.outputs)
        elif difference.changed:
            request = UpdateRequest(
                self.run.context, "route/chat", URN, self.inputs, self.outputs, news, preview=False, timeout_s=0
            )
            self.inputs, self.outputs = news, dict((await Route().update(request)).outputs)
        return list(difference.changed)

    async def refresh(self) -> None:
        read = await Route().read(ReadRequest(self.run.context, "route/chat", URN, self.inputs, self.outputs))
        self.inputs, self.outputs = dict(read.inputs), dict(read.outputs)

    async def live(self) -> LiveService:
        async with ControlClient(self.run.control) as client:
            return await client.get("chat")

    async def by_hand(self, **settings: Any) -> None:
        live = await self.live()
        names = ("aliases", "protocols", "revisions", "limits", "pins", "mirror")
        body = {name: live.table[name] for name in names if name in live.table} | settings
        async with ControlClient(self.run.control) as client:
            await client.put("chat", body, if_match=live.generation)


@pytest.fixture
def routed(run: Run) -> Routed:
    return Routed(run)


async def test_a_setting_is_changed_in_place_and_then_nothing_differs(routed: Routed) -> None:
    await routed.up(limits={"max_inflight": 2})
    assert await routed.up(limits={"max_inflight": 2}) == []
    assert await routed.up(limits={"max_inflight": 3}) == ["limits"]
    assert (await routed.live()).table["limits"]["max_inflight"] == 3
    assert await routed.up() == ["limits"]
    assert "limits" not in (await routed.live()).table


async def test_what_was_set_by_hand_is_shown_where_it_is_declared_and_kept_where_not(routed: Routed) -> None:
    await routed.up(limits={"max_inflight": 2})
    await routed.by_hand(limits={"max_inflight": 9}, pinning=True)
    await routed.refresh()
    assert routed.inputs["limits"]["max_inflight"] == routed.outputs["limits"]["max_inflight"] == 9
    assert await routed.up(limits={"max_inflight": 2}) == ["limits"]
    table = (await routed.live()).table
    assert (table["limits"]["max_inflight"], table["pinning"]) == (2, True)


async def test_a_release_asks_nothing_new_because_of_a_setting(run: Run, routed: Routed) -> None:
    await run.create()
    decided = run.outputs["decisionId"]
    await routed.up(limits={"max_inflight": 2}, pins=[run.evidence.candidate])
    await run.refresh()
    assert await run.changed(await run.check()) == []
    assert run.outputs["decisionId"] == decided
