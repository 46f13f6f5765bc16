"""A target for each reader the registry finds: any file, and any envelope that is one, gives a record or a refusal."""

import functools
import json
from collections.abc import Iterator, Mapping
from typing import Any

from pulumi_infercrane.guard.evidence import readers, seal
from pulumi_infercrane.guard.evidence.envelope import Envelope, parse_envelope
from pulumi_infercrane.guard.evidence.reading.stated import stated_in
from pulumi_infercrane.guard.reasons import Inadmissible
from tests.fuzz.forbidden import Watch
from tests.fuzz.mutate import input_mutated
from tests.fuzz.own import every_kind
from tests.fuzz.parcel import packed, unpacked
from tests.fuzz.samples import samples_of
from tests.fuzz.sane import check_sane
from tests.fuzz.target import Target
from tests.guard.conftest import ENDED, STARTED, subject_of

_OF_FILES = ("parts", "tool_version", "select")


def targets() -> Iterator[Target]:
    for tool in readers.known_tools():
        seeds = dict.fromkeys(packed(head, parts) for head, parts in _inputs(tool))
        yield Target(f"reader-{tool}", functools.partial(_run, tool), tuple(seeds), input_mutated)


def _inputs(tool: str) -> Iterator[tuple[dict[str, Any], list[bytes]]]:
    """Every sample as each of the versions the reader knows."""
    if tool == "infercrane":
        yield from every_kind()
    for sample in samples_of(tool):
        for version in dict.fromkeys((sample.head["tool_version"], *readers.find_reader(tool).VERSIONS)):
            head = {**sample.head, "parts": [*sample.parts], "tool_version": version}
            yield head, [*sample.parts.values()]


def _run(tool: str, data: bytes, watch: Watch) -> bool:
    try:
        head, contents = unpacked(data)
        envelope = _envelope(tool, json.dumps(head))
        parts = dict(zip(head["parts"], contents, strict=True))
    except (ValueError, RecursionError, TypeError, Inadmissible):
        return False  # no envelope: that is another target's business
    with watch.watched():
        stated_in(readers.find_reader(tool), parts)
        record = _read(parts, envelope)
    if record is None:
        return False
    check_sane(record)
    return True


def _read(parts: Mapping[str, bytes], envelope: Envelope) -> Any:
    try:
        return readers.read_record(parts, envelope)
    except Inadmissible:
        return None


@functools.lru_cache(maxsize=64)
def _envelope(tool: str, head: str) -> Envelope:
    """The envelope of a head.

    Raises:
        Inadmissible: when it is none.
        TypeError, ValueError: when the head does not even give a document.
    """
    said = json.loads(head)
    files = [_file(tool, part, said) for part in said["parts"]]
    if said.get("select") is not None:
        files[0]["select"] = said["select"]
    document = {
        "schema": "infercrane.evidence/v1",
        "role": "candidate",
        "subject": subject_of("r2"),
        "scenario": {"id": "chat-short"},
        "window": {"started_at": STARTED, "ended_at": ENDED},
        "files": files,
        **{name: value for name, value in said.items() if name not in (*_OF_FILES, "planned")},
    }
    if said.get("planned") is not None:
        document["planned"] = {"requests": said["planned"]}
    return parse_envelope(seal(document))[0]


def _file(tool: str, part: Any, said: Mapping[str, Any]) -> dict[str, Any]:
    name = {"part": part, "path": "x", "sha256": "0" * 64, "size": 0, "media": "x"}
    return name | {"tool": tool, "tool_version": said.get("tool_version")}
