"""Ratios over repeated runs, against scipy's paired t interval."""

import math
import random

import numpy as np
import pytest
from scipy import stats

from pulumi_infercrane.guard import statistics


@pytest.mark.parametrize("runs", [3, 5, 12])
def test_the_interval_is_that_of_a_paired_t_test(runs):
    source = random.Random(runs)
    baseline = [source.lognormvariate(0, 0.3) for _ in range(runs)]
    candidate = [source.lognormvariate(0.1, 0.3) for _ in range(runs)]
    test = stats.ttest_rel(np.log(candidate), np.log(baseline))
    expected = test.confidence_interval(0.90)

    ratio = statistics.repeated_ratio(baseline, candidate)

    assert (math.log(ratio.lo), math.log(ratio.hi)) == (pytest.approx(expected.low), pytest.approx(expected.high))
    assert ratio.p_at_most(1.0) == pytest.approx(
        stats.ttest_rel(np.log(candidate), np.log(baseline), alternative="greater").pvalue
    )
    assert ratio.p_at_least(1.0) == pytest.approx(1 - ratio.p_at_most(1.0))


def test_three_runs_by_hand():
    ratio = statistics.repeated_ratio([1.0, 1.0, 1.0], [math.exp(x) for x in (0.05, 0.10, 0.15)])
    assert (ratio.runs, ratio.estimate, ratio.log_se) == (3, pytest.approx(math.exp(0.10)), pytest.approx(0.0288675))
    half = 2.9200 * 0.05 / math.sqrt(3)
    assert ratio.hi == pytest.approx(math.exp(0.10 + half), abs=1e-5)
    assert ratio.lo == pytest.approx(math.exp(0.10 - half), abs=1e-5)


def test_p_agrees_with_the_bound():
    ratio = statistics.repeated_ratio([1.0, 1.1, 0.9, 1.0], [1.2, 1.3, 1.2, 1.0])
    assert ratio.p_at_most(ratio.lo) == pytest.approx(0.05)
    assert ratio.p_at_least(ratio.hi) == pytest.approx(0.05)


def test_runs_that_agree_exactly_leave_no_doubt():
    ratio = statistics.repeated_ratio([1.0, 1.0, 1.0], [1.2, 1.2, 1.2])
    assert (ratio.lo, ratio.hi) == (ratio.estimate, ratio.estimate)
    assert (ratio.p_at_most(1.1), ratio.p_at_most(1.3)) == (0.0, 1.0)


@pytest.mark.parametrize(("baseline", "candidate"), [([1.0] * 2, [1.0] * 2), ([1.0] * 3, [1.0] * 4)])
def test_fewer_than_three_pairs_of_runs_give_no_interval(baseline, candidate):
    with pytest.raises(ValueError, match="pairs of at least 3"):
        statistics.repeated_ratio(baseline, candidate)


def test_runs_without_any_noise_are_certain_and_at_the_limit_in_favour():
    same = statistics.repeated_ratio([1.0] * 3, [1.0] * 3)
    assert (same.p_at_most(1.0), same.p_at_most(0.9), same.p_at_most(1.1)) == (1, 0, 1)
    assert (same.p_at_least(1.0), same.p_at_least(0.9), same.p_at_least(1.1)) == (1, 1, 0)
