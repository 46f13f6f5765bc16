"""A second router for a drill: the real one, on loopback, with two revisions of a service behind it and no users.

What serves is not asked for anything and learns nothing of it: the tables of this router end with the drill.
"""

import asyncio
import os
import socket
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pulumi_infercrane.guard.collect.handles import Rehearsal
from pulumi_infercrane.router.addresses import ListenAddress
from pulumi_infercrane.router.control.live import LiveRoutes
from pulumi_infercrane.router.serving.server import Settings, build
from pulumi_infercrane.router.tables.calls import Flip
from pulumi_infercrane.router.tables.schema import read_declared

DRAIN_POLL_S = 0.02
DRAIN_MARGIN_S = 1.0


@asynccontextmanager
async def rehearsal(
    table: Mapping[str, Any], baseline: str, candidate: str, drain_s: float
) -> AsyncIterator[Rehearsal]:
    """A route like that of `table` with `baseline` active; streams of a drained candidate are cut after `drain_s`.

    Raises:
        RouterError: the table has no such revisions, or none that can be reached from here.
    """
    service = table["service"]
    with TemporaryDirectory(prefix="infercrane-rehearsal-") as state:
        async with _router(Path(state)) as (base_url, routes):
            await routes.put(service, read_declared(_declared(table, (baseline, candidate))), None)
            await routes.flip(service, Flip("", baseline, "rehearsal: begin"))

            async def promote() -> None:
                await routes.flip(service, Flip(baseline, candidate, "rehearsal: promote"))

            async def roll_back() -> None:
                await routes.flip(service, Flip(candidate, baseline, "rehearsal: roll back"))

            yield Rehearsal(base_url, promote, roll_back, lambda: _drain(routes, service, candidate, drain_s))


def _declared(table: Mapping[str, Any], revisions: tuple[str, str]) -> dict[str, Any]:
    kept = {digest: table["revisions"][digest] for digest in revisions}
    serving = {
        digest: {name: value for name, value in revision.items() if name != "drain_deadline"} | {"state": "serving"}
        for digest, revision in kept.items()
    }
    return {**{name: table[name] for name in ("aliases", "protocols", "timers")}, "revisions": serving}


@asynccontextmanager
async def _router(state: Path) -> AsyncIterator[tuple[str, LiveRoutes]]:
    """A router on a port of its own, with its address; it goes by this process's event loop and ends with the block."""
    loop = asyncio.get_running_loop()
    listening = socket.create_server(("127.0.0.1", 0))
    address = ListenAddress(*listening.getsockname())
    parts = build(Settings(address, state / "unused.sock", state), os.environ, address)
    listener = await loop.create_server(parts.relay.connection, sock=listening)
    sweeping = loop.create_task(parts.relay.sweep_forever())
    try:
        yield f"http://{address}", parts.live
    finally:
        listener.close()
        sweeping.cancel()
        parts.relay.cut()
        for pool in parts.relay.compiler.pools:
            pool.retire()
        await asyncio.gather(sweeping, return_exceptions=True)


async def _drain(routes: LiveRoutes, service: str, revision: str, drain_s: float) -> None:
    """Returns when nothing is in flight, or when the router had its time to cut what still is."""
    await routes.drain(service, revision, drain_s)
    give_up = time.monotonic() + drain_s + DRAIN_MARGIN_S
    while not (await routes.drain_state(service, revision)).done and time.monotonic() < give_up:  # noqa: ASYNC110
        await asyncio.sleep(DRAIN_POLL_S)
