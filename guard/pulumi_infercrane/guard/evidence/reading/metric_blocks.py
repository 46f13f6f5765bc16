"""Metric blocks of the aiperf family: `{"unit": "ms", "avg": 54.6, "p95": 83.3, "count": 69, "sum": 3765.5}`."""

import re
from collections.abc import Mapping
from typing import Any

from pulumi_infercrane.guard.evidence.reading.checks import check_total
from pulumi_infercrane.guard.evidence.reading.documents import child
from pulumi_infercrane.guard.evidence.reading.fields import bad, count, field, number, optional_number
from pulumi_infercrane.guard.evidence.records import Latency
from pulumi_infercrane.guard.reasons import Inadmissible

_PERCENTILE = re.compile(r"p\d{1,2}")
_SECONDS = {"ns": 1e9, "us": 1e6, "ms": 1e3, "sec": 1.0, "s": 1.0, "seconds": 1.0}
"""How many of a unit make a second."""


def seconds(value: float, block: Mapping[str, Any], where: str) -> float:
    """A value of a block in seconds, by the unit the block names.

    Raises:
        Inadmissible: `unit_suspect` for a unit that is no time.
    """
    unit = field(block, "unit", str, where)
    if unit not in _SECONDS:
        raise Inadmissible("unit_suspect", f"{where}: {unit!r} is no unit of time")
    return value / _SECONDS[unit]


def block_latency(document: Mapping[str, Any], name: str) -> Latency | None:
    """Summary of a metric; None when the document does not have it.

    Raises:
        Inadmissible: `bad_value`, `unit_suspect` or `inconsistent`.
    """
    if name not in document:
        return None
    block = child(document, name, "")
    shares = [key for key in block if _PERCENTILE.fullmatch(key)]
    quantiles = {int(key[1:]) / 100: seconds(number(block, key, name), block, name) for key in shares}
    mean = optional_number(block, "avg", name)
    if mean is not None and "count" in block and "sum" in block:
        check_total(name, mean, count(block, "count", name), number(block, "sum", name))
    return Latency(quantiles, None if mean is None else seconds(mean, block, name))


def block_value(document: Mapping[str, Any], name: str, *units: str) -> float | None:
    """The only value of a metric, or its mean; None when the document does not have it.

    Raises:
        Inadmissible: `bad_value`, or `unit_suspect` when it is in none of `units`.
    """
    if name not in document:
        return None
    block = child(document, name, "")
    unit = field(block, "unit", str, name)
    if unit not in units:
        raise Inadmissible("unit_suspect", f"{name} is in {unit!r}, not in {' or '.join(units)}")
    return number(block, "avg", name)


def block_count(document: Mapping[str, Any], name: str) -> int | None:
    """A number of requests or tokens; None when the document does not have it.

    Raises:
        Inadmissible: `bad_value` or `unit_suspect`.
    """
    value = block_value(document, name, "requests", "tokens", "count")
    if value is not None and (value < 0 or value != int(value)):
        raise bad(name, "not a count")
    return None if value is None else int(value)
