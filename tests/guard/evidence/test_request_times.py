"""Which runs share requests: what lost or gained some does, what is equal by chance or by rounding does not."""

import math
import random
from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulumi_infercrane.guard.evidence import request_times as request_times_module
from pulumi_infercrane.guard.evidence.records import Benchmark, Cost, Reliability, Replay, Replayed, Requests
from pulumi_infercrane.guard.evidence.request_times import request_times, shared

N = 400
MILLISECONDS, MICROSECONDS, NANOSECONDS = 3, 6, 9


def rows(seed, n=N, digits=NANOSECONDS):
    """Time to first token and whole duration of so many requests, as a server takes them."""
    source = random.Random(seed)
    first = [round(source.lognormvariate(-3, 0.4), digits) for _ in range(n)]
    return [(ttft, round(ttft + source.gauss(2.0, 0.2), digits)) for ttft in first]


def times(requests):
    """As a load run of these requests has them."""
    ttft, e2e = (array("d", column) for column in zip(*requests, strict=True))
    nothing = array("d", [math.nan]) * len(ttft)
    return request_times(
        Benchmark(len(ttft), 0, requests=Requests(b"\1" * len(ttft), ttft, nothing, e2e, nothing, nothing))
    )


def without(requests, dropped):
    return [request for index, request in enumerate(requests) if index not in dropped]


@pytest.mark.parametrize("digits", [MILLISECONDS, MICROSECONDS, NANOSECONDS])
def test_a_run_that_lost_gained_or_was_appended_requests_shares_them(digits):
    run, other = rows(1, digits=digits), rows(2, digits=digits)
    for changed in (run[:-1], run[1:], without(run, {7, 9}), [*run, other[0]], [*other, *run], run[::-1]):
        assert shared(times(run), times(changed)) == shared(times(changed), times(run)) >= N - 5


@pytest.mark.parametrize("digits", [0, 1, 2, MILLISECONDS, MICROSECONDS, NANOSECONDS])
@pytest.mark.parametrize("sizes", [(N, N), (N, 5 * N), (20, N)])
def test_two_runs_share_none_however_coarse_their_times(digits, sizes):
    for seed in range(10):
        one, other = (times(rows(f"{seed} {side}", n, digits)) for side, n in enumerate(sizes))
        assert shared(one, other) == 0


def test_a_hundredth_of_fine_times_is_enough_and_less_is_not():
    run = rows(1, 10_000)
    assert shared(times(run), times([*rows(2, 9_900), *run[:100]])) == 100
    assert shared(times(run), times([*rows(2, 9_901), *run[:99]])) == 0


def test_fewer_than_42_may_be_equal_by_chance():
    run = rows(1, 60)
    assert shared(times(run), times([*rows(2, 18), *run[:42]])) == 42
    assert shared(times(run), times([*rows(2, 19), *run[:41]])) == 0


def test_times_that_repeat_within_a_run_prove_less():
    """The same hundred shared requests, beside as many that each run holds twice."""
    common, own = rows(1, 100), rows(2, 100)
    assert shared(times([*common, *own]), times(common)) == 100
    assert shared(times([*common, *own, *own]), times(common)) == 0


def test_a_run_beside_one_that_holds_each_of_its_requests_twice():
    run = rows(1)
    assert shared(times(run), times([*run, *run])) == N


def test_a_server_that_takes_equally_long_twice_is_no_copy_where_times_are_rounded():
    """A third of the requests with the very same milliseconds on both sides, whatever the odds of that."""
    run = rows(1, digits=MILLISECONDS)
    assert shared(times(run), times([*run[: N // 3], *rows(2, N - N // 3, MILLISECONDS)])) == 0
    assert shared(times(run), times([*run[: 2 * N // 3], *rows(2, N // 3, MILLISECONDS)])) > N // 2


def test_rounded_on_one_side_is_rounded():
    run = rows(1)
    mixed = [*run[: N // 3], *rows(2, N, MILLISECONDS)]
    assert shared(times(run), times(mixed)) == 0


def test_replays_and_soaks_have_times_too():
    run = rows(1)
    answers = {str(index): Replayed(True, "complete", ttft_s=ttft, e2e_s=e2e) for index, (ttft, e2e) in enumerate(run)}
    replay = request_times(Replay(answers, N, ""))
    assert shared(replay, request_times(Replay(dict(list(answers.items())[1:]), N, ""))) == N - 1
    soaks = [
        request_times(Reliability(N, 0, times_s=array("d", [e2e for _, e2e in asked]))) for asked in (run, run[1:])
    ]
    assert shared(*soaks) == N - 1


def test_what_has_no_times_shares_nothing():
    failed = [(math.nan, math.nan)] * N
    cost = request_times(Cost(currency="USD", duration_s=3600.0, gpu_cost=2.0))
    for one in (times(failed), cost, request_times(None)):
        assert (len(one), shared(one, one)) == (0, 0)


@settings(max_examples=200, deadline=None)
@given(
    st.integers(),
    st.integers(60, 600),
    st.integers(60, 600),
    st.floats(0.0, 6.0),
    st.floats(0.05, 4.0),
)
def test_independent_runs_share_nothing_whatever_their_sizes_and_precision(seed, n, m, digits, spread):
    """Each request on a grid of any width: from all equal to all different."""
    source, cell = random.Random(seed), 10.0**-digits
    one, other = (
        times([(cell * round(source.lognormvariate(-3, spread) / cell), 1.0) for _ in range(size)]) for size in (n, m)
    )
    assert shared(one, other) == 0


@pytest.mark.parametrize("digits", [MILLISECONDS, 4, 5])
def test_the_probability_of_taking_independent_runs_for_overlapping_is_bounded(monkeypatch, digits):
    """With a bound so loose that it can be seen: of e^-1, or 37 %, and without the shares, which only lower it."""
    for name, value in {"CHANCE": 1.0, "FEWEST": 1, "SHARE": 0.0, "SHARE_OF_ROUNDED": 0.0}.items():
        monkeypatch.setattr(request_times_module, name, value)
    soaks = (
        Reliability(200, 0, times_s=array("d", [ttft for ttft, _ in rows(seed, 200, digits)])) for seed in range(400)
    )
    found = [shared(request_times(one), request_times(other)) > 0 for one, other in zip(soaks, soaks, strict=True)]
    assert 0 < sum(found) <= math.exp(-1) * len(found)
