"""`infercrane.benchmark/v1`: one line per measured request of a closed loop.

A hundred thousand lines are nothing unusual: they go into columns one by one and are not kept.
"""

import math
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as with_default
from typing import Any

from pulumi_infercrane.guard.evidence.fields import MAX_EXACT, bad, field, number, optional_count, optional_number
from pulumi_infercrane.guard.evidence.records import Benchmark, Column, Requests
from pulumi_infercrane.guard.reasons import Inadmissible

MAX_LATENCY_S = 600.0
TOLERATED_BAD_SHARE = 0.005
TOLERATED_SUM_SHARE = 0.10

_LATENCIES = ("ttft_s", "tpot_s", "e2e_s")
_COUNTS = ("in_tokens", "out_tokens")
_FIGURES = (*_LATENCIES, *_COUNTS)
_USUAL = (float, float, float, int, int)


def read(header: Mapping[str, Any], lines: Iterator[tuple[int, dict[str, Any]]]) -> Benchmark:
    """The run of one file.

    Raises:
        Inadmissible: with the line.
    """
    rows = _Rows()
    for line_number, line in lines:
        _append(rows, line, line_number)
    if len(rows.token_sources) > 1:
        raise Inadmissible("inconsistent", "token counts come from more than one source")
    requests = Requests(bytes(rows.ok), *(rows.columns[name] for name in _FIGURES))
    _check_bad_share(rows)
    _check_sums(requests)
    return Benchmark(
        attempted=len(requests),
        failed=requests.failed,
        errors=dict(rows.errors),
        load_model=_closed_loop(header),
        concurrency=number(header, "concurrency", "line 1"),
        streaming=field(header, "streaming", bool, "line 1"),
        token_source=next(iter(rows.token_sources), ""),
        requests=requests,
        in_tokens=_mean(requests.in_tokens),
        out_tokens=_mean(requests.out_tokens),
    )


@dataclass
class _Rows:
    """Columns while they grow."""

    ok: bytearray = with_default(default_factory=bytearray)
    columns: dict[str, Column] = with_default(default_factory=lambda: {name: array("d") for name in _FIGURES})
    errors: Counter[str] = with_default(default_factory=Counter)
    token_sources: set[str] = with_default(default_factory=set)

    def fail(self, outcome: str) -> None:
        self.ok.append(0)
        self.errors[outcome] += 1
        for column in self.columns.values():
            column.append(math.nan)


def _append(rows: _Rows, line: dict[str, Any], line_number: int) -> None:
    outcome = line.get("outcome")
    if not isinstance(outcome, str):
        raise Inadmissible("bad_value", f"line {line_number}: outcome is missing or not a str")
    if "token_source" in line:
        rows.token_sources.add(field(line, "token_source", str, f"line {line_number}"))
    if outcome != "complete":
        return rows.fail(outcome)
    values = _figures(line, line_number)
    if any(value <= 0 or value > MAX_LATENCY_S for value in values[:3]):  # false for NaN
        return rows.fail("bad_value")
    rows.ok.append(1)
    for column, value in zip(rows.columns.values(), values, strict=True):
        column.append(value)
    return None


def _figures(line: dict[str, Any], line_number: int) -> Sequence[float]:
    """The figures of a complete request in the order of the columns; NaN for one it does not have."""
    values: tuple[Any, ...] = tuple(map(line.get, _FIGURES))
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


def _check_bad_share(rows: _Rows) -> None:
    bad = rows.errors["bad_value"]
    if bad > TOLERATED_BAD_SHARE * len(rows.ok):
        text = f"{bad} of {len(rows.ok)} complete requests have a latency outside 0 to {MAX_LATENCY_S:.0f} s"
        raise Inadmissible("bad_value", text)


def _check_sums(requests: Requests) -> None:
    """ttft + tpot · (tokens - 1) must be about e2e, on the average of the requests that have all four."""
    rows = zip(requests.ttft_s, requests.tpot_s, requests.e2e_s, requests.out_tokens, strict=True)
    gap, whole = 0.0, 0.0
    for ttft, tpot, e2e, tokens in rows:
        if tpot == tpot and tokens >= 1:
            gap += ttft + tpot * (tokens - 1) - e2e
            whole += e2e
    if abs(gap) > TOLERATED_SUM_SHARE * whole:
        raise Inadmissible("inconsistent", "ttft_s + tpot_s · (out_tokens - 1) differs from e2e_s by more than 10 %")


def _mean(column: Column) -> float | None:
    known = [value for value in column if value == value]
    return math.fsum(known) / len(known) if known else None
