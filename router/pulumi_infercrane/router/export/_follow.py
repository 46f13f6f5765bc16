"""The generations of one service as a router hands them out."""

import asyncio
from collections.abc import AsyncIterator

from pulumi_infercrane.router.control.client import ControlClient
from pulumi_infercrane.router.errors import RouterUnreachable
from pulumi_infercrane.router.tables.schema import read_table
from pulumi_infercrane.router.tables.table import RouteTable

POLL_S = 0.2


async def current(client: ControlClient, service: str) -> RouteTable:
    """What is served now. Raises RouterUnreachable, ServiceUnknown."""
    return read_table((await client.get(service)).table)


async def generations(client: ControlClient, service: str, poll_s: float = POLL_S) -> AsyncIterator[RouteTable]:
    """Every generation that is seen, once each, for ever. A router that is away is waited for."""
    seen = 0
    while True:
        try:
            table = await current(client, service)
        except RouterUnreachable:
            pass
        else:
            if table.generation != seen:
                seen = table.generation
                yield table
        await asyncio.sleep(poll_s)
