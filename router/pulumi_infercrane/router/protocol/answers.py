"""What the JSON documents of model servers say about an answer: content, end, error, usage.

Servers differ in nearly every detail, so everything is read tolerantly: a value of an unexpected type says nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_CONTENT = ("content", "reasoning_content", "reasoning", "tool_calls")
_ENDS = {"response.completed": "completed", "response.incomplete": "incomplete"}
_FAILURES = ("response.failed", "error")


@dataclass(frozen=True)
class Usage:
    """Tokens as the server counted them."""

    prompt: int
    completion: int


@dataclass(frozen=True)
class Reading:
    """What one document says."""

    error: bool = False
    content: bool = False
    text: str = ""
    """The single text delta of a plain event, else empty."""
    choices: frozenset[int] = frozenset()
    finished: Mapping[int, str] = field(default_factory=dict)
    usage: Usage | None = None


def read(document: Mapping[str, Any]) -> Reading:
    """One event's data, or the body of an answer that is not streamed."""
    if document.get("error") or document.get("type") in _FAILURES:
        return Reading(error=True)
    if str(document.get("type", "")).startswith("response."):
        return _read_response_event(document)
    choices = [choice for choice in _list(document.get("choices")) if isinstance(choice, dict)]
    deltas = [_delta(choice) for choice in choices]
    return Reading(
        content=any(delta.get(name) for delta in deltas for name in _CONTENT),
        text=_plain_text(deltas),
        choices=frozenset(_index(choice) for choice in choices),
        finished={
            _index(choice): choice["finish_reason"]
            for choice in choices
            if isinstance(choice.get("finish_reason"), str)
        },
        usage=_usage(document.get("usage")),
    )


def _read_response_event(document: Mapping[str, Any]) -> Reading:
    kind = str(document["type"])
    delta = document.get("delta") if kind.endswith(".delta") else None
    response = document.get("response")
    return Reading(
        content=bool(delta),
        choices=frozenset({0}),
        finished={0: _ENDS[kind]} if kind in _ENDS else {},
        usage=_usage(response.get("usage")) if isinstance(response, dict) else None,
    )


def _delta(choice: Mapping[str, Any]) -> Mapping[str, Any]:
    """Chat streams have `delta`, whole chat answers `message`, completions `text`."""
    for name in ("delta", "message"):
        if isinstance(choice.get(name), dict):
            return dict(choice[name])
    return {"content": choice.get("text")}


def _plain_text(deltas: list[Mapping[str, Any]]) -> str:
    texts = [value for delta in deltas for name in _CONTENT if (value := delta.get(name))]
    return texts[0] if len(texts) == 1 and isinstance(texts[0], str) else ""


def _usage(value: object) -> Usage | None:
    if not isinstance(value, dict):
        return None
    prompt = value.get("prompt_tokens", value.get("input_tokens"))
    completion = value.get("completion_tokens", value.get("output_tokens", 0))
    if type(prompt) is not int or type(completion) is not int:
        return None
    return Usage(prompt, completion)


def _index(choice: Mapping[str, Any]) -> int:
    index = choice.get("index", 0)
    return index if type(index) is int else 0


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
