"""What a look at the metrics costs when 1,000 services of four revisions are served and nobody asks for them.

`held` is the longest time the loop was kept from everything else, by a ticker beside the rendering.

.venv/bin/python -m benchmarks.metrics
"""

import asyncio
from dataclasses import dataclass, replace
from time import monotonic

import uvloop

from benchmarks.rows import Row, publish
from pulumi_infercrane.router.counting.traffic import TrafficBook
from pulumi_infercrane.router.routing.routes import Compiler, Routes
from pulumi_infercrane.router.tables.schema import read_declared
from pulumi_infercrane.router.tables.table import RouteTable
from pulumi_infercrane.router.telemetry.metrics import in_slices, pieces

SERVICES, REVISIONS, LOOKS = 1_000, 4, 5
TICK_S = 0.001
MOST_HELD_MS = 20


@dataclass(frozen=True)
class Look:
    """One text: its bytes, how long it took, and how long the loop was held at most."""

    size: int
    took_s: float
    held_s: float


def main() -> None:
    looks = uvloop.run(_looks())
    best = min(looks, key=lambda look: look.held_s)
    publish(
        "metrics",
        [
            Row("/metrics of 1,000 x 4 without traffic, MB", best.size / 1e6),
            Row("/metrics of 1,000 x 4 without traffic, ms", min(look.took_s for look in looks) * 1000),
            Row("/metrics of 1,000 x 4: longest hold of the loop, ms", best.held_s * 1000, goal=MOST_HELD_MS),
        ],
    )


async def _looks() -> list[Look]:
    book = TrafficBook(monotonic)
    routes = _routes(book)
    return [await _look(routes, book) for _ in range(LOOKS)]


async def _look(routes: Routes, book: TrafficBook) -> Look:
    held = [0.0]
    ticking = asyncio.create_task(_tick(held))
    await asyncio.sleep(10 * TICK_S)
    held[0], began = 0.0, monotonic()
    text = await in_slices(pieces(routes, book))
    took_s = monotonic() - began
    await asyncio.sleep(2 * TICK_S)
    ticking.cancel()
    return Look(len(text), took_s, held[0])


async def _tick(held: list[float]) -> None:
    while True:
        before = monotonic()
        await asyncio.sleep(TICK_S)
        held[0] = max(held[0], monotonic() - before - TICK_S)


def _routes(book: TrafficBook) -> Routes:
    digests = [f"sha256:{number:064x}" for number in range(REVISIONS)]
    revisions = {
        digest: {
            "label": f"r{number}",
            "upstream_model": "org/model",
            "dialect": "vllm",
            "upstreams": [{"id": f"r{number}-0", "url": "http://127.0.0.1:9"}],
        }
        for number, digest in enumerate(digests)
    }
    declared = read_declared({"aliases": ["any"], "protocols": ["chat"], "revisions": revisions})
    tables = {
        name: RouteTable(name, 1, replace(declared, aliases=(name,)), active=digests[0])
        for name in (f"service-{number}" for number in range(SERVICES))
    }
    return Compiler(lambda _reference: None, book, 1).compile(tables)


if __name__ == "__main__":
    main()
