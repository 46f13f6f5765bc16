"""What a server says about itself, before and after a run: hints that are checked against the declared subject."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import aiohttp

from pulumi_infercrane.guard.collect.stream import Chat, ask, prompt
from pulumi_infercrane.guard.collect.target import CollectError, Target

SECONDS = aiohttp.ClientTimeout(total=10.0)

# Cumulative tokens found in the prefix cache, and tokens looked up: names by server, the first pair present counts.
_PREFIX_COUNTERS = (
    (("vllm:prefix_cache_hits_total",), ("vllm:prefix_cache_queries_total",)),
    (
        ("llamacpp:prompt_tokens_cached_total",),
        ("llamacpp:prompt_tokens_total", "llamacpp:prompt_tokens_cached_total"),
    ),
)
_PROMPT_TOKENS = ("vllm:prompt_tokens_total", "llamacpp:prompt_tokens_total", "sglang:prompt_tokens_total")
_STARTED = "process_start_time_seconds"
_SAMPLE = re.compile(r"^([A-Za-z_:][\w:]*)(?:\{.*\})? (\S+)", re.MULTILINE)


async def require_serving(session: aiohttp.ClientSession, target: Target) -> None:
    """Make sure that there is something to measure, and that it is the right thing.

    Raises:
        CollectError: when nothing listens there, or another model is served.
    """
    try:
        models = await _models(session, target.base_url)
    except (aiohttp.ClientError, TimeoutError) as error:
        raise CollectError(f"{target.name} cannot be reached ({type(error).__name__}): is it running?") from error
    if models and target.model not in models:
        raise CollectError(f"{target.name} serves {', '.join(models)}, not {target.model!r}")


async def probe(session: aiohttp.ClientSession, target: Target) -> dict[str, Any]:
    """The `probes.before` or `probes.after` block; what the server does not tell is left out."""
    found: dict[str, Any] = {}
    try:
        found["models"] = await _models(session, target.base_url)
        found["prefix_cache"] = _prefix_cache(await _metrics(session, target.base_url))
    except (aiohttp.ClientError, TimeoutError):
        pass
    found["version"] = (await ask(session, target.base_url, Chat(target.model, prompt("Hello", 1)))).fingerprint
    return {name: value for name, value in found.items() if value}


@dataclass(frozen=True)
class Sign:
    """What a replica shows of itself from outside at one moment."""

    listens: bool
    """It took the connection and answered, whatever it said."""
    ready: bool
    started: float | None = None
    """When its process began, by its own clock; None when it does not say."""
    counted: int | None = None
    """Tokens of prompts so far: a count that fell began anew."""

    @property
    def tells(self) -> bool:
        """Whether it shows anything by which a new process could be known."""
        return self.started is not None or self.counted is not None


async def look(session: aiohttp.ClientSession, target: Target) -> Sign:
    """One look at a replica, cheap enough for one a second."""
    try:
        ready = await _ready(session, target.base_url)
        samples = _SAMPLE.findall(await _metrics(session, target.base_url))
    except (aiohttp.ClientError, TimeoutError) as error:
        return Sign(listens=isinstance(error, TimeoutError), ready=False)
    began = next((value for name, value in samples if name == _STARTED), None)
    counts = (_sum(samples, (name,)) for name in _PROMPT_TOKENS)
    return Sign(True, ready, None if began is None else float(began), next((n for n in counts if n is not None), None))


async def _ready(session: aiohttp.ClientSession, base_url: str) -> bool:
    """By `/health`, which knows an engine that died under its server; a server without one lists its models."""
    async with session.get(f"{base_url}/health", timeout=SECONDS) as response:
        if response.status != 404:
            return response.status == 200
    async with session.get(f"{base_url}/v1/models", timeout=SECONDS) as response:
        return response.status == 200


async def _models(session: aiohttp.ClientSession, base_url: str) -> list[str]:
    async with session.get(f"{base_url}/v1/models", timeout=SECONDS) as response:
        if response.status != 200:
            return []
        try:
            listed = await response.json(content_type=None)
            return sorted(str(entry["id"]) for entry in listed["data"])
        except (ValueError, KeyError, TypeError):
            return []


async def _metrics(session: aiohttp.ClientSession, base_url: str) -> str:
    async with session.get(f"{base_url}/metrics", timeout=SECONDS) as response:
        return await response.text(errors="replace") if response.status == 200 else ""


def _prefix_cache(metrics: str) -> dict[str, int]:
    samples = _SAMPLE.findall(metrics)
    for hits, queries in _PREFIX_COUNTERS:
        found, asked = _sum(samples, hits), _sum(samples, queries)
        if found is not None and asked is not None:
            return {"hits": found, "queries": asked}
    return {}


def _sum(samples: Iterable[tuple[str, str]], names: tuple[str, ...]) -> int | None:
    """Sum over all labels of all names; None when a name is absent: a missing counter is unknown, not 0."""
    wanted = [(name, value) for name, value in samples if name in names]
    if {name for name, _ in wanted} != set(names):
        return None
    return int(sum(float(value) for _, value in wanted))
