"""What of a request goes into a line. A field that is not named here is not kept, and nothing of the head is."""

import hashlib
import hmac
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from pulumi_infercrane.router.recording.policy import SCHEMA
from pulumi_infercrane.router.recording.redactors import Redactor

MAX_DEPTH = 24
"""Requests that nest deeper are not recorded: not every reader takes them."""
MAX_INTEGER = 2**53 - 1

_KEPT = (
    "model",
    "messages",
    "stream",
    "max_tokens",
    "max_completion_tokens",
    "temperature",
    "top_p",
    "stop",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "response_format",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
)
_FORMATS = ("text", "json_object", "json_schema")
_FIXED = frozenset({"role", "type", "id", "tool_call_id"})
"""Words of the protocol and links between messages: redacted, the request would be another one."""
_FIXED_IN_FUNCTION = frozenset({"name"})

Contents = Callable[[bytes], Mapping[str, Any]]
"""A request body → the fields of its line.

Raises ValueError for a body that cannot be recorded.
"""


def line_of(request_id: str, at: str, path: str, fields: Mapping[str, Any]) -> bytes:
    """One line of a recording."""
    return orjson.dumps({"schema": SCHEMA, "id": request_id, "at": at, "path": path, **fields}) + b"\n"


def content(redact: Redactor) -> Contents:
    """The request itself: the fields that say what was asked and how, texts of messages redacted."""

    def contents(body: bytes) -> Mapping[str, Any]:
        document = _parsed(body)
        kept = {name: document[name] for name in _KEPT if name in document}
        for name in ("messages", "stop"):
            if name in kept:
                kept[name] = _redacted(kept[name], redact, _FIXED)
        return {"body": kept}

    return contents


def metadata(key: bytes) -> Contents:
    """Lengths, flags and a hash that tells repeats; with a key nobody keeps, it cannot be looked up by guessing."""

    def contents(body: bytes) -> Mapping[str, Any]:
        document = _parsed(body)
        messages = document.get("messages")
        found = {
            "model": document["model"],
            "body_bytes": len(body),
            "messages": len(messages) if isinstance(messages, list) else 0,
            "text_chars": _characters(messages),
            "messages_hmac": hmac.new(key, orjson.dumps(messages), hashlib.sha256).hexdigest(),
            "stream": document.get("stream") is True,
            "tools": len(document["tools"]) if isinstance(document.get("tools"), list) else 0,
            "response_format": _format(document.get("response_format")),
            "max_tokens": _number(document.get("max_completion_tokens", document.get("max_tokens"))),
            "temperature": _number(document.get("temperature")),
        }
        return {"metadata": {name: value for name, value in found.items() if value is not None}}

    return contents


def _parsed(body: bytes) -> dict[str, Any]:
    document = orjson.loads(body)
    if not isinstance(document, dict):
        raise ValueError("not an object")  # noqa: TRY004 - one error for every body that is not recorded
    _check(document, MAX_DEPTH)
    return document


def _check(value: Any, depth: int) -> None:
    if depth == 0:
        raise ValueError("nested too deep")
    if isinstance(value, int) and abs(value) > MAX_INTEGER:
        raise ValueError("an integer that not every reader takes")
    for child in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _check(child, depth - 1)


def _redacted(value: Any, redact: Redactor, fixed: frozenset[str]) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list):
        return [_redacted(child, redact, fixed) for child in value]
    if isinstance(value, dict):
        return {
            key: child
            if key in fixed and isinstance(child, str)
            else _redacted(child, redact, _FIXED_IN_FUNCTION if key == "function" else _FIXED)
            for key, child in value.items()
        }
    return value


def _characters(value: Any) -> int:
    """Of the texts in messages, whatever their form."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(_characters(value[key]) for key in ("content", "text", "tool_calls", "arguments") if key in value)
    return sum(_characters(child) for child in value) if isinstance(value, list) else 0


def _format(value: Any) -> str | None:
    kind = value.get("type") if isinstance(value, dict) else None
    return kind if kind in _FORMATS else None


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
