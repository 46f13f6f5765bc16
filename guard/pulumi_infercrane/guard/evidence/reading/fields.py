"""Typed access to the fields of parsed JSON. A missing or wrong one is named with its place.

`where` is the place for people: `line 3`, `benchmarks[0].metrics`; empty at the top of a document.
"""

import math
from collections.abc import Mapping
from typing import Any, TypeVar

from pulumi_infercrane.guard.reasons import Inadmissible

MAX_EXACT = 2**53
"""Integers beyond this are not exact in every parser."""

_KINDS: Mapping[type, str] = {str: "a text", bool: "true or false", list: "a list", dict: "an object"}

T = TypeVar("T")


def bad(where: str, text: str) -> Inadmissible:
    """The error for a value that is not what it must be."""
    return Inadmissible("bad_value", f"{where}: {text}" if where else text)


def field(mapping: Mapping[str, Any], name: str, kind: type[T], where: str) -> T:
    """A required value of a JSON type. A text goes into records, which are UTF-8.

    Raises:
        Inadmissible: `bad_value`.
    """
    value = mapping.get(name)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise bad(where, f"{name} is missing or not {_KINDS[kind]}")
    if isinstance(value, str) and any("\ud800" <= character <= "\udfff" for character in value):
        raise bad(where, f"{name} has half a surrogate pair: it is no text")
    return value


def number(mapping: Mapping[str, Any], name: str, where: str) -> float:
    """A required number.

    Raises:
        Inadmissible: `bad_value`.
    """
    value = optional_number(mapping, name, where)
    if value is None:
        raise bad(where, f"{name} is missing")
    return value


def optional_number(mapping: Mapping[str, Any], name: str, where: str) -> float | None:
    """A number, or None when the key is absent; null is not a number.

    Raises:
        Inadmissible: `bad_value`.
    """
    if name not in mapping:
        return None
    value = mapping[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= MAX_EXACT:
        raise bad(where, f"{name} is not a number")
    return float(value)


def number_or_null(mapping: Mapping[str, Any], name: str, where: str) -> float | None:
    """A number, or None when the key is absent or null, for tools that write null where they have nothing.

    Raises:
        Inadmissible: `bad_value`.
    """
    return None if mapping.get(name) is None else number(mapping, name, where)


def numbers(mapping: Mapping[str, Any], name: str, where: str) -> list[float]:
    """A required list of numbers.

    Raises:
        Inadmissible: `bad_value`.
    """
    values = field(mapping, name, list, where)
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= MAX_EXACT:
            raise bad(where, f"{name} holds something that is not a number")
    return [float(value) for value in values]


def count(mapping: Mapping[str, Any], name: str, where: str) -> int:
    """A required whole number from 0.

    Raises:
        Inadmissible: `bad_value`.
    """
    value = optional_count(mapping, name, where)
    if value is None:
        raise bad(where, f"{name} is missing")
    return value


def optional_count(mapping: Mapping[str, Any], name: str, where: str) -> int | None:
    """A whole number from 0, or None when the key is absent. `12.0` is one: some tools write all numbers alike.

    Raises:
        Inadmissible: `bad_value`.
    """
    value = optional_number(mapping, name, where)
    if value is not None and (value < 0 or not math.isfinite(value) or value != int(value)):
        raise bad(where, f"{name} is not a count")
    return None if value is None else int(value)
