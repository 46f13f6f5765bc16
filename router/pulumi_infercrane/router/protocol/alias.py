"""The model name in a request body: found strictly, replaced in place. No other byte changes."""

import json

from pulumi_infercrane.router.errors import RequestRefused
from pulumi_infercrane.router.protocol.json_text import find_model, members, read_json

MOST_VALUES = 500_000
"""In a body, give or take those of one element. They decide how long reading it takes and how much that needs, not
the bytes: no prompt has so many, and token ids for an embedding may have hundreds of thousands.
"""
MOST_MEMBERS = 10_000
"""At the top, where names that are spelled with escapes are read one by one."""

_WATCHED = ("model", "stream")


def requested_model(body: bytes) -> str:
    """The value of the top-level `model`.

    Raises:
        RequestRefused: no JSON object, no string `model`, a duplicate that two readers could resolve differently, or
            too many values.
    """
    if len(body) > MOST_VALUES and _has_too_many_values(body):
        raise _invalid(f"the body has more than {MOST_VALUES} values")
    try:
        document = read_json(body)
    except (ValueError, RecursionError):
        raise _invalid("the body is not valid JSON") from None
    model = document.get("model") if isinstance(document, dict) else None
    if not isinstance(model, str):
        raise _invalid("the body must be a JSON object with a string field 'model'")
    try:
        if not _plainly_unique(body):
            _refuse_duplicates(body)
    except RecursionError:  # the standard library takes fewer levels than orjson
        raise _invalid("the body is nested too deeply") from None
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


def _has_too_many_values(body: bytes) -> bool:
    """By what stands before values, outside of strings; nothing is built for it, and nothing takes a step per byte."""
    if _values(body) <= MOST_VALUES:
        return False
    unescaped = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    if unescaped.count(b'"') > 4 * MOST_VALUES:  # two for a name, two for a string
        return True
    return _values(b"".join(unescaped.split(b'"')[::2])) > MOST_VALUES


def _values(text: bytes) -> int:
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def _refuse_duplicates(body: bytes) -> None:
    seen = set()
    for number, (name, _, _) in enumerate(members(body.decode())):
        if name in seen:
            raise _invalid(f"the field {name!r} occurs twice")
        if name in _WATCHED:
            seen.add(name)
        if number >= MOST_MEMBERS:
            raise _invalid(f"the body has more than {MOST_MEMBERS} fields")


def _value_span(body: bytes) -> tuple[int, int]:
    """Start and end of the value of the top-level `model`, its quotes included."""
    text = body.decode()
    start, end = next((start, end) for name, start, end in members(text) if name == "model")
    return len(text[:start].encode()), len(text[:end].encode())


def _invalid(message: str) -> RequestRefused:
    return RequestRefused(400, "invalid_body", message)
