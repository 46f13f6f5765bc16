"""One streamed chat completion, timed and classified.

An answer is complete only when a finish reason other than `abort` or `error` was seen and no error event came;
neither HTTP 200 nor `[DONE]` proves it. Times are taken when bytes arrive.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp

MAX_LINE_BYTES = 1024 * 1024
CONNECT_SECONDS = 10.0
REVISION_HEADER = "X-InferCrane-Revision"
"""In which a router says whose answer it is."""

_GENERATED = ("content", "reasoning", "reasoning_content", "tool_calls")
_UNFINISHED = ("abort", "error")


def prompt(text: str, max_tokens: int) -> dict[str, Any]:
    """The fields of a question: greedy, and explicit about its length."""
    return {"messages": [{"role": "user", "content": text}], "max_tokens": max_tokens, "temperature": 0}


@dataclass(frozen=True)
class Chat:
    """A request to a model; whatever `fields` say, the answer is streamed with its token counts."""

    model: str
    fields: Mapping[str, Any]

    @property
    def body(self) -> dict[str, Any]:
        """Only fields of the OpenAI schema: some servers refuse others."""
        return {**self.fields, "model": self.model, "stream": True, "stream_options": {"include_usage": True}}


@dataclass(frozen=True)
class Patience:
    """How long a stream may be silent: until its first event (queue and prefill), and between two events.

    Comments are no events: a server that only pings is silent.
    """

    first_s: float = 120.0
    gap_s: float = 30.0


@dataclass(frozen=True)
class Answer:
    """What came back. Latencies in seconds from the start of the request; None unless the answer is complete."""

    outcome: str
    """complete, aborted, error_event, truncated, http_error, idle_timeout or connect_failed."""
    text: str = ""
    ttft_s: float | None = None
    """To the first generated text; to the finish when the answer is empty."""
    e2e_s: float | None = None
    """To the finish reason."""
    in_tokens: int | None = None
    cached_tokens: int | None = None
    out_tokens: int = 0
    counted_by_server: bool = False
    """Whether `out_tokens` is the server's count; else it is the number of events with text."""
    finish_reason: str | None = None
    tool_calls: tuple[tuple[str, str], ...] = ()
    """Name and arguments of each call, as they were written."""
    error: str | None = None
    fingerprint: str | None = None
    revision: str | None = None
    """Digest of the revision that answered, where a router says it."""

    @property
    def complete(self) -> bool:
        return self.outcome == "complete"

    @property
    def token_source(self) -> str:
        return "usage" if self.counted_by_server else "events"

    @property
    def tpot_s(self) -> float | None:
        """Seconds per token after the first; None when there is no second one or it came with the first."""
        if self.ttft_s is None or self.e2e_s is None or self.out_tokens < 2 or self.e2e_s <= self.ttft_s:
            return None
        return (self.e2e_s - self.ttft_s) / (self.out_tokens - 1)


def open_session() -> aiohttp.ClientSession:
    """A client without a pool limit, proxy, compression or total time limit: nothing that would be measured too.

    Every request has a connection of its own: llama-server closes the one of a stream although it offered to keep it,
    and the next request on it would look like a failure of the server.
    """
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, force_close=True),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
        headers={"Accept-Encoding": "identity"},
        trust_env=False,
    )


async def ask(
    session: aiohttp.ClientSession,
    base_url: str,
    chat: Chat,
    patience: Patience | None = None,
    *,
    begun: Callable[[], None] | None = None,
) -> Answer:
    """Send one request and read its stream to the end. Every failure of the server is an outcome, never an error.

    `begun` is called once, when the first generated text has arrived.
    """
    patience = patience or Patience()
    reading = _Reading(time.perf_counter(), begun)
    clock = asyncio.get_running_loop().time
    try:
        async with (
            asyncio.timeout(patience.first_s) as silence,
            session.post(f"{base_url}/v1/chat/completions", json=chat.body) as response,
        ):
            if response.status != 200:
                return Answer("http_error", error=str(response.status))
            reading.revision = response.headers.get(REVISION_HEADER)
            async for payload in _data_lines(response.content):
                silence.reschedule(clock() + patience.gap_s)
                reading.take(_mapping(json.loads(payload)), time.perf_counter())
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
        return Answer("connect_failed", error=type(error).__name__)
    except TimeoutError:
        return reading.ended("idle_timeout", "silent")
    except aiohttp.ClientError as error:
        return reading.ended("truncated", type(error).__name__)
    except ValueError:
        return reading.ended("error_event", "unreadable_event")
    return reading.ended("truncated", "no_finish_reason")


async def _data_lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """The payload of each data line as soon as the line is whole; comments and `[DONE]` are left out."""
    rest = b""
    async for chunk in content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > MAX_LINE_BYTES:
            raise ValueError("an event without an end")
        for line in lines:
            payload = line.removeprefix(b"data:").strip()
            if line.startswith(b"data:") and payload != b"[DONE]":
                yield payload


@dataclass
class _Reading:
    """A stream so far."""

    started: float
    begun: Callable[[], None] | None = None
    revision: str | None = None
    first_at: float | None = None
    finished_at: float | None = None
    texts: list[str] = field(default_factory=list)
    events: int = 0
    usage: dict[str, Any] = field(default_factory=dict)
    calls: dict[int, list[str]] = field(default_factory=dict)
    """By index: name and arguments so far."""
    finish_reason: str | None = None
    error: str | None = None
    fingerprint: str | None = None

    def take(self, event: dict[str, Any], at: float) -> None:
        """Note what an event of the stream brought; `at` is when it arrived."""
        if event.get("error") is not None:
            self.error = _error_class(event["error"])
        self.fingerprint = self.fingerprint or _text_or_none(event.get("system_fingerprint"))
        self.usage = _mapping(event.get("usage")) or self.usage
        choices = event.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            self._take_choice(_mapping(choice), at)

    def _take_choice(self, choice: dict[str, Any], at: float) -> None:
        delta = _mapping(choice.get("delta"))
        if any(delta.get(name) for name in _GENERATED):
            if self.first_at is None:
                self._begin(at)
            self.events += 1
            self.texts.append(_text_or_none(delta.get("content")) or "")
            self._take_calls(delta.get("tool_calls"))
        if reason := _text_or_none(choice.get("finish_reason")):
            self.finish_reason = reason
            self.finished_at = at

    def _begin(self, at: float) -> None:
        self.first_at = at
        if self.begun is not None:
            self.begun()

    def _take_calls(self, pieces: Any) -> None:
        """A call comes whole or in pieces; those of one call have one index."""
        for position, piece in enumerate(pieces if isinstance(pieces, list) else ()):
            function = _mapping(_mapping(piece).get("function"))
            if not function:
                continue
            index = _count(piece.get("index"))
            call = self.calls.setdefault(position if index is None else index, ["", ""])
            for place, name in enumerate(("name", "arguments")):
                call[place] += _text_or_none(function.get(name)) or ""

    def ended(self, otherwise: str, why: str) -> Answer:
        """The answer after the end of the body; `otherwise` and `why` hold when nothing in it decides."""
        if self.error:
            return Answer("error_event", error=self.error)
        if self.finish_reason in _UNFINISHED:
            return Answer("aborted", finish_reason=self.finish_reason, error=self.finish_reason)
        if self.finished_at is None:
            return Answer(otherwise, error=why)
        return self._complete(self.finished_at)

    def _complete(self, finished_at: float) -> Answer:
        counted = _count(self.usage.get("completion_tokens"))
        return Answer(
            "complete",
            text="".join(self.texts),
            ttft_s=(self.first_at or finished_at) - self.started,
            e2e_s=finished_at - self.started,
            in_tokens=_count(self.usage.get("prompt_tokens")),
            cached_tokens=_count(_mapping(self.usage.get("prompt_tokens_details")).get("cached_tokens")),
            out_tokens=self.events if counted is None else counted,
            counted_by_server=counted is not None,
            finish_reason=self.finish_reason,
            tool_calls=tuple((name, arguments) for _, (name, arguments) in sorted(self.calls.items())),
            fingerprint=self.fingerprint,
            revision=self.revision,
        )


def _error_class(error: Any) -> str:
    """A word for an error event: its type or code, never its text, which may quote the prompt."""
    known = _mapping(error)
    word = known.get("type") or known.get("code") or "error"
    return str(word)[:60]


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
