"""What the JSON documents of model servers say about an answer: content, end, error, usage.

Servers differ in nearly every detail, so everything is read tolerantly: a value of an unexpected type says nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_CONTENT = ("content", "reasoning_content", "reasoning", "tool_calls")
_ENDS = {"response.completed": "completed", "response.incomplete": "incomplete"}
_FAILURES = ("response.failed", "error")
_MOST_TOKENS = 1 << 24
"""More than a server can have counted: a body of the largest size has so many bytes."""


@dataclass(slots=True)
class Usage:
    """Tokens as the server counted them."""

    prompt: int
    completion: int


@dataclass(slots=True)
class Reading:
    """What one document says."""

    error: bool = False
    content: bool = False
    text: str = ""
    """The text of an event that has one choice with nothing but text, else empty."""
    choices: Sequence[int] = ()
    finished: Sequence[tuple[int, str]] = ()
    """Choices that ended, and why."""
    usage: Usage | None = None


def read(document: Mapping[str, Any]) -> Reading:
    """One event's data, or the body of an answer that is not streamed."""
    kind = document.get("type")
    if document.get("error") or kind in _FAILURES:
        return Reading(error=True)
    if isinstance(kind, str) and kind.startswith("response."):
        return _read_response_event(document, kind)
    choices = document.get("choices")
    return _read_choices(choices if isinstance(choices, list) else [], _usage(document.get("usage")))


def _read_choices(choices: list[Any], usage: Usage | None) -> Reading:
    indices, finished, contents = [], [], []
    for choice in choices:
        if not isinstance(choice, dict):
            continue
        index = choice.get("index")
        index = index if type(index) is int else 0
        indices.append(index)
        delta = _delta(choice)
        for name in _CONTENT:
            if content := delta.get(name):
                contents.append(content)  # noqa: PERF401 - a comprehension is a call of its own in CPython 3.11
        reason = choice.get("finish_reason")
        if isinstance(reason, str):
            finished.append((index, reason))
    plain = len(contents) == 1 and not finished and isinstance(contents[0], str)
    return Reading(False, bool(contents), contents[0] if plain else "", indices, finished, usage)


def _read_response_event(document: Mapping[str, Any], kind: str) -> Reading:
    delta = document.get("delta") if kind.endswith(".delta") else None
    response = document.get("response")
    return Reading(
        content=bool(delta),
        choices=(0,),
        finished=((0, _ENDS[kind]),) if kind in _ENDS else (),
        usage=_usage(response.get("usage")) if isinstance(response, dict) else None,
    )


def _delta(choice: Mapping[str, Any]) -> Mapping[str, Any]:
    """Chat streams have `delta`, whole chat answers `message`, completions `text`."""
    delta = choice.get("delta") or choice.get("message")
    return delta if isinstance(delta, dict) else {"content": choice.get("text")}


def _usage(value: object) -> Usage | None:
    if not isinstance(value, dict):
        return None
    prompt = value.get("prompt_tokens", value.get("input_tokens"))
    completion = value.get("completion_tokens", value.get("output_tokens", 0))
    if type(prompt) is not int or type(completion) is not int:
        return None
    if not (0 <= prompt <= _MOST_TOKENS and 0 <= completion <= _MOST_TOKENS):
        return None
    return Usage(prompt, completion)
