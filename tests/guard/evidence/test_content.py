"""What makes two records one measurement: the same times, whatever else their files say."""

import math
from array import array

import pytest

from pulumi_infercrane.guard.evidence import content
from pulumi_infercrane.guard.evidence.records import (
    Benchmark,
    Cost,
    Latency,
    Quality,
    Reliability,
    Replay,
    Replayed,
    Requests,
)
from pulumi_infercrane.guard.evidence.request_times import request_times

TIMES = (0.1, 0.3, 0.2, 0.4)


def content_of(record):
    return content.content_of(record, request_times(record))


def requests(ttft, e2e=None):
    e2e = [math.nan] * len(ttft) if e2e is None else e2e
    zeros = array("d", [0.0] * len(ttft))
    return Requests(b"\1" * len(ttft), array("d", ttft), zeros, array("d", e2e), zeros, zeros)


def run(ttft=TIMES, e2e=None, **changes):
    return Benchmark(attempted=len(ttft), failed=0, requests=requests(ttft, e2e), **changes)


def in_sum(*values, mean=None):
    quantiles = {0.5 + index / 100: value for index, value in enumerate(values)}
    return {"ttft_s": Latency(quantiles, mean)}


def test_the_order_of_requests_and_what_else_is_said_do_not_matter():
    assert content_of(run()) == content_of(run(sorted(TIMES), concurrency=8.0, errors={"503": 1}))
    assert len(content_of(run())) == 1


def test_one_other_time_is_another_measurement():
    assert content_of(run()).isdisjoint(content_of(run((0.1, 0.3, 0.2, 0.400001))))
    assert content_of(run(TIMES, TIMES)).isdisjoint(content_of(run(TIMES, (*TIMES[:3], math.nan))))
    more = (*TIMES, math.nan), (*TIMES, 0.1)
    assert content_of(run(*more)).isdisjoint(content_of(run(*more[::-1])))


def test_requests_without_any_time_do_not_matter():
    """As failed ones, which a copy may leave out."""
    assert content_of(run()) == content_of(run((*TIMES, math.nan)))


@pytest.mark.parametrize("ttft", [TIMES[:3], (0.1, 0.2, 0.3) * 100, (0.5,) * 100, (math.nan,) * 100, ()])
def test_fewer_than_four_different_times_may_be_equal_by_chance(ttft):
    assert content_of(run(ttft)) == frozenset()


def test_a_run_is_also_known_by_what_it_says_in_sum():
    both = content_of(run(latencies=in_sum(0.1, 0.2, 0.3, mean=0.15)))
    summary = Benchmark(attempted=9, failed=0, latencies=in_sum(0.1, 0.2, 0.3, mean=0.15))
    assert len(both) == 2
    assert both == content_of(run()) | content_of(summary)
    assert content_of(Benchmark(attempted=9, failed=0, latencies=in_sum(0.1, 0.2, 0.3))) == frozenset()


def test_a_replay_and_a_soak_are_known_by_their_times():
    replay = Replay({str(time): Replayed(True, "complete", ttft_s=time) for time in TIMES}, 4, "")
    backwards = Replay({str(time): Replayed(False, "cut", e2e_s=None, ttft_s=time) for time in TIMES[::-1]}, 4, "")
    soak = Reliability(4, 0, times_s=array("d", TIMES))
    assert content_of(replay) == content_of(backwards) != frozenset()
    assert len(content_of(soak)) == 1
    assert content_of(soak).isdisjoint(content_of(run()))


def test_what_has_no_times_has_no_content():
    cost = Cost(currency="USD", duration_s=3600.0, gpu_cost=2.0)
    for record in (cost, Quality("basics", "exact", "", {}), Reliability(600, 0, 1800.0, cold_starts_s=TIMES)):
        assert content_of(record) == frozenset()
