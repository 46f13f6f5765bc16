"""The model name in a request body: found strictly, replaced in place. No other byte changes."""

import json
from typing import Any

from pulumi_infercrane.router.errors import RequestRefused
from pulumi_infercrane.router.protocol.json_text import find_model, members, read_json

_WATCHED = ("model", "stream")


def requested_model(body: bytes) -> str:
    """The value of the top-level `model`.

    Raises:
        RequestRefused: no JSON object, no string `model`, or a duplicate that two readers could resolve differently.
    """
    try:
        document = read_json(body)
    except (ValueError, RecursionError):
        raise _invalid("the body is not valid JSON") from None
    model = document.get("model") if isinstance(document, dict) else None
    if not isinstance(model, str):
        raise _invalid("the body must be a JSON object with a string field 'model'")
    if not _plainly_unique(body):
        _refuse_duplicates(body)
    return model


def with_model(body: bytes, model: str, replacement: str) -> bytes:
    """The body with the value of the top-level `model` replaced. `body` has passed `requested_model`."""
    if model == replacement:
        return body
    field = find_model(body) if _plainly_unique(body) else None
    start, end = field.span(1) if field else _value_span(body)
    return body[:start] + json.dumps(replacement, ensure_ascii=False).encode() + body[end:]


def _plainly_unique(body: bytes) -> bool:
    """Cheap proof that no watched key occurs twice: once as bytes, and no escape that could spell it again."""
    return b"\\u" not in body and body.count(b'"model"') <= 1 and body.count(b'"stream"') <= 1


def _refuse_duplicates(body: bytes) -> None:
    def pairs(items: list[tuple[str, Any]]) -> list[str]:
        return [key for key, _ in items]

    try:
        keys = json.loads(body.decode(), object_pairs_hook=pairs)
    except (ValueError, RecursionError):
        raise _invalid("the body is not valid JSON") from None
    for key in _WATCHED:
        if keys.count(key) > 1:
            raise _invalid(f"the field {key!r} occurs twice")


def _value_span(body: bytes) -> tuple[int, int]:
    """Start and end of the value of the top-level `model`, its quotes included."""
    text = body.decode()
    start, end = next((start, end) for name, start, end in members(text) if name == "model")
    return len(text[:start].encode()), len(text[:end].encode())


def _invalid(message: str) -> RequestRefused:
    return RequestRefused(400, "invalid_body", message)
