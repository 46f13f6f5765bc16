"""Counters in Prometheus text form. Label values come from the table, never from a request."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from time import monotonic

from pulumi_infercrane.router.clients.admission import ServiceQueue
from pulumi_infercrane.router.counting.traffic import Traffic, TrafficBook
from pulumi_infercrane.router.histograms import Histogram
from pulumi_infercrane.router.routing.replicas import ReplicaState, state_of
from pulumi_infercrane.router.routing.routes import Binding, Endpoint, Routes
from pulumi_infercrane.router.routing.upstream import Pool
from pulumi_infercrane.router.tables.table import DRAINING, RouteTable
from pulumi_infercrane.router.tables.transitions import carried

PREFIX = "infercrane_router_"

SLICE_S = 0.005
"""How long the loop is held to render, and then left alone, until a text is whole."""

Sample = tuple[str, float | Histogram]
"""Labels as they are written, and the value."""
Family = tuple[str, str, Iterable[Sample]]
"""Name, type and samples."""


def render(routes: Routes, book: TrafficBook, queues: Iterable[ServiceQueue] = ()) -> str:
    """All families, each with its type line."""
    return "".join(pieces(routes, book, queues))


async def in_slices(text: Iterable[str]) -> str:
    """The pieces as one text, put together beside everything else there is to do.

    Samples may be of different moments; a histogram is of one.
    """
    slices, done, until = [], [], monotonic() + SLICE_S
    for piece in text:
        done.append(piece)
        if monotonic() > until:
            slices.append("".join(done))
            await asyncio.sleep(SLICE_S)
            done, until = [], monotonic() + SLICE_S
    return "".join([*slices, *done])


def pieces(routes: Routes, book: TrafficBook, queues: Iterable[ServiceQueue] = ()) -> Iterator[str]:
    """What `render` puts together: type lines and samples, each made when it is asked for."""
    for name, kind, samples in _families(routes, book, sorted(queues, key=lambda queue: queue.service)):
        yield f"# TYPE {PREFIX}{name} {kind}\n"
        for labels, value in samples:
            if not isinstance(value, Histogram):
                yield _line(name, labels, value)
            elif value.count:
                yield _histogram(name, labels, value)


def _families(routes: Routes, book: TrafficBook, queues: Iterable[ServiceQueue]) -> Iterable[Family]:
    traffic, tables = book.all(), routes.tables
    unbound = [(_labels(service="", revision="", outcome=o), n) for o, n in sorted(book.unbound.items())]
    return (
        ("requests_total", "counter", chain(_outcomes(traffic), unbound)),
        ("http_errors_total", "counter", _http_errors(traffic)),
        ("inflight", "gauge", ((_of(t), t.inflight) for t in traffic)),
        ("draining_streams", "gauge", _draining(traffic, tables)),
        ("tokens_total", "counter", _tokens(traffic)),
        ("request_seconds", "histogram", ((_of(t), t.seconds) for t in traffic)),
        ("ttft_seconds", "histogram", ((_of(t), t.ttft) for t in traffic)),
        ("event_gap_seconds", "histogram", ((_of(t), t.gaps) for t in traffic)),
        ("cut_total", "counter", ((_of(t), t.cut) for t in traffic)),
        ("refused_total", "counter", [(_labels(service=s, reason=r), n) for (s, r), n in sorted(book.refused.items())]),
        ("queued", "gauge", ((_labels(service=q.service), q.length) for q in queues)),
        ("queue_seconds", "histogram", ((_labels(service=q.service), q.waited) for q in queues)),
        ("recorded_total", "counter", [(_labels(outcome=o), n) for o, n in sorted(book.recorded.items())]),
        ("told_total", "counter", [(_labels(outcome=o), n) for o, n in sorted(book.told.items())]),
        ("route_generation", "gauge", ((_labels(service=s), t.generation) for s, t in sorted(tables.items()))),
        ("route_info", "gauge", ((_route(table), 1) for _, table in sorted(tables.items()))),
        ("route_apply_total", "counter", _applied(book)),
        ("route_weight", "gauge", _weights(tables)),
        ("spilled_total", "counter", _spilled(traffic)),
        ("retried_total", "counter", ((_of(t), t.retried) for t in traffic)),
        ("not_renamed_total", "counter", ((_of(t), t.not_renamed) for t in traffic)),
        ("mirrored_total", "counter", _outcomes(book.copies())),
        ("mirror_dropped_total", "counter", _dropped(book)),
        ("replica_ready", "gauge", _replicas(routes, lambda state: state.ready)),
        ("replica_inflight", "gauge", _replicas(routes, lambda state: state.inflight)),
        ("replica_answered_total", "counter", _replicas(routes, lambda state: state.answered)),
        ("replica_failed_total", "counter", _replicas(routes, lambda state: state.failed)),
        ("replica_ejections_total", "counter", _replicas(routes, lambda state: state.ejections)),
        ("replica_failed_probes", "gauge", _replicas(routes, lambda state: state.failed_probes)),
        ("upstream_connections", "gauge", _pools(routes, lambda pool: pool.open)),
        ("upstream_connect_seconds", "histogram", _pools(routes, lambda pool: pool.dialled)),
        ("loop_stall_seconds", "histogram", [("", book.loop_stall)]),
        ("gc_pause_seconds", "histogram", [("", book.gc_pause)]),
        ("open_fds", "gauge", [("", count) for count in _open_files()]),
    )


def _weights(tables: Mapping[str, RouteTable]) -> Iterator[Sample]:
    """Percent of the requests that are not pinned."""
    for service, table in sorted(tables.items()):
        for revision, weight in sorted(carried(table).items()):
            yield _labels(service=service, revision=revision), weight


def _draining(traffic: Iterable[Traffic], tables: Mapping[str, RouteTable]) -> Iterator[Sample]:
    """Requests a drain waits for."""
    for one in traffic:
        table = tables.get(one.service)
        declared = table.declared.revisions.get(one.revision) if table is not None else None
        if declared is not None and declared.state == DRAINING:
            yield _of(one), one.inflight


def _applied(book: TrafficBook) -> Iterator[Sample]:
    for (service, result), count in sorted(book.applied.items()):
        yield _labels(service=service, result=result), count


def _spilled(traffic: Iterable[Traffic]) -> Iterator[Sample]:
    """Requests bound to `revision` that `to` answered."""
    for one in traffic:
        for other, count in sorted(one.spilled.items()):
            yield _of(one, to=other), count


def _dropped(book: TrafficBook) -> Iterator[Sample]:
    for (service, revision, reason), count in sorted(book.dropped_copies.items()):
        yield _labels(service=service, revision=revision, reason=reason), count


def _replicas(routes: Routes, value: Callable[[ReplicaState], float]) -> Iterator[Sample]:
    for service, revision, binding, endpoint in _endpoints(routes):
        labels = _labels(service=service, revision=revision, upstream=endpoint.id)
        yield labels, int(value(state_of(binding.replicas, endpoint)))


def _endpoints(routes: Routes) -> Iterator[tuple[str, str, Binding, Endpoint]]:
    for service, route in sorted(routes.by_service.items()):
        for revision, binding in route.bindings.items():
            for endpoint in binding.endpoints:
                yield service, revision, binding, endpoint


def _pools(routes: Routes, value: Callable[[Pool], float | Histogram]) -> Iterator[Sample]:
    """By address, which services and revisions may share."""
    pools = {endpoint.pool for *_, endpoint in _endpoints(routes)}
    for pool in sorted(pools, key=lambda pool: pool.address):
        host, port, tls = pool.address
        shown = f"[{host}]" if ":" in host else host
        yield _labels(address=f"{'https' if tls else 'http'}://{shown}:{port}"), value(pool)


def _open_files() -> Iterator[int]:
    """Of this process, where the system tells."""
    folder = Path("/proc/self/fd")
    if folder.exists():
        yield folder.stat().st_size or sum(1 for _ in folder.iterdir())  # kernels before 6.2 have no size here


def _outcomes(traffic: Iterable[Traffic]) -> Iterator[Sample]:
    for one in traffic:
        for outcome, count in sorted(one.outcomes.items()):
            yield _of(one, outcome=outcome), count


def _http_errors(traffic: Iterable[Traffic]) -> Iterator[Sample]:
    for one in traffic:
        for status, count in sorted(one.http_errors.items()):
            yield _of(one, status=str(status)), count


def _tokens(traffic: Iterable[Traffic]) -> Iterator[Sample]:
    for one in traffic:
        for (direction, source), count in sorted(one.tokens.items()):
            yield _of(one, direction=direction, source=source), count


def _route(table: RouteTable) -> str:
    return _labels(service=table.service, revision=table.active, decision=table.decision_id)


def _of(traffic: Traffic, **more: str) -> str:
    return _labels(service=traffic.service, revision=traffic.revision, **more)


def _labels(**labels: str) -> str:
    return ",".join([f'{label}="{_escaped(text)}"' for label, text in labels.items()])


def _histogram(name: str, labels: str, histogram: Histogram) -> str:
    before = f"{labels}," if labels else ""
    lines = [_line(f"{name}_bucket", f'{before}le="{edge}"', count) for edge, count in histogram.cumulative()]
    lines += [_line(f"{name}_sum", labels, histogram.sum), _line(f"{name}_count", labels, histogram.count)]
    return "".join(lines)


def _line(name: str, labels: str, value: float) -> str:
    return f"{PREFIX}{name}{{{labels}}} {value}\n" if labels else f"{PREFIX}{name} {value}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
