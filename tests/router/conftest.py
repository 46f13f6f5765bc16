"""The router in this process or in one of its own, and a model server that does as told."""

import asyncio
import contextlib
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import uvloop

from pulumi_infercrane.router.addresses import ListenAddress
from pulumi_infercrane.router.clients.keys import Grant
from pulumi_infercrane.router.control.client import ControlClient
from pulumi_infercrane.router.counting.traffic import Traffic
from pulumi_infercrane.router.protocol.observer import Outcome
from pulumi_infercrane.router.relay.relay import ConnectionTimers
from pulumi_infercrane.router.serving.server import Router, Settings, build
from pulumi_infercrane.router.tables.calls import Flip, Weights
from pulumi_infercrane.router.tables.schema import read_declared
from pulumi_infercrane.router.tables.table import Declared
from tests.router.client import Client
from tests.router.upstream import Upstream

R1, R2, R3 = ("sha256:" + digit * 64 for digit in "123")

TIMERS = ConnectionTimers(linger_s=0.3, sweep_s=0.02)


def pytest_asyncio_loop_factories(
    config: object, item: object
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The router runs on uvloop; so do its tests."""
    return {"uvloop": uvloop.new_event_loop}


def revision(label: str, *urls: str, model: str = "org/model", **more: Any) -> dict[str, Any]:
    """A revision as in a PUT."""
    upstreams = [{"id": f"{label}-{number}", "url": url} for number, url in enumerate(urls)]
    return {"label": label, "upstream_model": model, "dialect": "vllm", "upstreams": upstreams, **more}


def declared(revisions: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """The body of a PUT."""
    protocols = ["chat", "completions", "embeddings", "responses"]
    return {"aliases": ["chat"], "protocols": protocols, "revisions": dict(revisions), **more}


@dataclass
class Running:
    """A router in this process."""

    parts: Router
    port: int

    async def put(self, revisions: Mapping[str, Any], service: str = "chat", **more: Any) -> None:
        table = self.parts.live.tables.get(service)
        generation = None if table is None else str(table.generation)
        await self.parts.live.put(service, self.read(revisions, **more), generation)

    async def flip(self, to: str, service: str = "chat", decision: str = "") -> None:
        active = self.parts.live.table(service).active
        await self.parts.live.flip(service, Flip(active, to, decision or f"decision-{to}"))

    async def weigh(self, weights: Mapping[str, int], service: str = "chat", decision: str = "") -> None:
        active = self.parts.live.table(service).active
        name = decision or f"weights-{sorted(weights.items())}"
        await self.parts.live.weigh(service, Weights(active, weights, name))

    def read(self, revisions: Mapping[str, Any], **more: Any) -> Declared:
        return read_declared(declared(revisions, **more))

    def traffic(self, digest: str = R1) -> Traffic:
        return self.parts.relay.traffic.of("chat", digest)

    def outcomes(self, digest: str = R1) -> dict[Outcome, int]:
        return dict(self.traffic(digest).outcomes)

    async def outcome(self, digest: str = R1) -> Outcome:
        """The one outcome booked for a revision, once it is."""
        await eventually(lambda: bool(self.outcomes(digest)))
        (found,) = self.traffic(digest).outcomes.elements()
        return found

    async def key(self, name: str = "ci", **more: Any) -> str:
        """The secret of a new key for the service `chat`, as it goes into an Authorization header."""
        _, secret = await self.parts.keys.issue(Grant(name, more.pop("services", ("chat",)), **more))
        return secret

    def reasons(self) -> dict[str, int]:
        """Refused requests by reason."""
        return {reason: count for (_, reason), count in self.parts.relay.traffic.refused.items()}

    async def client(self) -> Client:
        return await Client.connect(self.port)


async def eventually(condition: Callable[[], bool], timeout_s: float = 5) -> None:
    """Wait for a condition that the loop brings about."""
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.002)


@pytest.fixture
async def start_upstream() -> AsyncIterator[Callable[[], Awaitable[Upstream]]]:
    """A factory of model servers."""
    started: list[Upstream] = []

    async def start() -> Upstream:
        started.append(Upstream())
        await started[-1].start()
        return started[-1]

    yield start
    for upstream in started:
        await upstream.stop()


@pytest.fixture
async def upstream(start_upstream: Callable[[], Awaitable[Upstream]]) -> Upstream:
    return await start_upstream()


StartRouter = Callable[..., Awaitable[Running]]


@pytest.fixture
async def start_router(tmp_path: Path) -> AsyncIterator[StartRouter]:
    """A factory of routers in this process: `await start_router(environment={…}, head_s=0.1)`."""
    closing = contextlib.AsyncExitStack()

    async def start(
        environment: Mapping[str, str] | None = None,
        limits: Any = None,
        max_connections: int | None = None,
        record: Any = None,
        require_keys: bool = False,
        access_log: str = "",
        trusted_proxies: Any = None,
        **timers: float,
    ) -> Running:
        settings = Settings(ListenAddress("127.0.0.1", 0), tmp_path / "c", tmp_path, timers=replace(TIMERS, **timers))
        settings = replace(settings, record=record, require_keys=require_keys, access_log=access_log)
        settings = replace(settings, trusted_proxies=trusted_proxies)
        if limits is not None:
            settings = replace(settings, limits=limits)
        loop = asyncio.get_running_loop()
        parts: list[Router] = []
        server = await loop.create_server(lambda: parts[0].relay.connection(), "127.0.0.1", 0, backlog=4096)
        port = server.sockets[0].getsockname()[1]
        parts.append(build(settings, environment or {}, ListenAddress("127.0.0.1", port)))
        if max_connections is not None:
            parts[0].relay.max_connections = max_connections
        timers_of_it = [parts[0].relay.sweep_forever(), parts[0].live.windows.keep()]
        tasks = [loop.create_task(one) for one in timers_of_it]
        closing.push_async_callback(_stop, server, parts[0], tasks)
        return Running(parts[0], port)

    yield start
    await closing.aclose()


async def _stop(server: asyncio.Server, parts: Router, tasks: list[asyncio.Task[None]]) -> None:
    server.close()
    for task in tasks:
        task.cancel()
    parts.relay.cut()
    if parts.relay.recorder is not None:
        parts.relay.recorder.close()
    if parts.relay.telemetry is not None:
        parts.relay.telemetry.close()
    for pool in parts.relay.compiler.pools:
        pool.retire()
    await asyncio.sleep(0.01)


@pytest.fixture
async def router(start_router: StartRouter, upstream: Upstream) -> Running:
    """Serves revision R1 as `chat`."""
    running = await start_router()
    await running.put({R1: revision("r1", upstream.url)})
    await running.flip(R1)
    return running


@pytest.fixture
async def client(router: Running) -> AsyncIterator[Client]:
    async with await router.client() as connected:
        yield connected


class RouterProcess:
    """`infercrane router serve` as a process of its own."""

    def __init__(
        self,
        folder: Path,
        listen: str = "127.0.0.1:0",
        control: str = "c.sock",
        state: str = "state",
        record: str | None = None,
        options: tuple[str, ...] = (),
    ) -> None:
        self.control = folder / control
        self.state = folder / state
        serve = [sys.executable, "-m", "pulumi_infercrane", "router", "serve", "--listen", listen]
        serve += ["--control", str(self.control), "--state", str(self.state), "--drain", "10"]
        serve += ["--record", str(folder / record)] if record else []
        serve += options
        self.process = subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def wait_ready(self) -> "RouterProcess":
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("router: listening on "), (line, self.process.communicate())
        port = line.split(",")[0].rpartition(":")[2]
        self.port = int(port) if port.isdecimal() else 0
        return self

    def client(self) -> ControlClient:
        return ControlClient(self.control)

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    async def ended(self) -> tuple[int, str]:
        """Exit code and standard error."""
        _, errors = await asyncio.to_thread(self.process.communicate, timeout=15)
        return self.process.returncode, errors


@pytest.fixture
def start_process(tmp_path: Path) -> Iterator[Callable[..., RouterProcess]]:
    """A factory of router processes below one folder; all are gone at the end."""
    started: list[RouterProcess] = []

    def start(**settings: Any) -> RouterProcess:
        started.append(RouterProcess(tmp_path, **settings))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
        one.process.communicate() if one.process.returncode is None else None
        for pipe in (one.process.stdout, one.process.stderr):
            if pipe is not None:
                pipe.close()
