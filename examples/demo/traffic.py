"""The application: streams chat completions through the stable address, all the time, and counts every answer."""

import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import aiohttp

PROMPTS = ("Tell me about the sea.", "Name three animals.", "What is bread made of?", "Describe a mountain.")
ANSWER_TOKENS = 48
WORKERS = 2


@dataclass
class Stream:
    """One request: when it ran, which revision answered, and how it ended."""

    started: float
    ended: float = 0.0
    revision: str = ""
    outcome: str = "open"
    detail: str = ""
    """What was seen last, when it did not complete."""

    @property
    def trouble(self) -> str:
        return f"{self.outcome} after {self.ended - self.started:.1f} s: {self.detail[-400:]}"


@dataclass
class Traffic:
    """Two workers in a thread of their own. Nothing is retried: what fails is counted as failed.

    They take turns, one stream after the other. While `overlapping` is set, one starts when the other is halfway
    through its answer, so that at every moment at least one stream is open.
    """

    url: str
    model: str
    overlapping: bool = False
    streams: list[Stream] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._broken: Exception | None = None
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Let open streams finish, then end."""
        self._stop.set()
        self._thread.join()
        if self._broken:
            raise self._broken

    def report(self) -> dict[str, object]:
        """Every stream that was begun; call it after `stop`."""
        outcomes = Counter(stream.outcome for stream in self.streams)
        return {
            "requests": len(self.streams),
            "failed": outcomes["failed"] + outcomes["open"],
            "truncated": outcomes["truncated"],
            "revisions_seen": dict(Counter(stream.revision for stream in self.streams)),
            "trouble": [
                {
                    "outcome": stream.outcome,
                    "seconds": round(stream.ended - stream.started, 3),
                    "detail": stream.detail[-400:],
                }
                for stream in self.streams
                if stream.outcome != "complete"
            ],
        }

    def open_across(self, before: str, after: str) -> int:
        """Streams of `before` that were open when the first request was answered by `after`, and completed."""
        first = min((s.started for s in self.streams if s.revision == after), default=None)
        if first is None:
            return 0
        return sum(
            s.revision == before and s.started < first < s.ended and s.outcome == "complete" for s in self.streams
        )

    def _serve(self) -> None:
        try:
            asyncio.run(self._run())
        except Exception as error:  # noqa: BLE001 - whatever ends the client must end the demo
            self._broken = error

    async def _run(self) -> None:
        timeout = aiohttp.ClientTimeout(total=120)
        async with aiohttp.ClientSession(timeout=timeout, trust_env=False) as session:
            turn = asyncio.Semaphore(1)
            await asyncio.gather(*(self._worker(session, turn) for _ in range(WORKERS)))

    async def _worker(self, session: aiohttp.ClientSession, turn: asyncio.Semaphore) -> None:
        """Take a turn, ask, and give the turn away."""
        while not self._stop.is_set():
            await turn.acquire()
            give_away = Once(turn.release)
            stream = Stream(time.monotonic())
            self.streams.append(stream)
            try:
                await self._ask(session, stream, PROMPTS[len(self.streams) % len(PROMPTS)], give_away)
            except (aiohttp.ClientError, TimeoutError) as error:
                stream.detail += f" {error!r}"
                stream.outcome = "truncated" if stream.revision else "failed"
            stream.ended = time.monotonic()
            give_away()

    async def _ask(self, session: aiohttp.ClientSession, stream: Stream, prompt: str, halfway: "Once") -> None:
        body = {
            "model": self.model,
            "stream": True,
            "max_tokens": ANSWER_TOKENS,
            "temperature": 0,
            "messages": [{"role": "user", "content": prompt}],
        }
        async with session.post(f"{self.url}/chat/completions", json=body) as answer:
            stream.revision = answer.headers.get("X-InferCrane-Revision", "")
            if answer.status != 200:
                stream.outcome = "failed"
                return
            finished, events = False, 0
            async for line in answer.content:
                stream.detail = line.decode(errors="replace").strip() or stream.detail
                finished = finished or _finish_reason(line) is not None
                events += line.startswith(b"data: ")
                if self.overlapping and events > ANSWER_TOKENS // 2:
                    halfway()
            stream.outcome = "complete" if finished else "truncated"


class Once:
    """Calls something the first time only."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call: Callable[[], None] | None = call

    def __call__(self) -> None:
        call, self._call = self._call, None
        if call:
            call()


def _finish_reason(line: bytes) -> str | None:
    if not line.startswith(b"data: {"):
        return None
    choices = json.loads(line[6:]).get("choices") or [{}]
    reason: str | None = choices[0].get("finish_reason")
    return reason
