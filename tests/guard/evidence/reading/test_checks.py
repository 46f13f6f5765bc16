"""Figures of one file that cannot be true together are refused, figures that are odd but possible are not."""

import math
from array import array
from dataclasses import replace

import pytest

from pulumi_infercrane.guard.evidence.reading.checks import (
    check_latency,
    check_total,
    checked,
    schedule_delay,
    token_doubt,
)
from pulumi_infercrane.guard.evidence.records import Benchmark, Latency, Requests
from pulumi_infercrane.guard.reasons import Inadmissible

RUN = Benchmark(
    attempted=100,
    failed=0,
    load_model="closed",
    concurrency=4,
    duration_s=25.0,
    latencies={
        "ttft_s": Latency({0.5: 0.1, 0.95: 0.2}, 0.1),
        "tpot_s": Latency({0.5: 0.01}, 0.01),
        "itl_s": Latency({0.5: 0.0, 0.95: 0.02}, 0.01),
        "e2e_s": Latency({0.5: 1.0, 0.95: 1.2}, 1.0),
    },
    out_tokens=91.0,
)


def refusal(record, **rate):
    with pytest.raises(Inadmissible) as refused:
        checked(record, **rate)
    return refused.value.problem.code


def with_latency(figure, **changes):
    return replace(RUN, latencies={**RUN.latencies, figure: replace(RUN.latencies[figure], **changes)})


def test_a_run_that_adds_up_is_returned():
    assert checked(RUN, rps=4.0, window_s=25.0) is RUN


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"failed": 101}, "counters_disagree"),
        ({"failed": -2}, "counters_disagree"),
        ({"good": 101}, "counters_disagree"),
        ({"rate": 0.0, "load_model": "open"}, "bad_value"),
        ({"concurrency": -2.0}, "bad_value"),
        ({"duration_s": 0.0}, "bad_value"),
    ],
)
def test_counts_and_loads_are_possible_ones(changes, code):
    assert refusal(replace(RUN, **changes)) == code


def test_a_run_that_says_little_is_not_refused_for_it():
    assert checked(Benchmark(None, None)) == Benchmark(None, None)
    assert checked(Benchmark(None, None), rps=3.0, window_s=1.0)


@pytest.mark.parametrize(
    ("latency", "code"),
    [
        (Latency({0.5: 0.2, 0.95: 0.1}), "inconsistent"),
        (Latency({0.5: 0.0}), "bad_value"),
        (Latency({0.5: -0.001}), "bad_value"),
        (Latency({0.99: 600.1}), "bad_value"),
        (Latency({}, 0.0), "bad_value"),
    ],
)
def test_quantiles_are_possible_and_grow(latency, code):
    with pytest.raises(Inadmissible) as refused:
        check_latency("ttft_s", latency)
    assert refused.value.problem.code == code


@pytest.mark.parametrize(
    ("figure", "latency"),
    [
        ("itl_s", Latency({0.25: 0.0, 0.5: 0.01})),
        ("ttft_s", Latency({0.5: 600.0})),
        ("e2e_s", Latency({0.5: 0.1, 0.95: math.inf})),
        ("e2e_s", Latency({0.5: 0.1, 0.95: 0.1})),
    ],
)
def test_zero_gaps_equal_quantiles_and_infinity_are_legal(figure, latency):
    check_latency(figure, latency)


@pytest.mark.parametrize(("total", "fine"), [(4869.98, True), (4869.0, True), (4850.0, False)])
def test_mean_times_count_is_the_sum(total, fine):
    if fine:
        check_total("ttft_s", 57.294, 85, total)
    else:
        with pytest.raises(Inadmissible, match="inconsistent"):
            check_total("ttft_s", 57.294, 85, total)


@pytest.mark.parametrize(("rps", "code"), [(4.08, ""), (3.92, ""), (4.1, "inconsistent"), (3.88, "inconsistent")])
def test_requests_per_second_times_duration_is_the_number_of_answers(rps, code):
    if code:
        assert refusal(RUN, rps=rps, window_s=25.0) == code
    else:
        checked(RUN, rps=rps, window_s=25.0)


@pytest.mark.parametrize(
    ("changes", "rps", "refused"),
    [
        ({}, 4.8, False),
        ({}, 4.9, True),
        ({}, 3.1, True),
        ({"load_model": "open"}, 3.1, False),
        ({"failed": 1}, 3.1, False),
        ({"concurrency": 11}, 3.1, False),  # so few rounds that start and end weigh
        ({"concurrency": None}, 3.1, False),
    ],
)
def test_a_closed_loop_keeps_its_concurrency(changes, rps, refused):
    record = replace(RUN, **changes)
    if refused:
        assert refusal(record, rps=rps) == "inconsistent"
    else:
        checked(record, rps=rps)


@pytest.mark.parametrize(("e2e", "refused"), [(1.1, False), (0.92, False), (1.12, True), (0.9, True)])
def test_the_parts_of_a_request_make_the_whole(e2e, refused):
    record = with_latency("e2e_s", mean=e2e)
    assert (refusal(record) == "inconsistent") if refused else checked(record)
    assert checked(replace(record, token_doubt="two counts"))


def test_no_request_lasts_longer_than_the_run():
    assert refusal(with_latency("ttft_s", quantiles={0.5: 51.0})) == "unit_suspect"
    assert checked(with_latency("ttft_s", quantiles={0.5: 49.0}))


@pytest.mark.parametrize(
    "changes", [{"failed": 101}, {"failed": 60, "incomplete": 41}, {"good": 101}, {"failed": 1, "good": 100}]
)
def test_counters_agree(changes):
    assert refusal(replace(RUN, **changes)) == "counters_disagree"


def requests(n=100, failed=0, ttft=0.1):
    ok = bytes([1] * (n - failed) + [0] * failed)
    columns = (ttft, 0.01, 1.0, 20.0, 91.0)
    return Requests(ok, *(array("d", [x] * (n - failed) + [math.nan] * failed) for x in columns))


@pytest.mark.parametrize(
    ("kept", "code"),
    [
        (requests(99), "counters_disagree"),
        (requests(failed=1), "counters_disagree"),
        (requests(ttft=0.15), "inconsistent"),
        (requests(ttft=0.4), "inconsistent"),
    ],
)
def test_a_summary_is_that_of_its_requests(kept, code):
    latencies = {"ttft_s": Latency({0.5: 0.1}, 0.1)}
    assert refusal(replace(RUN, requests=kept, latencies=latencies)) == code
    assert checked(replace(RUN, requests=requests(), latencies=latencies))


def test_any_way_of_interpolating_a_quantile_will_do():
    kept = requests(3)
    for index, value in enumerate((0.1, 0.2, 0.3)):
        kept.ttft_s[index] = value
        kept.e2e_s[index] = value + 0.9
    for median in (0.1, 0.15, 0.2, 0.25, 0.3):
        latencies = {"ttft_s": Latency({0.5: median})}
        assert checked(replace(RUN, attempted=3, requests=kept, latencies=latencies))


@pytest.mark.parametrize(
    ("client", "server", "doubt"), [(1241, 744, True), (100, 95, False), (100, 94, True), (None, 5, False)]
)
def test_two_counts_of_tokens_may_differ_by_five_percent(client, server, doubt):
    assert bool(token_doubt(client, server, "who")) == doubt


@pytest.mark.parametrize(
    ("p99", "ttft", "late"),
    [(0.05, None, False), (0.051, 0.5, True), (0.09, 1.0, False), (0.11, 1.0, True), (None, 1.0, False)],
)
def test_requests_may_leave_a_twentieth_second_late_or_a_tenth_of_the_first_token(p99, ttft, late):
    assert bool(schedule_delay(p99, ttft)) == late
