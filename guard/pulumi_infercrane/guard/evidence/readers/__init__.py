"""Readers: one module per measuring tool, found by the tool's name (`vllm-bench` is read by `vllm_bench.py`).

A module exposes `read(parts, envelope) -> Record`, where `parts` holds the bytes of the envelope's files by their part,
and `VERSIONS`, the major.minor versions it knows; empty for a tool whose files are told apart by their keys because
they hold no version. It raises Inadmissible for content it cannot vouch for.
"""

import importlib
import pkgutil
import re
from collections.abc import Callable, Mapping
from typing import Protocol, cast

from pulumi_infercrane.guard.evidence.envelope import Envelope
from pulumi_infercrane.guard.evidence.records import Record
from pulumi_infercrane.guard.reasons import Inadmissible

_VERSION = re.compile(r"(\d+\.\d+)(?:\.|$)")


class Reader(Protocol):
    """What a module in this folder provides."""

    VERSIONS: tuple[str, ...]
    read: Callable[[Mapping[str, bytes], Envelope], Record]


def reader_for(tool: str, version: str) -> Reader:
    """The reader of a tool's files.

    Raises:
        Inadmissible: `tool_unknown` or `version_unknown`.
    """
    module = tool.replace("-", "_")
    known = sorted(found.name for found in pkgutil.iter_modules(__path__))
    if module not in known:
        raise Inadmissible("tool_unknown", f"no reader for {tool!r}, only for {', '.join(known)}")
    reader = cast("Reader", importlib.import_module(f"{__name__}.{module}"))
    if reader.VERSIONS and major_minor(version) not in reader.VERSIONS:
        raise Inadmissible("version_unknown", f"{tool} {version}: known are {', '.join(reader.VERSIONS)}")
    return reader


def major_minor(version: str) -> str:
    """`0.33` of `0.33.0`; the whole text when it has no such start."""
    match = _VERSION.match(version)
    return match[1] if match else version
