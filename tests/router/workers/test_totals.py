"""Prometheus texts of several processes as one."""

from pulumi_infercrane.router.workers import totals

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
