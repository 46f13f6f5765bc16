"""YAML parsed without mercy: what JSON could say, in block style, and nothing else.

Refused are tags, anchors and aliases, keys written twice, `.nan` and infinities, nesting beyond a cap and input beyond
a size cap. Plain scalars are numbers only where JSON writes them so; everything else is text, a date too.
"""

import codecs
import re
from typing import Any

import yaml
from yaml.reader import ReaderError

from pulumi_infercrane.guard.reasons import Inadmissible
from pulumi_infercrane.guard.strict_json import MAX_DEPTH, parse

MAX_BYTES = 128 * 1024
"""Of a report of a few kilobytes; the parser is slow."""

_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_CONSTANTS = {"true": True, "false": False, "null": None, "~": None, "": None}
_NOT_FINITE = re.compile(r"[-+]?\.(inf|nan)", re.IGNORECASE)


def parse_yaml(data: bytes) -> Any:
    """One YAML document.

    Raises:
        Inadmissible: `not_json`, `duplicate_key`, `non_finite`, `oversize` or `bomb`, with the line.
    """
    if len(data) > MAX_BYTES:
        raise Inadmissible("oversize", f"{len(data)} bytes, at most {MAX_BYTES} are read")
    if data.startswith(codecs.BOM_UTF8):
        raise Inadmissible("not_json", "begins with a byte order mark")
    try:
        loader = yaml.SafeLoader(data.decode("utf-8"))
        loader.get_event()  # type: ignore[no-untyped-call]
        if not loader.check_event(yaml.DocumentStartEvent):
            raise Inadmissible("not_json", "the file is empty")
        loader.get_event()  # type: ignore[no-untyped-call]
        value = _value(loader, 0)
        loader.get_event()  # type: ignore[no-untyped-call]
        if not loader.check_event(yaml.StreamEndEvent):
            raise Inadmissible("ambiguous_run", "more than one document")
    except UnicodeDecodeError as error:
        raise Inadmissible("not_json", f"not UTF-8 at byte {error.start}") from error
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise Inadmissible("not_json", f"{line}{error.problem}") from error
    except ReaderError as error:
        place = f"line {data.decode().count(chr(10), 0, error.position) + 1}"
        raise Inadmissible("not_json", f"{place}: the character {chr(error.character)!a}") from error
    except (yaml.YAMLError, ValueError) as error:
        raise Inadmissible("not_json", f"not YAML: {error}") from error
    return value


def _value(loader: yaml.SafeLoader, depth: int) -> Any:
    event = loader.get_event()  # type: ignore[no-untyped-call]
    where = f"line {event.start_mark.line + 1}"
    if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
        raise Inadmissible("bomb", f"{where}: anchors and aliases are not read")
    if getattr(event, "tag", None) not in (None, "!"):
        raise Inadmissible("not_json", f"{where}: tags are not read")
    if depth > MAX_DEPTH:
        raise Inadmissible("bomb", f"{where}: nested deeper than {MAX_DEPTH}")
    if isinstance(event, yaml.ScalarEvent):
        return _scalar(event, where)
    if isinstance(event, yaml.SequenceStartEvent):
        return _sequence(loader, depth)
    return _mapping(loader, depth)


def _sequence(loader: yaml.SafeLoader, depth: int) -> list[Any]:
    values = []
    while not loader.check_event(yaml.SequenceEndEvent):
        values.append(_value(loader, depth + 1))
    loader.get_event()  # type: ignore[no-untyped-call]
    return values


def _mapping(loader: yaml.SafeLoader, depth: int) -> dict[str, Any]:
    entries: dict[str, Any] = {}
    while not loader.check_event(yaml.MappingEndEvent):
        event = loader.peek_event()  # type: ignore[no-untyped-call]
        where = f"line {event.start_mark.line + 1}"
        if not isinstance(event, yaml.ScalarEvent):
            raise Inadmissible("not_json", f"{where}: a key must be text")
        _value(loader, depth + 1)
        if event.value in entries:
            raise Inadmissible("duplicate_key", f"{where}: key {event.value[:40]!r} is written twice")
        entries[event.value] = _value(loader, depth + 1)
    loader.get_event()  # type: ignore[no-untyped-call]
    return entries


def _scalar(event: yaml.ScalarEvent, where: str) -> Any:
    text: str = event.value
    if event.style is not None:
        return text
    if text.lower() in _CONSTANTS:
        return _CONSTANTS[text.lower()]
    if _NOT_FINITE.fullmatch(text):
        raise Inadmissible("non_finite", f"{where}: {text} is not a number")
    if not _NUMBER.fullmatch(text):
        return text
    try:
        return parse(text.encode())
    except Inadmissible as error:
        raise Inadmissible(error.problem.code, f"{where}: {error.problem.detail}") from error
