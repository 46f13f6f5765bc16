"""Quantiles and their ratios, against resampling."""

import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from pulumi_infercrane.guard import statistics
from pulumi_infercrane.guard.statistics.quantiles import _resampled

EXAMPLES = settings(max_examples=100)


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
    source = random.Random(5)
    values = [source.lognormvariate(0, 0.3) for _ in range(200)]
    ratio = statistics.quantile_ratio(values, values, 0.5)
    assert ratio.lo < ratio.estimate == 1.0 < ratio.hi


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


@pytest.mark.parametrize(("n", "q"), [(20, 0.5), (200, 0.95), (1000, 0.99), (20_000, 0.5), (100_000, 0.95)])
def test_the_distribution_of_a_resampled_quantile_is_the_incomplete_beta_function(n, q):
    resampled = _resampled(range(1, n + 1), q)
    rank = statistics.rank_of(q, n)
    exact = [special.betainc(rank, n - rank + 1, j / n) for j in resampled.values[:-1]]
    assert resampled.cumulative == pytest.approx([*exact, 1.0], abs=1e-11)


@pytest.mark.parametrize("n", [30, 301])
def test_the_paired_ratio_is_the_limit_of_resampling_pairs(n):
    source = random.Random(n)
    pairs = [(source.lognormvariate(0, 1), source.lognormvariate(0.05, 1)) for _ in range(n)]
    ratios = np.sort([candidate / baseline for baseline, candidate in pairs])
    draws = ratios[np.random.default_rng(1).integers(0, n, (20_000, n))]
    medians = np.sort(np.sort(draws, axis=1)[:, statistics.rank_of(0.5, n) - 1])

    exact = statistics.paired_ratio(pairs)

    assert (exact.pairs, exact.estimate) == (n, ratios[statistics.rank_of(0.5, n) - 1])
    assert exact.lo == pytest.approx(medians[1000], rel=0.05)
    assert exact.hi == pytest.approx(medians[19_000], rel=0.05)
    assert exact.p_at_most(1.1) == pytest.approx(float((medians <= 1.1).mean()), abs=0.02)
    assert exact.p_at_least(0.9) == pytest.approx(float((medians >= 0.9).mean()), abs=0.02)


def test_a_pair_counts_by_its_own_ratio():
    pairs = [(1.0, 1.1), (100.0, 110.0), (0.01, 0.011)]
    ratio = statistics.paired_ratio(pairs)
    assert (ratio.lo, ratio.hi) == (pytest.approx(1.1), pytest.approx(1.1))


def test_p_of_a_median_includes_the_limit_itself():
    ratio = statistics.paired_ratio([(1.0, 2.0)] * 9)
    assert (ratio.p_at_most(2.0), ratio.p_at_least(2.0)) == (1.0, 1.0)
    assert (ratio.p_at_most(1.9), ratio.p_at_least(2.1)) == (0.0, 0.0)


def test_a_bound_is_a_ratio_that_was_measured():
    source = random.Random(8)
    baseline, candidate = ([source.lognormvariate(0, 0.5) for _ in range(60)] for _ in range(2))
    ratio = statistics.quantile_ratio(baseline, candidate, 0.5)
    ratios = {c / b for c in candidate for b in baseline}
    assert {ratio.lo, ratio.hi} <= ratios
    assert ratio.p_at_most(ratio.lo * (1 + 1e-12)) >= 0.05 > ratio.p_at_most(ratio.lo * (1 - 1e-12))
    assert ratio.p_at_most(ratio.hi * (1 + 1e-12)) >= 0.95 > ratio.p_at_most(ratio.hi * (1 - 1e-12))


def test_figures_of_a_coarse_clock_are_judged_as_quickly():
    source = random.Random(4)
    sides = [[math.ceil(40 * source.lognormvariate(0, 0.5)) / 1000 for _ in range(20_000)] for _ in range(2)]
    ratio = statistics.quantile_ratio(*sides, 0.5)
    assert len(ratio.baseline.values) < 10
    assert ratio.lo <= ratio.estimate <= ratio.hi


@pytest.mark.parametrize(
    ("q", "n", "rank"),
    [
        (0.5, 1, 1),
        (0.5, 4, 2),
        (0.5, 5, 3),
        (0.95, 20, 19),
        (0.95, 21, 20),
        (0.95, 100, 95),
        (0.01, 3, 1),
        (0.55, 20, 11),
    ],
)
def test_a_quantile_is_the_first_value_that_so_many_do_not_exceed(q, n, rank):
    assert statistics.quantile([float(value) for value in range(1, n + 1)], q) == rank


def test_the_interval_of_few_values_is_all_of_them():
    interval = statistics.quantile_interval([1.0, 2.0, 3.0, 4.0], 0.5)
    assert (interval.lo, interval.estimate, interval.hi) == (1.0, 2.0, 4.0)


def test_infinite_against_infinite_is_infinite():
    assert statistics.quantile_ratio([math.inf] * 9, [math.inf] * 9, 0.5).estimate == math.inf


def spread(n, factor=1.0, failed=0):
    return [factor * (1 + 0.001 * (37 * index % n)) for index in range(n - failed)] + [math.inf] * failed


@pytest.mark.parametrize("factor", [1e-4, 0.1, 1.0, 10.0, 1e4])
def test_a_ratio_of_any_size_has_the_same_interval_around_it(factor):
    same = statistics.quantile_ratio(spread(400), spread(400), 0.5)
    ratio = statistics.quantile_ratio(spread(400), spread(400, factor), 0.5)
    bounds = (ratio.lo / factor, ratio.estimate / factor, ratio.hi / factor)
    assert bounds == pytest.approx((same.lo, same.estimate, same.hi))
    assert 0.9 < same.lo < 1 < same.hi < 1.1


def test_where_either_side_may_be_infinite_nothing_is_known_in_either_direction():
    """Resampled, the 95th percentile of 400 with 20 failures is infinite every other time."""
    ratio = statistics.quantile_ratio(spread(400, failed=20), spread(400, failed=20), 0.95)
    assert (ratio.lo, ratio.hi) == (0, math.inf)


def test_infinite_against_infinite_counts_as_infinite_for_the_upper_bound():
    ratio = statistics.quantile_ratio(spread(400, failed=30), spread(400, failed=20), 0.95)
    assert ratio.hi == math.inf
    assert ratio.p_at_most(1e9) < 0.6


def test_a_baseline_that_may_be_infinite_lowers_the_lower_bound_alone():
    steady = statistics.quantile_ratio(spread(400), spread(400), 0.95)
    failing = statistics.quantile_ratio(spread(400, failed=19), spread(400), 0.95)
    assert (failing.lo, failing.hi < steady.hi) == (0, True)
