"""JSON texts in which the value of one member is replaced, and no other byte."""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import orjson

find_model = re.compile(rb'"model"[ \t\r\n]*:[ \t\r\n]*("(?:[^"\\]|\\.)*")').search
"""A member `model` that is a string, in a text that has these quoted letters once; its value is the group."""

_blanks = re.compile(r"[ \t\r\n]+").match
_decode = json.JSONDecoder().raw_decode


def read_json(text: bytes) -> Any:
    """The value. The standard library takes what orjson refuses: numbers like 1e400, half of a surrogate pair.

    Raises:
        ValueError: it is not JSON, as NaN and Infinity are not.
        RecursionError: it is nested too deeply.
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return json.loads(text.decode(), parse_constant=_refuse_constant)


class Member(NamedTuple):
    """The name of a member, and where its value begins and ends."""

    name: str
    start: int
    end: int


def members(text: str, position: int = 0) -> Iterator[Member]:
    """The members of the object at `position` of a JSON text, in their order, duplicates too.

    Raises:
        RecursionError: it is nested too deeply.
    """
    position = _skip(text, _skip(text, position) + 1)
    while text[position] != "}":
        name, position = _decode(text, position)
        start = _skip(text, _skip(text, position) + 1)  # behind the colon
        _, end = _decode(text, start)
        yield Member(name, start, end)
        position = _skip(text, end)
        if text[position] == ",":
            position = _skip(text, position + 1)


def _skip(text: str, position: int) -> int:
    found = _blanks(text, position)
    return found.end() if found else position


def _refuse_constant(name: str) -> None:
    raise ValueError(name)
