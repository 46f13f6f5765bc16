"""The model name in a request body: found strictly, replaced in place. No other byte changes."""

import json
import re
from typing import Any

import orjson

from pulumi_infercrane.router.errors import RequestRefused

_WATCHED = ("model", "stream")
_FIELD = re.compile(rb'"model"[ \t\r\n]*:[ \t\r\n]*("(?:[^"\\]|\\.)*")')


def requested_model(body: bytes) -> str:
    """The value of the top-level `model`.

    Raises:
        RequestRefused: no JSON object, no string `model`, or a duplicate that two readers could resolve differently.
    """
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        document = _read_leniently(body)
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
    field = _FIELD.search(body) if _plainly_unique(body) else None
    start, end = field.span(1) if field else _value_span(body)
    return body[:start] + json.dumps(replacement, ensure_ascii=False).encode() + body[end:]


def _read_leniently(body: bytes) -> Any:
    """The standard library takes numbers that orjson refuses (1e400); NaN and Infinity are JSON for neither."""
    try:
        return json.loads(body.decode(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise _invalid("the body is not valid JSON") from None


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


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
    decoder = json.JSONDecoder()
    position = text.index("{") + 1
    while True:
        key, position = decoder.raw_decode(text, _skip(text, position))
        start = _skip(text, _skip(text, position) + 1)  # behind the colon
        _, position = decoder.raw_decode(text, start)
        if key == "model":
            return len(text[:start].encode()), len(text[:position].encode())
        position = _skip(text, position) + 1  # behind the comma


def _skip(text: str, position: int) -> int:
    while text[position] in " \t\r\n":
        position += 1
    return position


def _invalid(message: str) -> RequestRefused:
    return RequestRefused(400, "invalid_body", message)
