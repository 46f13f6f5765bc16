"""Differences of scores, against tabled values and scipy."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from pulumi_infercrane.guard import statistics

EXAMPLES = settings(max_examples=100)


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


def test_unpaired_scores_need_many_samples_for_two_points():
    se = math.sqrt(0.8 * 0.2 / 4950)
    difference = statistics.unpaired_scores(0.8, se, 0.8, se)
    assert difference.estimate == 0.0
    assert difference.lo == pytest.approx(-0.0132, abs=5e-5)
    z = statistics.normal_quantile(0.05) + statistics.normal_quantile(0.2)
    assert z * difference.se == pytest.approx(0.02, abs=5e-5)


def test_unpaired_scores_are_candidate_minus_baseline():
    difference = statistics.unpaired_scores(0.70, 0.03, 0.62, 0.04)
    assert (difference.estimate, difference.se) == (pytest.approx(-0.08), pytest.approx(0.05))
    assert (difference.lo, difference.hi) == (pytest.approx(-0.162243, abs=1e-6), pytest.approx(0.002243, abs=1e-6))


def test_the_mean_over_tasks_weighs_tasks_not_items():
    small = statistics.paired_difference([-1.0] * 12 + [0.0] * 48)
    large = statistics.paired_difference([0.0] * 3000)
    mean = statistics.mean_over_tasks([small, large])
    assert mean.estimate == pytest.approx(small.estimate / 2)
    assert mean.se == pytest.approx(math.hypot(small.se, large.se) / 2)
    assert mean.lo == pytest.approx(mean.estimate - 1.6448536269514722 * mean.se)


def test_the_mean_of_one_task_is_that_task():
    task = statistics.paired_difference([-1.0, 1.0, -1.0] + [0.0] * 297)
    mean = statistics.mean_over_tasks([task])
    assert (mean.estimate, mean.lo, mean.hi) == (task.estimate, pytest.approx(task.lo), pytest.approx(task.hi))


def test_the_mean_over_tasks_does_not_depend_on_their_order():
    source = random.Random(1)
    tasks = [statistics.paired_difference([source.choice((-1.0, 0.0, 1.0)) for _ in range(50)]) for _ in range(7)]
    assert statistics.mean_over_tasks(tasks) == statistics.mean_over_tasks(tasks[::-1])
