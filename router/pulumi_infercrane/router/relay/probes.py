"""Asks replicas how they are, at the path their kind of server has for it."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType

from pulumi_infercrane.router.routes import Binding, Endpoint

PATHS: Mapping[str, bytes] = MappingProxyType(
    {
        "vllm": b"/health",
        "sglang": b"/health",
        "llama.cpp": b"/health",
        "tgi": b"/health",
        "ollama": b"/api/version",
        "tensorrt-llm": b"/health",
        "triton": b"/v2/health/ready",
    }
)
"""Dialect → path; servers of every other dialect are asked for their models."""
ANY_PATH = b"/v1/models"
MAX_PROBES = 32
"""At a time; what is due beyond that waits for the next sweep."""
MAX_LINE = 1024

_log = logging.getLogger(__name__)


class Prober:
    """Its probes are few, small and short; a replica has one at a time."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._running: set[asyncio.Task[None]] = set()

    def probe_due(self, binding: Binding, now: float) -> None:
        """Start the probes of a revision whose time has come."""
        health = binding.replicas.health
        if health is None or not health.probe_s:
            return
        for endpoint in binding.endpoints:
            if endpoint.replica.probe_due <= now and not endpoint.draining and len(self._running) < MAX_PROBES:
                endpoint.replica.probe_due = now + health.probe_s + health.probe_timeout_s
                task = asyncio.get_running_loop().create_task(self._probe(binding, endpoint, health.probe_timeout_s))
                self._running.add(task)
                task.add_done_callback(self._running.discard)

    async def _probe(self, binding: Binding, endpoint: Endpoint, timeout_s: float) -> None:
        began = self._clock()
        well = await answers_well(endpoint, PATHS.get(binding.dialect, ANY_PATH), timeout_s)
        endpoint.replica.probe_due -= timeout_s - min(self._clock() - began, timeout_s)
        binding.replicas.probed(endpoint, well=well)


async def answers_well(endpoint: Endpoint, path: bytes, timeout_s: float) -> bool:
    """Whether a replica answers in time, with a status below 500. Redirects are not followed, the body is not read."""
    message = b"GET %b%b HTTP/1.1\r\nHost: %b\r\n%bConnection: close\r\n\r\n"
    try:
        async with asyncio.timeout(timeout_s):
            line = await _first_line(
                endpoint, message % (endpoint.prefix, path, endpoint.host_header, endpoint.authorization)
            )
    except (OSError, TimeoutError, ValueError) as error:
        _log.debug("probe of %s: %s", endpoint.id, error)
        return False
    status = line.split(b" ", 2)[1:2]
    return line.startswith(b"HTTP/1.") and bool(status) and status[0].isdigit() and 200 <= int(status[0]) < 500


async def _first_line(endpoint: Endpoint, message: bytes) -> bytes:
    address, tls = endpoint.pool.address, endpoint.pool.tls
    reader, writer = await asyncio.open_connection(address.host, address.port, ssl=tls, limit=MAX_LINE)
    try:
        writer.write(message)
        return await reader.readline()
    finally:
        with suppress(OSError):
            writer.transport.abort()
