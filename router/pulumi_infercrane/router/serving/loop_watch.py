"""How late the event loop comes to what it was asked for: while it is late, every stream stands still."""

import asyncio
from time import monotonic

from pulumi_infercrane.router.histograms import Histogram

TICK_S = 0.1


async def watch_loop(stalls: Histogram) -> None:
    """Ask for a moment, book how much later it came, and again. Never returns."""
    while True:
        due = monotonic() + TICK_S
        await asyncio.sleep(TICK_S)
        stalls.add(max(0.0, monotonic() - due))
