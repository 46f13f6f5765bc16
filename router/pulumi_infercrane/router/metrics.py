"""Counters in Prometheus text form. Label values come from the table, never from a request."""

from collections.abc import Iterable, Iterator, Mapping

from pulumi_infercrane.router.table import RouteTable
from pulumi_infercrane.router.traffic import Traffic, TrafficBook

PREFIX = "infercrane_router_"

Sample = tuple[Mapping[str, str], float]


def render(tables: Mapping[str, RouteTable], book: TrafficBook) -> str:
    """All families, each with its type line."""
    traffic = book.all()
    unbound = [({"service": "", "revision": "", "outcome": o}, n) for o, n in sorted(book.unbound.items())]
    families = (
        ("requests_total", "counter", [*_outcomes(traffic), *unbound]),
        ("inflight", "gauge", [(_labels(t), t.inflight) for t in traffic]),
        ("tokens_total", "counter", _tokens(traffic)),
        ("ttft_seconds_sum", "counter", [(_labels(t), t.ttft_seconds) for t in traffic]),
        ("ttft_seconds_count", "counter", [(_labels(t), t.ttft_count) for t in traffic]),
        ("cut_total", "counter", [(_labels(t), t.cut) for t in traffic]),
        ("recorded_total", "counter", [({"outcome": o}, n) for o, n in sorted(book.recorded.items())]),
        ("route_generation", "gauge", [({"service": s}, t.generation) for s, t in sorted(tables.items())]),
        ("route_info", "gauge", [(_route(table), 1) for _, table in sorted(tables.items())]),
    )
    return "".join(line for name, kind, samples in families for line in _family(name, kind, samples))


def _outcomes(traffic: Iterable[Traffic]) -> Iterator[Sample]:
    for one in traffic:
        for outcome, count in sorted(one.outcomes.items()):
            yield {**_labels(one), "outcome": outcome}, count


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
        inside = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        yield f"{PREFIX}{name}{{{inside}}} {value}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
