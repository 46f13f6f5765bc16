"""The recording policy (`infercrane.recording/v1`, YAML or JSON): what may be kept of requests, and for how long."""

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from yaml.reader import ReaderError

from pulumi_infercrane.router.errors import RecordingRefused
from pulumi_infercrane.router.recording.redactors import redactors

SCHEMA = "infercrane.recording/v1"
METADATA, CONTENT = "metadata", "content"
MIN_BYTES, MAX_BYTES = 4 * 1024 * 1024, 1024 * 1024 * 1024

_KEYS = ("schema", "folder", "sample", "what", "redact", "max_bytes", "max_age")
_REQUIRED = ("schema", "folder", "sample")
_MAX_FILE = 64 * 1024
_AGE = re.compile(r"([1-9]\d{0,5})([dhm])")
_SECONDS = {"d": 86_400, "h": 3_600, "m": 60}


@dataclass(frozen=True)
class RecordingPolicy:
    """What may be kept."""

    folder: Path
    sample: float
    """Share of the requests, 0..1; whether one is among them follows from its id."""
    what: str = METADATA
    """`metadata`: lengths, flags and a keyed hash. `content`: the request itself, redacted, without its head."""
    redact: tuple[str, ...] = ()
    """Names of redactors, in the order they are applied."""
    max_bytes: int = 64 * 1024 * 1024
    max_age_s: float = 7 * 86_400


def read_policy(path: Path) -> RecordingPolicy:
    """Read and check a policy file; its `folder` is relative to the file.

    Raises:
        RecordingRefused: `record.yaml: unknown key 'smaple', did you mean 'sample'?`
    """
    document = _document(path)
    try:
        return _policy(document, path.parent)
    except ValueError as error:
        raise RecordingRefused(f"{path}: {error}") from error


def _document(path: Path) -> object:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_FILE + 1)
        if len(data) > _MAX_FILE:
            raise RecordingRefused(f"{path}: a recording policy may have {_MAX_FILE} bytes")
        document: object = yaml.safe_load(data)
    except OSError as error:
        raise RecordingRefused(f"{path}: the recording policy cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise RecordingRefused(f"{path}{_line(error)}: not valid YAML: {_problem(error)}") from error
    return document


def _line(error: Exception) -> str:
    mark = error.problem_mark if isinstance(error, yaml.MarkedYAMLError) else None
    return f":{mark.line + 1}" if mark else ""


def _problem(error: Exception) -> str:
    """What the parser found, on one line."""
    if isinstance(error, yaml.MarkedYAMLError):
        return str(error.problem)
    if isinstance(error, UnicodeDecodeError | ReaderError):
        return "something in it is not UTF-8 text"
    return "nested too deep" if isinstance(error, RecursionError) else str(error)


def _policy(document: object, beside: Path) -> RecordingPolicy:
    if not isinstance(document, dict):
        raise ValueError("a mapping was expected")  # noqa: TRY004 - the caller adds the file's name to ValueErrors
    _check_keys(document)
    if document["schema"] != SCHEMA:
        raise ValueError(f"schema must be {SCHEMA}")
    given: dict[str, Any] = {}
    if "what" in document:
        given["what"] = _choice(document, "what", (METADATA, CONTENT))
    if "redact" in document:
        given["redact"] = _redactors(document["redact"])
    if "max_bytes" in document:
        given["max_bytes"] = int(_number(document, "max_bytes", MIN_BYTES, MAX_BYTES))
    if "max_age" in document:
        given["max_age_s"] = _age(document["max_age"])
    return RecordingPolicy(beside / _text(document, "folder"), _number(document, "sample", 0, 1), **given)


def _check_keys(document: Mapping[Any, Any]) -> None:
    for key in document:
        if key not in _KEYS:
            close = difflib.get_close_matches(str(key), _KEYS, n=1)
            raise ValueError(
                f"unknown key {key!r}, " + (f"did you mean {close[0]!r}?" if close else f"known are {', '.join(_KEYS)}")
            )
    for key in _REQUIRED:
        if key not in document:
            raise ValueError(f"{key!r} is missing")


def _text(document: Mapping[str, Any], name: str) -> str:
    value = document[name]
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name}: a text was expected")
    return value


def _choice(document: Mapping[str, Any], name: str, allowed: tuple[str, ...]) -> str:
    value = _text(document, name)
    if value not in allowed:
        raise ValueError(f"{name}: {value!r} is not one of {', '.join(allowed)}")
    return value


def _number(document: Mapping[str, Any], name: str, low: float, high: float) -> float:
    value = document[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise ValueError(f"{name}: a number from {low:g} to {high:.10g} was expected, not {value!r}")
    return value


def _redactors(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError("redact: a list was expected")  # noqa: TRY004 - as above
    for name in value:
        if name not in redactors():
            raise ValueError(f"redact: {name!r} is not one of {', '.join(redactors())}")
    return tuple(value)


def _age(value: object) -> float:
    match = _AGE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"max_age: {value!r} is not a duration like 7d, 24h or 30m")
    return int(match[1]) * _SECONDS[match[2]]
