"""The bars of the router, and the rows that hold a run against them."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from benchmarks.router.ours import MANY_SERVICES, REVISIONS_EACH
from benchmarks.router.plan import (
    BARE,
    DIRECT,
    FEW,
    FEW_STREAMS,
    LARGE,
    MANY,
    MEMORY,
    ONE,
    OURS,
    RENAMING,
    SMALL_CONNECTIONS,
    STREAM,
    TWO,
    WHOLE,
    WORKERS,
)
from benchmarks.router.report import Report
from benchmarks.rows import Row

PER_EVENT = MappingProxyType({"nginx": 1.25, "envoy": 0.7, "vllm-router": 0.85, "smg": 0.7})
PER_REQUEST = MappingProxyType(
    {
        "nginx": 3.0,
        "envoy": 0.5,
        "vllm-router": 0.5,
        "sglang-router": 0.5,
        "smg": 0.5,
        "starlette + httpx": 0.02,
        "litellm": 0.007,
    }
)
ADDED_TTFT_MS, ADDED_DELAY_MS, TTFT_P99 = 0.3, 0.1, 2.0
MEMORY_MIB = MappingProxyType({MEMORY: 32, STREAM: 40, MANY: 150})
WITHIN_NOISE, GROWN = 1.1, 0.8
"""Of CPU that should stay as it is; of the time a request takes when there is a second worker on cores it shares."""


def rows(report: Report) -> list[Row]:
    """Medians of ours, all on, beside each peer that took part."""
    many = f"{report.plan.streams} streams"
    return [
        *_cpu(report, f"CPU per streamed event, {many}, us", STREAM, PER_EVENT),
        *_cpu(report, f"CPU per streamed event, {FEW_STREAMS} streams, us", FEW, {}),
        *_cpu(report, f"CPU per small request, {SMALL_CONNECTIONS} connections, us", WHOLE, PER_REQUEST),
        *_delays(report, many),
        *_memory(report, many),
        *_scale(report),
        *_renaming(report),
        Row("requests of ours that broke", float(_broken(report)), goal=0),
    ]


def _cpu(report: Report, metric: str, kind: str, bars: Mapping[str, float]) -> Iterator[Row]:
    for name in report.plan.peers:
        yield from _row(report, f"{metric}: {name}", (OURS, kind, "cpu_us"), (name, kind, "cpu_us"), bars.get(name))


def _delays(report: Report, many: str) -> Iterator[Row]:
    yield from _added(report, f"added time to first event, {many}, median, ms", "ttft_ms", ADDED_TTFT_MS)
    p99 = f"time to first event, {many}, p99, ms: nginx"
    yield from _row(report, p99, (OURS, STREAM, "ttft_p99_ms"), ("nginx", STREAM, "ttft_p99_ms"), TTFT_P99)
    yield from _added(report, f"added delay of an event, {many}, median, ms", "delay_ms", ADDED_DELAY_MS)


def _added(report: Report, metric: str, field: str, bar: float) -> Iterator[Row]:
    """What comes on top of the model server asked directly."""
    ours, none = report.median(OURS, STREAM, field), report.median(DIRECT, STREAM, field)
    if ours is not None and none is not None:
        yield Row(metric, ours - none, goal=bar)


def _memory(report: Report, many: str) -> Iterator[Row]:
    streams = {MEMORY: "200 streams", STREAM: many, MANY: f"{report.many_streams} streams"}
    for kind, said in streams.items():
        found = report.median(OURS, kind, "memory_mib")
        if found is not None:
            yield Row(f"memory with {said}, MiB", found, goal=MEMORY_MIB[kind])


def _scale(report: Report) -> Iterator[Row]:
    large = f"CPU per small request beside {MANY_SERVICES} services of {REVISIONS_EACH} revisions, us: bare"
    yield from _row(report, large, (LARGE, WHOLE, "cpu_us"), (BARE, WHOLE, "cpu_us"), WITHIN_NOISE)
    one, two = report.median(ONE, WORKERS, "per_s"), report.median(TWO, WORKERS, "per_s")
    if one and two:
        yield Row("time per small request, 2 workers, us: 1 worker", 1e6 / two, 1e6 / one, GROWN)
    same = "CPU per small request, 2 workers, us: 1 worker"
    yield from _row(report, same, (TWO, WORKERS, "cpu_us"), (ONE, WORKERS, "cpu_us"), WITHIN_NOISE)


def _renaming(report: Report) -> Iterator[Row]:
    """What it costs that answers name the alias; nobody has to pay it."""
    for kind, unit in ((STREAM, "streamed event"), (WHOLE, "small request")):
        metric = f"CPU per {unit} with answer_as_alias, us: bare"
        yield from _row(report, metric, (RENAMING, kind, "cpu_us"), (BARE, kind, "cpu_us"), None)


def _row(
    report: Report, metric: str, ours: tuple[str, str, str], peer: tuple[str, str, str], bar: float | None
) -> Iterator[Row]:
    """None when one of the two was not measured."""
    mine, other = report.median(*ours), report.median(*peer)
    if mine is not None and other is not None:
        yield Row(metric, mine, other, bar)


def _broken(report: Report) -> int:
    names = (OURS, BARE, LARGE, RENAMING, ONE, TWO)
    return sum(cell.broken for name in names for found in report.cells.get(name, {}).values() for cell in found)
