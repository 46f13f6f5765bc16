"""Bounds and intervals against tabled values, and against scipy as an independent oracle."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from pulumi_infercrane.guard import statistics

EXAMPLES = settings(deadline=None, derandomize=True, max_examples=100)

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


@EXAMPLES
@given(st.floats(0, 1), st.integers(1, 50_000), st.integers(1, 50_000))
def test_incomplete_beta_is_that_of_scipy(x, a, b):
    assert statistics.regularized_beta(x, a, b) == pytest.approx(special.betainc(a, b, x), abs=1e-10)


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


@pytest.mark.parametrize(("n", "lo"), [(60, -0.0265), (100, -0.0161), (300, -0.0054), (1000, -0.0016)])
def test_without_discordant_pairs_the_bound_depends_on_n_alone(n, lo):
    assert statistics.paired_difference([0.0] * n).lo == pytest.approx(lo, abs=5e-5)


@pytest.mark.parametrize(
    ("lost", "n", "d", "lo", "hi"), [(12, 60, -19.35, -28.02, -10.69), (7, 40, -16.67, -26.90, -6.43)]
)
def test_paired_difference_values(lost, n, d, lo, hi):
    paired = statistics.paired_difference([-1.0] * lost + [0.0] * (n - lost))
    assert [100 * x for x in (paired.estimate, paired.lo, paired.hi)] == pytest.approx([d, lo, hi], abs=0.01)


def test_two_lost_of_300_are_within_two_points_and_three_are_not():
    assert statistics.paired_difference([-1.0] * 2 + [0.0] * 298).lo == pytest.approx(-0.0160, abs=5e-5)
    assert statistics.paired_difference([-1.0] * 3 + [0.0] * 297).lo == pytest.approx(-0.0208, abs=5e-5)


@EXAMPLES
@given(st.integers(0, 40), st.integers(0, 40))
def test_mcnemar_is_the_exact_binomial_test(lost, gained):
    paired = statistics.paired_difference([-1.0] * lost + [1.0] * gained + [0.0] * 10)
    expected = min(1.0, 2 * special.bdtr(min(lost, gained), lost + gained, 0.5))
    assert paired.mcnemar_p == pytest.approx(expected)


def test_five_losses_without_a_gain_are_significant_and_four_are_not():
    assert statistics.paired_difference([-1.0] * 5 + [0.0] * 30).loss_p == pytest.approx(0.03125)
    assert statistics.paired_difference([-1.0] * 4 + [0.0] * 30).loss_p == pytest.approx(0.0625)


@pytest.mark.parametrize(
    ("share", "margin", "pairs"),
    [
        (0.01, 0.01, 619),
        (0.01, 0.02, 155),
        (0.02, 0.01, 1237),
        (0.03, 0.02, 464),
        (0.05, 0.03, 344),
        (0.10, 0.02, 1546),
    ],
)
def test_pairs_needed(share, margin, pairs):
    assert statistics.pairs_needed(share, margin) == pairs


def test_normal_quantile_is_that_of_scipy():
    for alpha in (0.05, 0.025, 0.01, 0.001, 0.2):
        assert statistics.normal_quantile(alpha) == pytest.approx(special.ndtri(1 - alpha), abs=1e-10)


def test_a_quantile_survives_infinities():
    values = sorted([1.0] * 90 + [math.inf] * 10)
    assert statistics.quantile(values, 0.90) == 1.0
    assert statistics.quantile(values, 0.91) == math.inf


def test_rank_is_not_moved_by_the_error_of_a_product():
    assert statistics.rank_of(0.95, 20) == 19
    assert statistics.rank_of(0.07, 100) == 7


@pytest.mark.parametrize("q", [0.5, 0.95])
@pytest.mark.parametrize("n", [60, 400])
def test_the_ratio_interval_is_the_limit_of_resampling(q, n):
    import numpy as np

    source = random.Random(3)
    baseline = sorted(source.lognormvariate(0, 0.5) for _ in range(n))
    candidate = sorted(source.lognormvariate(0.1, 0.5) for _ in range(n))
    rank, draws = statistics.rank_of(q, n) - 1, np.random.default_rng(1)
    above = np.sort(np.array(candidate)[draws.integers(0, n, (20_000, n))], axis=1)[:, rank]
    below = np.sort(np.array(baseline)[draws.integers(0, n, (20_000, n))], axis=1)[:, rank]
    ratios = np.sort(above / below)

    exact = statistics.quantile_ratio(baseline, candidate, q)

    assert exact.lo == pytest.approx(ratios[1000], rel=0.02)
    assert exact.hi == pytest.approx(ratios[19_000], rel=0.02)
    assert exact.p_at_most(1.1) == pytest.approx(float((ratios <= 1.1).mean()), abs=0.02)


def test_the_ratio_of_a_side_to_itself_spans_one():
    values = [random.Random(5).lognormvariate(0, 0.3) for _ in range(200)]
    ratio = statistics.quantile_ratio(values, values, 0.5)
    assert ratio.lo <= ratio.estimate == 1.0 <= ratio.hi


def test_failures_beyond_the_quantile_make_the_ratio_infinite():
    baseline = [1.0 + i / 1000 for i in range(200)]
    ratio = statistics.quantile_ratio(baseline, baseline[:160] + [math.inf] * 40, 0.95)
    assert ratio.lo == ratio.estimate == ratio.hi == math.inf


def test_failures_near_the_quantile_widen_only_the_upper_bound():
    baseline = [1.0 + i / 1000 for i in range(200)]
    ratio = statistics.quantile_ratio(baseline, baseline[:190] + [math.inf] * 10, 0.95)
    assert ratio.hi == math.inf
    assert ratio.lo < 1.1


def test_failures_on_both_sides_decide_nothing():
    side = [1.0] * 150 + [math.inf] * 50
    ratio = statistics.quantile_ratio(side, side, 0.95)
    assert (ratio.lo, ratio.hi) == (0.0, math.inf)


@settings(EXAMPLES, max_examples=25)
@given(st.integers(20, 200), st.floats(0.01, 1000))
def test_a_ratio_does_not_depend_on_the_unit(n, scale):
    source = random.Random(n)
    baseline = [source.lognormvariate(0, 0.4) for _ in range(n)]
    candidate = [source.lognormvariate(0, 0.4) for _ in range(n)]
    plain = statistics.quantile_ratio(baseline, candidate, 0.5)
    scaled = statistics.quantile_ratio([scale * x for x in baseline], [scale * x for x in candidate], 0.5)
    assert (scaled.lo, scaled.hi) == (pytest.approx(plain.lo, rel=1e-9), pytest.approx(plain.hi, rel=1e-9))


def test_ten_thousand_requests_per_side_are_judged_without_resampling():
    source = random.Random(1)
    sides = [[source.lognormvariate(0, 0.5) for _ in range(10_000)] for _ in range(2)]
    ratio = statistics.quantile_ratio(*sides, 0.5)
    assert 0.95 < ratio.lo < 1 < ratio.hi < 1.05


def test_a_distribution_free_interval_spans_the_quantile():
    interval = statistics.quantile_interval([float(i) for i in range(1, 201)], 0.5)
    assert interval.lo < interval.estimate == 100.0 < interval.hi
    assert (interval.lo, interval.hi) == (88.0, 113.0)


def test_holm_steps_down():
    assert statistics.holm([0.01, 0.04, 0.03]) == (True, False, False)
    assert statistics.holm([0.001, 0.02, 0.04]) == (True, True, True)
    assert statistics.holm([0.02]) == (True,)
    assert statistics.holm([]) == ()
