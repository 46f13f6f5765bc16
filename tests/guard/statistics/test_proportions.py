"""Shares of events, against tabled values and scipy."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from pulumi_infercrane.guard import statistics

EXAMPLES = settings(max_examples=100)

PROPORTIONS = [
    (49, 150, 0.263364, 0.395193),
    (0, 150, 0, 0.019773),
    (19, 20, 0.783894, 0.997439),
    (6, 60, 0.044453, 0.187857),
    (0, 60, 0, 0.048703),
    (0, 300, 0, 0.009936),
    (0, 299, 0, 0.009969),
    (0, 598, 0, 0.004997),
    (1, 300, 0.000171, 0.015715),
    (0, 2044, 0, 0.001465),
    (11, 80, 0.0791, 0.2173),
    (34, 80, 0.3312, 0.5231),
    (4904, 5097, 0.9574, 0.9664),
]


@pytest.mark.parametrize(("k", "n", "lo", "hi"), PROPORTIONS)
def test_clopper_pearson_values(k, n, lo, hi):
    interval = statistics.proportion(k, n)
    assert (interval.lo, interval.hi) == (pytest.approx(lo, abs=5e-5), pytest.approx(hi, abs=5e-5))


@EXAMPLES
@given(st.integers(1, 3000), st.data())
def test_clopper_pearson_is_that_of_scipy(n, data):
    k = data.draw(st.integers(0, n))
    interval = statistics.proportion(k, n)
    assert interval.lo == pytest.approx(special.betaincinv(k, n - k + 1, 0.05) if k else 0, abs=1e-9)
    assert interval.hi == pytest.approx(special.betaincinv(k + 1, n - k, 0.95) if k < n else 1, abs=1e-9)


@pytest.mark.parametrize(
    ("limit", "n", "most_that_passes", "least_that_fails"),
    [
        (0.05, 59, 0, 7),
        (0.05, 150, 2, 13),
        (0.05, 445, 14, 31),
        (0.01, 299, 0, 7),
        (0.01, 1000, 4, 16),
        (0.01, 2070, 13, 29),
        (0.005, 598, 0, 7),
        (0.005, 5000, 16, 34),
    ],
)
def test_largest_pass_and_smallest_fail(limit, n, most_that_passes, least_that_fails):
    assert statistics.upper_bound(most_that_passes, n) <= limit < statistics.upper_bound(most_that_passes + 1, n)
    assert statistics.lower_bound(least_that_fails - 1, n) <= limit < statistics.lower_bound(least_that_fails, n)


@pytest.mark.parametrize(("limit", "n"), [(0.05, 59), (0.02, 149), (0.01, 299), (0.005, 598), (0.001, 2995)])
def test_smallest_sample_that_passes_without_an_event(limit, n):
    assert statistics.clean_minimum(limit) == n


@pytest.mark.parametrize(
    ("counts", "lo", "hi"),
    [
        ((0, 60, 6, 60), 0.035901, 0.181920),
        ((0, 538, 0, 538), -0.005004, 0.005004),
        ((0, 539, 0, 539), -0.004994, 0.004994),
        ((10, 1000, 12, 1000), -0.006030, 0.010176),
        ((5, 1000, 25, 1000), 0.011316, 0.029832),
    ],
)
def test_newcombe_values(counts, lo, hi):
    difference = statistics.unpaired_difference(*counts)
    assert (difference.lo, difference.hi) == (pytest.approx(lo, abs=1e-6), pytest.approx(hi, abs=1e-6))


def test_newcombe_p_agrees_with_its_interval():
    difference = statistics.unpaired_difference(5, 1000, 25, 1000)
    assert statistics.normal_tail((difference.estimate - difference.lo) / difference.se) == pytest.approx(0.05)


def test_a_limit_of_everything_takes_one_request():
    assert statistics.clean_minimum(1.0) == 1
