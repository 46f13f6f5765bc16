"""Asks a server whether it serves. A healthy server may be unable to answer, so it has to generate once."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import httpx

PROBE_TIMEOUT_S = 5.0
GENERATION_TIMEOUT_S = 60.0
FINISHED = ("stop", "length", "tool_calls", "function_call", "content_filter")

Stage = Literal["health", "models", "generation"]


@dataclass(frozen=True)
class Probe:
    """What to ask. Without a model name only the health path is asked."""

    base_url: str
    health_path: str
    socket: str = ""
    """Path of a unix socket; empty = TCP."""
    model: str = ""
    models_path: str = ""
    generation_path: str = ""


@dataclass(frozen=True)
class NotReady:
    """Why a server does not serve yet, and how far it got."""

    stage: Stage
    detail: str


async def problem(probe: Probe) -> NotReady | None:
    """`None` when health, model list and one generation of at most four tokens are as they should be."""
    transport = httpx.AsyncHTTPTransport(uds=probe.socket or None)
    async with httpx.AsyncClient(
        base_url=probe.base_url, transport=transport, trust_env=False, timeout=PROBE_TIMEOUT_S
    ) as client:
        stage: Stage = "health"
        try:
            detail = await _health(client, probe)
            if probe.model and not detail:
                stage, detail = "models", await _models(client, probe)
            if probe.model and not detail:
                stage, detail = "generation", await _generation(client, probe)
        except httpx.HTTPError as error:
            detail = f"{type(error).__name__}: {error}"
    return NotReady(stage, detail) if detail else None


async def _health(client: httpx.AsyncClient, probe: Probe) -> str:
    answer = await client.get(probe.health_path)
    return "" if answer.status_code == httpx.codes.OK else _described(probe.health_path, answer)


async def _models(client: httpx.AsyncClient, probe: Probe) -> str:
    answer = await client.get(probe.models_path)
    if answer.status_code != httpx.codes.OK:
        return _described(probe.models_path, answer)
    data = _json(answer).get("data")
    served = [entry.get("id") for entry in (data if isinstance(data, list) else []) if isinstance(entry, dict)]
    return "" if probe.model in served else f"serves {served}, not {probe.model!r}"


async def _generation(client: httpx.AsyncClient, probe: Probe) -> str:
    request = {
        "model": probe.model,
        "messages": [{"role": "user", "content": "Hello"}],
        "max_tokens": 4,
        "temperature": 0,
    }
    answer = await client.post(probe.generation_path, json=request, timeout=GENERATION_TIMEOUT_S)
    if answer.status_code != httpx.codes.OK:
        return _described(probe.generation_path, answer)
    choices = _json(answer).get("choices")
    first = choices[0] if isinstance(choices, list) and choices else {}
    reason = first.get("finish_reason") if isinstance(first, dict) else None
    return "" if reason in FINISHED else f"answer did not finish: finish_reason {reason!r}"


def _json(answer: httpx.Response) -> Mapping[str, Any]:
    try:
        content = answer.json()
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


def _described(path: str, answer: httpx.Response) -> str:
    return f"{path} answers {answer.status_code}: {answer.text[:300]}"
