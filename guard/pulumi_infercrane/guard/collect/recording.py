"""Recordings (`infercrane.recording/v1`, JSON Lines): real requests, as the router's recorder writes them.

A line is `{"schema", "id", "path", "body"}`; other fields are not looked at. A recording is a file, or a folder of
`*.jsonl` files that are read in the order of their names.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pulumi_infercrane.guard.collect.target import CollectError
from pulumi_infercrane.guard.files import why
from pulumi_infercrane.guard.reasons import Inadmissible
from pulumi_infercrane.guard.strict_json import parse_lines

SCHEMA = "infercrane.recording/v1"
PATH = "/v1/chat/completions"
MAX_ID = 200


@dataclass(frozen=True)
class Recorded:
    """One recorded request to chat completions."""

    id: str
    body: Mapping[str, Any]


def load_recording(path: Path, most: int) -> tuple[Recorded, ...]:
    """The first `most` requests, an id that comes again left out: clients send some requests twice.

    Raises:
        CollectError: with file and line; also for a recording without content, which cannot be asked again.
    """
    found: dict[str, Recorded] = {}
    for file in _files(path):
        for recorded in _requests(file):
            if len(found) == most:
                break
            found.setdefault(recorded.id, recorded)
    if not found:
        raise CollectError(f"{path}: the recording is empty")
    return tuple(found.values())


def _files(path: Path) -> list[Path]:
    return sorted(path.glob("*.jsonl")) if path.is_dir() else [path]


def _requests(path: Path) -> Iterator[Recorded]:
    try:
        data = path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]  # the recorder may be writing the last line, or have been killed in it
        for number, line in enumerate(parse_lines(whole) if whole else (), start=1):
            yield _recorded(line, f"{path}:{number}")
    except OSError as error:
        raise CollectError(f"{path}: the recording cannot be read: {why(error)}") from error
    except Inadmissible as error:
        raise CollectError(f"{path}: {error.problem.detail}") from error


def _recorded(line: Mapping[str, Any], where: str) -> Recorded:
    identifier, body = line.get("id"), line.get("body")
    if line.get("schema") != SCHEMA:
        raise CollectError(f"{where}: schema is not {SCHEMA}")
    if not isinstance(identifier, str) or not 0 < len(identifier) <= MAX_ID:
        raise CollectError(f"{where}: id is missing or not a text of at most {MAX_ID} characters")
    if line.get("path") != PATH:
        raise CollectError(f"{where}: only requests to {PATH} can be replayed, not to {line.get('path')!r}")
    if body is None:
        text = "only metadata was recorded, which cannot be replayed: record with `what: content`"
        raise CollectError(f"{where}: {text}")
    if not isinstance(body, dict) or not isinstance(body.get("messages"), list) or not body["messages"]:
        raise CollectError(f"{where}: body is not a chat request: it has no messages")
    return Recorded(identifier, body)
