"""Counters in Prometheus text form. Label values come from the table, never from a request."""

from collections.abc import Iterable, Iterator, Mapping

from pulumi_infercrane.router.admission import ServiceQueue
from pulumi_infercrane.router.histograms import Histogram
from pulumi_infercrane.router.replicas import ReplicaState, state_of
from pulumi_infercrane.router.routes import Routes
from pulumi_infercrane.router.table import RouteTable
from pulumi_infercrane.router.traffic import Traffic, TrafficBook
from pulumi_infercrane.router.transitions import carried

PREFIX = "infercrane_router_"

Sample = tuple[Mapping[str, str], float | Histogram]
Family = tuple[str, str, Iterable[Sample]]
"""Name, type and samples."""


def render(routes: Routes, book: TrafficBook, queues: Iterable[ServiceQueue] = ()) -> str:
    """All families, each with its type line."""
    traffic, tables = book.all(), routes.tables
    queues = sorted(queues, key=lambda queue: queue.service)
    unbound = [({"service": "", "revision": "", "outcome": o}, n) for o, n in sorted(book.unbound.items())]
    families: Iterable[Family] = (
        ("requests_total", "counter", [*_outcomes(traffic), *unbound]),
        ("http_errors_total", "counter", _http_errors(traffic)),
        ("inflight", "gauge", [(_labels(t), t.inflight) for t in traffic]),
        ("tokens_total", "counter", _tokens(traffic)),
        ("request_seconds", "histogram", [(_labels(t), t.seconds) for t in traffic]),
        ("ttft_seconds", "histogram", [(_labels(t), t.ttft) for t in traffic]),
        ("cut_total", "counter", [(_labels(t), t.cut) for t in traffic]),
        ("refused_total", "counter", [({"service": s, "reason": r}, n) for (s, r), n in sorted(book.refused.items())]),
        ("queued", "gauge", [({"service": q.service}, q.length) for q in queues]),
        ("queue_seconds_sum", "counter", [({"service": q.service}, q.waited_seconds) for q in queues]),
        ("queue_seconds_count", "counter", [({"service": q.service}, q.waited_count) for q in queues]),
        ("recorded_total", "counter", [({"outcome": o}, n) for o, n in sorted(book.recorded.items())]),
        ("told_total", "counter", [({"outcome": o}, n) for o, n in sorted(book.told.items())]),
        ("route_generation", "gauge", [({"service": s}, t.generation) for s, t in sorted(tables.items())]),
        ("route_info", "gauge", [(_route(table), 1) for _, table in sorted(tables.items())]),
        ("route_weight", "gauge", _weights(tables)),
        ("spilled_total", "counter", _spilled(traffic)),
        ("not_renamed_total", "counter", [(_labels(t), t.not_renamed) for t in traffic]),
        ("mirrored_total", "counter", _outcomes(book.copies())),
        ("mirror_dropped_total", "counter", _dropped(book)),
        *_replica_families(routes),
    )
    return "".join(line for name, kind, samples in families for line in _family(name, kind, samples))


def _weights(tables: Mapping[str, RouteTable]) -> Iterator[Sample]:
    """Percent of the requests that are not pinned."""
    for service, table in sorted(tables.items()):
        for revision, weight in sorted(carried(table).items()):
            yield {"service": service, "revision": revision}, weight


def _spilled(traffic: Iterable[Traffic]) -> Iterator[Sample]:
    """Requests bound to `revision` that `to` answered."""
    for one in traffic:
        for other, count in sorted(one.spilled.items()):
            yield {**_labels(one), "to": other}, count


def _dropped(book: TrafficBook) -> Iterator[Sample]:
    for (service, revision, reason), count in sorted(book.dropped_copies.items()):
        yield {"service": service, "revision": revision, "reason": reason}, count


def _replica_families(routes: Routes) -> Iterator[Family]:
    states = list(_replica_states(routes))
    yield "replica_ready", "gauge", [(labels, int(state.ready)) for labels, state in states]
    yield "replica_inflight", "gauge", [(labels, state.inflight) for labels, state in states]
    yield "replica_answered_total", "counter", [(labels, state.answered) for labels, state in states]
    yield "replica_failed_total", "counter", [(labels, state.failed) for labels, state in states]
    yield "replica_ejections_total", "counter", [(labels, state.ejections) for labels, state in states]
    yield "replica_failed_probes", "gauge", [(labels, state.failed_probes) for labels, state in states]


def _replica_states(routes: Routes) -> Iterator[tuple[dict[str, str], ReplicaState]]:
    for service, route in sorted(routes.by_service.items()):
        for revision, binding in route.bindings.items():
            for endpoint in binding.endpoints:
                labels = {"service": service, "revision": revision, "upstream": endpoint.id}
                yield labels, state_of(binding.replicas, endpoint)


def _outcomes(traffic: Iterable[Traffic]) -> Iterator[Sample]:
    for one in traffic:
        for outcome, count in sorted(one.outcomes.items()):
            yield {**_labels(one), "outcome": outcome}, count


def _http_errors(traffic: Iterable[Traffic]) -> Iterator[Sample]:
    for one in traffic:
        for status, count in sorted(one.http_errors.items()):
            yield {**_labels(one), "status": str(status)}, count


def _tokens(traffic: Iterable[Traffic]) -> Iterator[Sample]:
    for one in traffic:
        for (direction, source), count in sorted(one.tokens.items()):
            yield {**_labels(one), "direction": direction, "source": source}, count


def _labels(traffic: Traffic) -> dict[str, str]:
    return {"service": traffic.service, "revision": traffic.revision}


def _route(table: RouteTable) -> dict[str, str]:
    return {"service": table.service, "revision": table.active, "decision": table.decision_id}


def _family(name: str, kind: str, samples: Iterable[Sample]) -> Iterator[str]:
    yield f"# TYPE {PREFIX}{name} {kind}\n"
    for labels, value in samples:
        if isinstance(value, Histogram):
            for edge, count in value.cumulative():
                yield _line(f"{name}_bucket", {**labels, "le": edge}, count)
            yield _line(f"{name}_sum", labels, value.sum)
            yield _line(f"{name}_count", labels, value.count)
        else:
            yield _line(name, labels, value)


def _line(name: str, labels: Mapping[str, str], value: float) -> str:
    inside = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
    return f"{PREFIX}{name}{{{inside}}} {value}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
