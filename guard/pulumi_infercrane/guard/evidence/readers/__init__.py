"""Readers: one module per measuring tool, found by the tool's name (`vllm-bench` is read by `vllm_bench.py`).

A module exposes `read(parts, envelope) -> Record`, where `parts` holds the bytes of the envelope's files by their part,
and `VERSIONS`, the major.minor versions it knows; empty for a tool whose files are told apart by their keys because
they hold no version. It raises Inadmissible for content it cannot vouch for. `READS` and `CANNOT_KNOW` say in a
sentence each, for people, what it takes from a file and what no file of this tool can tell. A module may also expose
`stated(parts) -> Stated` (`evidence/stated.py`): what the file says about its own measurement.

`FOR_QUANTILES` and `FOR_REQUESTS`, where the tool has such options, are what makes it write percentiles, and figures of
every request.
"""

import importlib
import pkgutil
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Literal, Protocol, cast

from pulumi_infercrane.guard.evidence.envelope import Envelope
from pulumi_infercrane.guard.evidence.records import Record
from pulumi_infercrane.guard.reasons import Inadmissible

MAX_REQUESTS = 10**12
"""Of one run. Bounds of a share of more would be slow, and wrong in their third digit."""

_VERSION = re.compile(r"(\d+\.\d+)(?:\.|$)")


class Reader(Protocol):
    """What a module in this folder provides."""

    VERSIONS: tuple[str, ...]
    READS: str
    CANNOT_KNOW: str
    read: Callable[[Mapping[str, bytes], Envelope], Record]


@cache
def known_tools() -> tuple[str, ...]:
    """Names of the tools whose files can be read, sorted."""
    return tuple(sorted(found.name.replace("_", "-") for found in pkgutil.iter_modules(__path__)))


def find_reader(tool: str) -> Reader:
    """The reader of one of `known_tools`, whatever the version of its files."""
    return cast("Reader", importlib.import_module(f"{__name__}.{tool.replace('-', '_')}"))


def reader_for(tool: str, version: str) -> Reader:
    """The reader of a tool's files.

    Raises:
        Inadmissible: `tool_unknown` or `version_unknown`.
    """
    if tool.replace("_", "-") not in known_tools():
        raise Inadmissible("tool_unknown", f"no reader for {tool!r}, only for {', '.join(known_tools())}")
    reader = find_reader(tool)
    if reader.VERSIONS and major_minor(version) not in reader.VERSIONS:
        raise Inadmissible("version_unknown", f"{tool} {version}: known are {', '.join(reader.VERSIONS)}")
    return reader


def read_record(parts: Mapping[str, bytes], envelope: Envelope) -> Record:
    """What the files of an envelope say, by the reader of its tool.

    Raises:
        Inadmissible: the reader cannot vouch for them, or they count what cannot be judged.
    """
    record = reader_for(envelope.primary.tool, envelope.primary.tool_version).read(parts, envelope)
    if record.attempted is not None and record.attempted > MAX_REQUESTS:
        raise Inadmissible("bad_value", f"{record.attempted} requests in one run, at most {MAX_REQUESTS} are judged")
    return record


def advice(tool: str, version: str, about: Literal["FOR_QUANTILES", "FOR_REQUESTS"]) -> str:
    """The options that make a tool write more; empty when it has none, or is not known."""
    try:
        return str(getattr(reader_for(tool, version), about, ""))
    except Inadmissible:
        return ""


def major_minor(version: str) -> str:
    """`0.33` of `0.33.0`; the whole text when it has no such start."""
    match = _VERSION.match(version)
    return match[1] if match else version
