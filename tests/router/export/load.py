"""Streams and small requests that never stop asking, and what became of each of them."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import monotonic

import aiohttp

from tests.router.upstream import Call, Upstream, delta, whole

PATH = "/v1/chat/completions"


def speak(upstream: Upstream, name: str, events: int = 25, pause_s: float = 0.02) -> None:
    """Let an upstream say its name in every event."""

    async def script(call: Call) -> None:
        if not call.document.get("stream"):
            await call.send(whole({"model": name, "choices": [{"index": 0, "finish_reason": "stop"}]}))
            return
        await call.stream(delta(name))
        for _ in range(events):
            await asyncio.sleep(pause_s)
            event = delta(name)
            await call.send(b"%x\r\n%b\r\n" % (len(event), event))
        await call.end_stream()

    upstream.script = script


@dataclass(frozen=True)
class Fetched:
    """One request: when it was sent and over, the revision its header names, and whose words came."""

    began: float
    ended: float
    stream: bool
    revision: str
    names: frozenset[str]


@dataclass
class Load:
    """Everything that was asked, and every way in which it failed."""

    done: list[Fetched] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    stopping: bool = False

    def spanning(self, moment: float) -> list[Fetched]:
        """Streams that were open then."""
        return [one for one in self.done if one.stream and one.began < moment < one.ended]

    def asked_after(self, moment: float) -> list[Fetched]:
        return [one for one in self.done if one.began > moment]


@asynccontextmanager
async def load(
    port: int, streams: int = 16, small: int = 4, headers: Mapping[str, str] | None = None
) -> AsyncIterator[Load]:
    """Closed loops of both kinds; when the block ends they finish what they began."""
    found = Load()
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}", connector=connector, headers=headers) as session:
        kinds = [True] * streams + [False] * small
        loops = [asyncio.create_task(_ask_on(session, found, stream=kind)) for kind in kinds]
        yield found
        found.stopping = True
        await asyncio.gather(*loops)


async def _ask_on(session: aiohttp.ClientSession, found: Load, *, stream: bool) -> None:
    while not found.stopping:
        try:
            found.done.append(await fetch(session, stream=stream))
        except (aiohttp.ClientError, AssertionError) as error:
            found.failed.append(f"{type(error).__name__}: {error}")
        if not stream:
            await asyncio.sleep(0.005)


async def fetch(session: aiohttp.ClientSession, *, stream: bool, **headers: str) -> Fetched:
    """One request, whole."""
    began = monotonic()
    asked = {"model": "chat", "stream": stream, "messages": []}
    async with session.post(PATH, json=asked, headers=headers) as answer:
        body = await answer.text()
        assert answer.status == 200, (answer.status, body[:200])
        revision = answer.headers["X-InferCrane-Revision"]
    assert not stream or body.endswith("data: [DONE]\n\n"), body[-200:]
    names = frozenset(name for name in ("r1", "r2", "r3") if f'"{name}"' in body)
    return Fetched(began, monotonic(), stream, revision, names)
