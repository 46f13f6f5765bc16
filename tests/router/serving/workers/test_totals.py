"""Prometheus texts of several processes as one."""

from pulumi_infercrane.router.clients.admission import ServiceQueue
from pulumi_infercrane.router.counting.traffic import TrafficBook
from pulumi_infercrane.router.routing.routes import Routes
from pulumi_infercrane.router.serving.workers import totals
from pulumi_infercrane.router.telemetry.metrics import render

ONE = """# TYPE infercrane_router_requests_total counter
infercrane_router_requests_total{service="a b",revision="r1",outcome="ok"} 3
# TYPE infercrane_router_inflight gauge
infercrane_router_inflight{service="a b",revision="r1"} 2
# TYPE infercrane_router_ttft_seconds_sum counter
infercrane_router_ttft_seconds_sum{service="a b",revision="r1"} 0.25
# TYPE infercrane_router_route_generation gauge
infercrane_router_route_generation{service="a b"} 7
# TYPE infercrane_router_replica_ready gauge
infercrane_router_replica_ready{upstream="u"} 1
# TYPE infercrane_router_replica_failed_probes gauge
infercrane_router_replica_failed_probes{upstream="u"} 0
"""
OTHER = (
    ONE.replace("} 1\n", "} 0\n")
    .replace('outcome="ok"', 'outcome="other"')
    .replace('probes{upstream="u"} 0', 'probes{upstream="u"} 4')
)


def test_a_text_alone_stays_as_it_is() -> None:
    assert totals.written(totals.added([totals.read(ONE)])) == ONE


def test_samples_are_added_except_those_of_the_table_and_of_replicas() -> None:
    together = totals.written(totals.added([totals.read(ONE), totals.read(OTHER), totals.read(ONE)]))
    assert together.splitlines()[1:3] == [
        'infercrane_router_requests_total{service="a b",revision="r1",outcome="ok"} 6',
        'infercrane_router_requests_total{service="a b",revision="r1",outcome="other"} 3',
    ]
    for line in (
        'infercrane_router_inflight{service="a b",revision="r1"} 6',
        'infercrane_router_ttft_seconds_sum{service="a b",revision="r1"} 0.75',
        'infercrane_router_route_generation{service="a b"} 7',
        'infercrane_router_replica_ready{upstream="u"} 0',
        'infercrane_router_replica_failed_probes{upstream="u"} 4',
    ):
        assert line in together.splitlines()


def test_of_a_process_that_ended_the_counters_stay() -> None:
    assert set(totals.counted(totals.read(ONE))) == {
        "infercrane_router_requests_total",
        "infercrane_router_ttft_seconds_sum",
    }


def test_a_removed_revision_ends_its_series() -> None:
    left = totals.without(totals.read(ONE), "a b", "r1")
    assert not left["infercrane_router_requests_total"].samples
    assert left["infercrane_router_route_generation"].samples
    assert totals.without(totals.read(ONE), "a b", "r2") == totals.read(ONE)


def of_a_process(held_s: float, applied: int) -> totals.Families:
    """What one process renders: it has one limited service, a connection, and has held its loop once."""
    book, routes = TrafficBook(lambda: 0.0), Routes({}, {})
    book.loop_stall.add(held_s)
    book.of("chat", "r1").gaps.add_together(0.4, 4)
    book.applied["chat", "applied"] += applied
    queue = ServiceQueue("chat", book, lambda bound: bound)
    queue.waited.add(0.3)
    return totals.read(render(routes, book, [queue]))


def test_histograms_and_open_files_are_added_and_changes_counted_where_they_are_decided() -> None:
    supervisor, one, other = of_a_process(0.001, 3), of_a_process(0.2, 0), of_a_process(2.0, 0)
    text = totals.written(totals.added([supervisor, one, other]))
    for line in (
        'loop_stall_seconds_bucket{le="0.005"} 1',
        'loop_stall_seconds_bucket{le="0.25"} 2',
        "loop_stall_seconds_count 3",
        'queue_seconds_bucket{service="chat",le="0.5"} 3',
        'event_gap_seconds_bucket{service="chat",revision="r1",le="0.1"} 12',
        'route_apply_total{service="chat",result="applied"} 3',
    ):
        assert f"infercrane_router_{line}\n" in text
    (files,) = one["infercrane_router_open_fds"].samples.values()
    assert f"infercrane_router_open_fds {3 * int(files)}\n" in text


def test_of_a_process_that_ended_no_open_file_stays() -> None:
    ended = totals.counted(of_a_process(2.0, 0))
    assert "infercrane_router_open_fds" not in ended
    assert ended["infercrane_router_loop_stall_seconds"].samples["infercrane_router_loop_stall_seconds_count"] == 1
