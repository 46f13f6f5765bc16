"""Asks replicas how they are, at the path their kind of server has for it."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import cast

from pulumi_infercrane.router.routing.routes import Binding, Endpoint
from pulumi_infercrane.router.tables.table import Health

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
MAX_PROBES = 256
"""At a time; what is due beyond that waits for the next sweep."""
MAX_OF_SERVICE = 32
"""So that replicas of one service that say nothing keep no other service from being probed."""
MAX_LINE = 1024

_log = logging.getLogger(__name__)


class Prober:
    """Its probes are few, small and short; a replica has one at a time."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._running: set[asyncio.Task[None]] = set()
        self._of_service: Counter[str] = Counter()

    def probe_due(self, bindings: Iterable[Binding], now: float) -> None:
        """Start the probes whose time has come; those first that have waited longest."""
        due = [
            (endpoint.replica.probe_due, binding, health, endpoint)
            for binding in bindings
            if (health := binding.replicas.health) is not None and health.probe_s
            for endpoint in binding.endpoints
            if endpoint.replica.probe_due <= now and not endpoint.draining
        ]
        for _, binding, health, endpoint in sorted(due, key=lambda one: one[0]):
            if len(self._running) < MAX_PROBES and self._of_service[binding.traffic.service] < MAX_OF_SERVICE:
                self._start(binding, health, endpoint, now)

    def _start(self, binding: Binding, health: Health, endpoint: Endpoint, now: float) -> None:
        endpoint.replica.probe_due = now + health.probe_s + health.probe_timeout_s
        task = asyncio.get_running_loop().create_task(self._probe(binding, endpoint, health.probe_timeout_s))
        self._running.add(task)
        self._of_service[binding.traffic.service] += 1
        task.add_done_callback(lambda task: self._ended(task, binding.traffic.service))

    def _ended(self, task: asyncio.Task[None], service: str) -> None:
        self._running.discard(task)
        self._of_service[service] -= 1
        if not self._of_service[service]:
            del self._of_service[service]

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
            message %= endpoint.prefix, path, endpoint.host_header, endpoint.authorization
            line = await _first_line(endpoint, message, timeout_s)
    except (OSError, ValueError) as error:
        _log.debug("probe of %s: %s", endpoint.id, error)
        return False
    status = line.split(b" ", 2)[1:2]
    return line.startswith(b"HTTP/1.") and bool(status) and status[0].isdigit() and 200 <= int(status[0]) < 500


async def _first_line(endpoint: Endpoint, message: bytes, timeout_s: float) -> bytes:
    reader = asyncio.StreamReader(limit=MAX_LINE)
    stream = await endpoint.pool.dialer.open(endpoint.pool.address, lambda: _Stream(reader), timeout_s)
    try:
        stream.transport.write(message)
        return await reader.readline()
    finally:
        stream.transport.abort()


class _Stream(asyncio.StreamReaderProtocol):
    """Keeps the transport, which it has no public name for."""

    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.transport = cast("asyncio.Transport", transport)
