"""JSON parsed without mercy: what two parsers could read differently is refused.

Refused are text that is not UTF-8, duplicate keys, NaN and infinities (also `1e999`), nesting beyond a cap and input
beyond a size cap.
"""

import io
import json
from collections.abc import Iterator
from typing import Any, NoReturn

from pulumi_infercrane.guard.reasons import Inadmissible

MAX_BYTES = 256 * 1024 * 1024
MAX_DEPTH = 32

SEVERAL = "more follows after the first JSON document"
_WORDS = {
    "Expecting value": "a value was expected",
    "Expecting property name enclosed in double quotes": "a key in double quotes was expected",
    "Expecting ':' delimiter": "':' was expected",
    "Expecting ',' delimiter": "',' was expected",
    "Extra data": SEVERAL,
}


def parse(data: bytes, *, max_bytes: int = MAX_BYTES) -> Any:
    """One JSON document.

    Raises:
        Inadmissible: `not_json`, `duplicate_key`, `non_finite`, `oversize` or `bomb`, with the place where known.
    """
    _check_size(data, max_bytes)
    return _parse_text(_decode(data))


def first_of(data: bytes) -> Any:
    """The first document of data that `parse` refused because `SEVERAL`."""
    return _DECODER.raw_decode(_decode(data).lstrip(" \t\r\n"))[0]


def parse_lines(data: bytes, *, max_bytes: int = MAX_BYTES) -> Iterator[dict[str, Any]]:
    """JSON Lines, one object a line, no blank lines; a line is parsed when it is asked for.

    Raises:
        Inadmissible: as `parse`, with the line number.
    """
    _check_size(data, max_bytes)
    for number, line in enumerate(io.BytesIO(data or b"\n"), start=1):
        try:
            value = _parse_text(_decode(line.removesuffix(b"\n")))
        except Inadmissible as error:
            raise Inadmissible(error.problem.code, f"line {number}: {error.problem.detail}") from error
        if not isinstance(value, dict):
            raise Inadmissible("not_json", f"line {number}: an object was expected")
        yield value


def _check_size(data: bytes, max_bytes: int) -> None:
    if len(data) > max_bytes:
        raise Inadmissible("oversize", f"{len(data)} bytes, at most {max_bytes} are read")


def _decode(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Inadmissible("not_json", f"not UTF-8 at byte {error.start}") from error


def _parse_text(text: str) -> Any:
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise Inadmissible("not_json", f"{_WORDS.get(error.msg, error.msg)} ({_place(error, text)})") from error
    except RecursionError as error:
        raise Inadmissible("bomb", f"nested deeper than {MAX_DEPTH}") from error
    except ValueError as error:
        raise Inadmissible("bad_value", str(error)) from error
    _check_depth(text, value)
    return value


def _place(error: json.JSONDecodeError, text: str) -> str:
    if error.pos >= len(text.rstrip()):
        return "ends too early"
    return f"line {error.lineno}, column {error.colno}" if error.lineno > 1 else f"column {error.colno}"


def _check_depth(text: str, value: Any) -> None:
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [child for node in level for child in _children(node)]
        if not level:
            return
    raise Inadmissible("bomb", f"nested deeper than {MAX_DEPTH}")


def _children(node: Any) -> list[Any]:
    if isinstance(node, dict):
        return list(node.values())
    return node if isinstance(node, list) else []


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        seen = [key for key, _ in pairs]
        key = next(key for key in result if seen.count(key) > 1)
        raise Inadmissible("duplicate_key", f"key {key!r} occurs twice in one object")
    return result


def _refuse_constant(name: str) -> NoReturn:
    raise Inadmissible("non_finite", f"{name} is not a JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if number in _INFINITIES:
        raise Inadmissible("non_finite", f"{text} is beyond the range of numbers")
    return number


_INFINITIES = (float("inf"), float("-inf"))


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse_constant, parse_float=_finite)
