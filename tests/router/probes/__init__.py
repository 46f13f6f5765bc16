"""What a data plane in front of model servers must not lose, asked from outside of any of them.

A module per subject, found by its name; each has `PROBES: tuple[Probe, ...]`. `test_probes.py` asks our router,
`make probes` also its peers.
"""

import asyncio
import importlib
import json
import pkgutil
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field

from tests.router.client import Client
from tests.router.client import chat as chat_request
from tests.router.upstream import Call, Script, Upstream, answer, whole

LIMIT_S = 20
HEALTHY = {"object": "list", "status": "healthy", "data": [{"id": "chat", "object": "model", "owned_by": "x"}]}


@dataclass(frozen=True)
class Probe:
    """`holds` says what must be; `ask` returns how it is not, in a few words, or nothing."""

    name: str
    holds: str
    ask: Callable[["Stage"], Awaitable[str]] = field(repr=False)


@dataclass
class Stage:
    """A data plane at `port` and the model server behind it. `headers` are what it wants of every client."""

    port: int
    upstream: Upstream
    headers: tuple[str, ...] = ()

    async def client(self) -> Client:
        return await Client.connect(self.port)

    def chat(self, stream: bool = True, *headers: str, **more: object) -> bytes:
        """A request that every peer takes."""
        more = {"messages": [{"role": "user", "content": "hi"}], **more}
        return chat_request(stream, *self.headers, *headers, **more)

    def plays(self, script: Script) -> None:
        """What the model server does from now on; questions for its health are answered and not counted."""
        upstream = self.upstream

        async def played(call: Call) -> None:
            if not call.head.startswith(b"POST"):
                upstream.calls.remove(call)
                head, _, body = whole(HEALTHY).partition(b"\r\n\r\n")
                await call.send(head + b"\r\n\r\n", b"" if call.head.startswith(b"HEAD") else body)
                return
            try:
                await script(call)
            except json.JSONDecodeError:
                call.writer.close()  # what came is no request of ours

        upstream.script = played

    def reset(self) -> None:
        """As at the beginning."""
        self.plays(answer)
        self.upstream.reads_body = True
        self.upstream.calls.clear()


def all_probes() -> Iterator[Probe]:
    """Every probe, by the name of its module."""
    for module in sorted(found.name for found in pkgutil.iter_modules(__path__)):
        yield from importlib.import_module(f"{__name__}.{module}").PROBES


async def verdict(probe: Probe, stage: Stage) -> str:
    """How the data plane fails the probe; empty when it holds."""
    stage.reset()
    try:
        async with asyncio.timeout(LIMIT_S):
            return await probe.ask(stage)
    except TimeoutError:
        return "no answer in time"
    except (ConnectionError, asyncio.IncompleteReadError, ValueError):
        return "the connection ends without an answer"
