"""R4: killed a hundred times in the middle of changes, a router has what it acknowledged, or the call after it too."""

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest

from pulumi_infercrane.router.control.client import ControlClient, Flip, Grant, RouterUnreachable
from pulumi_infercrane.router.errors import ServiceUnknown
from tests.router.client import Client, chat
from tests.router.conftest import R1, R2, RouterProcess, declared, revision
from tests.router.serving.test_server import put_and_flip
from tests.router.upstream import Upstream

pytestmark = pytest.mark.processes

KILLS = 100
OTHER = declared({R1: revision("r1", "http://127.0.0.1:1")}, aliases=["other"])


class Changes:
    """One kind of change: what was acknowledged, and what the call under way would make of it."""

    def __init__(self, begin: Any) -> None:
        self.known = self.next = begin
        self.acknowledged = 0

    async def until_killed(self, process: RouterProcess) -> None:
        async with process.client() as control:
            while True:
                try:
                    await self.change(control)
                except RouterUnreachable:
                    return
                self.known = self.next
                self.acknowledged += 1

    async def compare(self, control: ControlClient) -> None:
        found = await self.found(control)
        assert found in (self.known, self.next)
        self.known = self.next = found

    async def change(self, control: ControlClient) -> None:
        """Say in `next` what there will be, and call."""
        raise NotImplementedError

    async def found(self, control: ControlClient) -> Any:
        raise NotImplementedError


class Flips(Changes):
    """Generation and active revision."""

    async def change(self, control: ControlClient) -> None:
        generation, active = self.known
        self.next = (generation + 1, R2 if active == R1 else R1)
        await control.flip("chat", Flip(active, self.next[1], f"decision-{generation}"))

    async def found(self, control: ControlClient) -> tuple[int, str]:
        live = await control.get("chat")
        return int(live.generation), live.active


class KeyLife(Changes):
    """Whether the one key is valid; `secret` is the last one, if it was told."""

    secret = ""

    async def compare(self, control: ControlClient) -> None:
        was_valid = self.known
        await super().compare(control)
        if self.known and not was_valid:
            self.secret = ""

    async def change(self, control: ControlClient) -> None:
        self.next = not self.known
        if self.next:
            self.secret = (await control.new_key(Grant("ci", ("chat",)))).secret
        else:
            await control.revoke_key("ci")

    async def found(self, control: ControlClient) -> bool:
        return any("revoked_at" not in key for key in (await control.keys()).keys)


class Deletions(Changes):
    """The generation that a service has, or had last, and whether it is there."""

    async def change(self, control: ControlClient) -> None:
        generation, there = self.known
        if there:
            self.next = (generation, False)
            await control.delete("other")
        else:
            self.next = (generation + 1, True)
            changed = await control.put("other", OTHER, if_match=None)
            assert int(changed.generation) == generation + 1

    async def found(self, control: ControlClient) -> tuple[int, bool]:
        try:
            return int((await control.get("other")).generation), True
        except ServiceUnknown:
            return self.known[0], False


async def answer(process: RouterProcess, secret: str) -> tuple[int, str | None]:
    async with await Client.connect(process.port) as client:
        found = await client.ask(chat(True, f"Authorization: Bearer {secret}"))
        return found.status, found.header("x-infercrane-revision")


async def test_R4_killed_a_hundred_times(start_process: Callable[..., RouterProcess], upstream: Upstream) -> None:
    dice = random.Random(20261130)
    flips, key, deletions = Flips((2, R1)), KeyLife(False), Deletions((0, False))
    changes = (flips, key, deletions)
    process = start_process().wait_ready()
    await put_and_flip(process.control, upstream)
    for number in range(KILLS):
        changing = [asyncio.create_task(one.until_killed(process)) for one in changes]
        await asyncio.sleep(dice.uniform(0.001, 0.06))
        process.kill()
        await asyncio.gather(*changing)
        if number % 5 == 0:
            starting = start_process()
            await asyncio.sleep(dice.uniform(0.05, 0.3))
            starting.kill()
        process = start_process().wait_ready()
        async with process.client() as control:
            for one in changes:
                await one.compare(control)
        if key.secret:
            expected = (200, flips.known[1]) if key.known else (401, None)
            assert await answer(process, key.secret) == expected
    assert min(one.acknowledged for one in changes) > KILLS
