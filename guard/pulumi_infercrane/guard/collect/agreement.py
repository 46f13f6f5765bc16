"""What two answers to one recorded request are compared by, besides their text: structure, tool calls, refusals."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pulumi_infercrane.guard.canonical import canonical_bytes, digest_bytes
from pulumi_infercrane.guard.errors import CanonicalError

REFUSAL_OPENING = 200
"""Characters of an answer that are searched for a refusal: one that quotes a refusal later on does not refuse."""

_REFUSALS = (
    "i can't",
    "i cannot",
    "i can not",
    "i won't",
    "i'm not able to",
    "i am not able to",
    "i'm unable to",
    "i am unable to",
    "i must decline",
    "as an ai",
)
_STRUCTURED = ("json_object", "json_schema")


def refused(text: str, finish_reason: str | None) -> bool:
    """A rule of thumb, for English: a set phrase in the opening, or a filter ended the answer.

    It is the same for both sides, so that a difference between them means more than either share.
    """
    opening = text[:REFUSAL_OPENING].casefold().replace("\u2019", "'")
    return finish_reason == "content_filter" or any(phrase in opening for phrase in _REFUSALS)


def structured(fields: Mapping[str, Any], text: str) -> bool | None:
    """Whether the answer is the JSON that was asked for; None when none was.

    Checked are: one JSON object, without NaN or Infinity, that has the keys which the schema requires at its top. The
    rest of a schema is not checked.
    """
    wanted = fields.get("response_format")
    if not isinstance(wanted, Mapping) or wanted.get("type") not in _STRUCTURED:
        return None
    try:
        value = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and value.keys() >= _required(wanted)


def tool_calls_digest(calls: Sequence[tuple[str, str]]) -> str | None:
    """`sha256:…` of names and arguments in their order, whatever the spelling of the arguments; None without a call."""
    if not calls:
        return None
    return digest_bytes(b"\0".join(_canonical(name, arguments) for name, arguments in calls))


def _canonical(name: str, arguments: str) -> bytes:
    """Arguments that are no JSON count as they are written."""
    try:
        return canonical_bytes([name, json.loads(arguments, parse_constant=_refuse)])
    except (ValueError, RecursionError, CanonicalError):
        return f"{name} {arguments}".encode("utf-8", "surrogatepass")


def _required(wanted: Mapping[str, Any]) -> set[str]:
    described = wanted.get("json_schema")
    schema = described.get("schema") if isinstance(described, Mapping) else None
    required = schema.get("required") if isinstance(schema, Mapping) else None
    return {key for key in required if isinstance(key, str)} if isinstance(required, list) else set()


def _refuse(name: str) -> None:
    raise ValueError(name)
