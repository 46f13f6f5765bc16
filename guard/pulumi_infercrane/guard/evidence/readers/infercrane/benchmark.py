"""`infercrane.benchmark/v1`: one line per measured request of a closed loop.

A hundred thousand lines are nothing unusual: they go into columns one by one and are not kept.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as with_default
from typing import Any

from pulumi_infercrane.guard.evidence.reading.checks import check_sums
from pulumi_infercrane.guard.evidence.reading.fields import (
    MAX_EXACT,
    bad,
    field,
    number,
    optional_count,
    optional_number,
)
from pulumi_infercrane.guard.evidence.reading.rows import FIGURES, Rows, mean
from pulumi_infercrane.guard.evidence.records import Benchmark
from pulumi_infercrane.guard.reasons import Inadmissible

_LATENCIES, _COUNTS = FIGURES[:3], FIGURES[3:]
_USUAL = (float, float, float, int, int)


def read(header: Mapping[str, Any], lines: Iterator[tuple[int, dict[str, Any]]]) -> Benchmark:
    """The run of one file.

    Raises:
        Inadmissible: with the line.
    """
    rows = _Lines()
    for line_number, line in lines:
        _append(rows, line, line_number)
    if len(rows.token_sources) > 1:
        raise Inadmissible("inconsistent", "token counts come from more than one source")
    requests = rows.requests()
    check_sums(requests)
    return Benchmark(
        attempted=len(requests),
        failed=requests.failed,
        errors=dict(rows.errors),
        load_model=_closed_loop(header),
        concurrency=number(header, "concurrency", "line 1"),
        streaming=field(header, "streaming", bool, "line 1"),
        token_source=next(iter(rows.token_sources), ""),
        requests=requests,
        in_tokens=mean(requests.in_tokens),
        out_tokens=mean(requests.out_tokens),
    )


@dataclass
class _Lines(Rows):
    """Requests, and who counted their tokens."""

    token_sources: set[str] = with_default(default_factory=set)


def _append(rows: _Lines, line: dict[str, Any], line_number: int) -> None:
    outcome = line.get("outcome")
    if not isinstance(outcome, str):
        raise Inadmissible("bad_value", f"line {line_number}: outcome is missing or not a text")
    if "token_source" in line:
        rows.token_sources.add(field(line, "token_source", str, f"line {line_number}"))
    if outcome != "complete":
        return rows.fail(outcome)
    return rows.add(_figures(line, line_number))


def _figures(line: dict[str, Any], line_number: int) -> Sequence[float]:
    """The figures of a complete request in the order of the columns; NaN for one it does not have."""
    values: tuple[Any, ...] = tuple(map(line.get, FIGURES))
    if tuple(map(type, values)) == _USUAL and min(values[3:]) >= 0 and max(values) <= MAX_EXACT:
        return values  # nearly every line is like this; what follows is for the others
    if "e2e_s" not in line or "ttft_s" not in line:
        raise Inadmissible("bad_value", f"line {line_number}: a complete request without ttft_s or e2e_s")
    where = f"line {line_number}"
    latencies = [optional_number(line, name, where) for name in _LATENCIES]
    counts = [_count(line, name, where) for name in _COUNTS]
    return [math.nan if value is None else value for value in (*latencies, *counts)]


def _count(line: dict[str, Any], name: str, where: str) -> float | None:
    if type(line.get(name)) is float:
        raise bad(where, f"{name} is not a count")
    return optional_count(line, name, where)


def _closed_loop(header: Mapping[str, Any]) -> str:
    load_model = field(header, "load_model", str, "line 1")
    if load_model != "closed":
        raise Inadmissible("schema_unknown", f"line 1: load_model {load_model!r}, this format knows only 'closed'")
    return load_model
