"""Fixtures of the collectors' tests."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.guard.collect.scripted import ScriptedServer, StartScripted


@pytest.fixture
async def scripted() -> AsyncIterator[StartScripted]:
    """A factory of running servers: `await scripted(script=…, models=…, metrics=…, status=…)`."""
    running: list[ScriptedServer] = []

    async def start(**settings: Any) -> ScriptedServer:
        server = ScriptedServer(**settings)
        await server.start()
        running.append(server)
        return server

    yield start
    for server in running:
        await server.stop()
