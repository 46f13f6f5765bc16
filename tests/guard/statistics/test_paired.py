"""Differences of scores, against tabled values and scipy."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, special

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
        (0.01, 0.01, 856),
        (0.01, 0.02, 298),
        (0.02, 0.01, 1397),
        (0.03, 0.02, 558),
        (0.05, 0.03, 400),
        (0.10, 0.02, 1578),
    ],
)
def test_pairs_needed(share, margin, pairs):
    assert statistics.pairs_needed(share, margin) == pairs


@pytest.mark.parametrize(("share", "margin"), [(0.01, 0.02), (0.02, 0.02), (0.05, 0.03)])
def test_as_many_pairs_as_needed_show_equality_in_four_of_five_cases(share, margin):
    n = statistics.pairs_needed(share, margin)
    quantile = statistics.normal_quantile(0.05)
    power = sum(
        math.comb(n, moved) * share**moved * (1 - share) ** (n - moved) * math.comb(moved, lost) * 0.5**moved
        for moved in range(60)
        for lost in range(moved + 1)
        if statistics.score_z(changed(lost, moved - lost, n), margin) >= quantile
    )
    assert 0.79 < power < 0.85


# --- the score test ---------------------------------------------------------------------------------------------


def changed(lost, gained, n):
    return [-1.0] * lost + [1.0] * gained + [0.0] * (n - lost - gained)


def most_likely_changed(lost, gained, n, margin):
    """The share of changed pairs at which the observed ones are likeliest, of those that lie at the margin."""

    def unlikely(q):
        observed = ((lost, q), (gained, q - margin), (n - lost - gained, 1 - 2 * q + margin))
        return -sum(count * math.log(share) for count, share in observed if count)

    found = optimize.minimize_scalar(
        unlikely, bounds=(margin + 1e-12, (1 + margin) / 2 - 1e-12), method="bounded", options={"xatol": 1e-11}
    )
    return 2 * found.x - margin


@EXAMPLES
@given(st.integers(0, 40), st.integers(0, 40), st.integers(80, 1000), st.sampled_from([0.005, 0.01, 0.02, 0.1]))
def test_the_score_has_the_variance_of_the_likeliest_candidate_at_the_margin(lost, gained, n, margin):
    share = most_likely_changed(lost, gained, n, margin)
    expected = (gained - lost + n * margin) / math.sqrt(n * (share - margin * margin))
    assert statistics.score_z(changed(lost, gained, n), margin) == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_a_few_pairs_without_a_change_say_little():
    """As many losses as the margin would take are presumed: 0.2 of 10 pairs."""
    assert statistics.score_z([0.0] * 10, 0.02) == pytest.approx(0.2 / math.sqrt(10 * (0.02 - 0.02**2)))


def test_without_a_margin_the_score_is_that_of_mcnemar():
    assert statistics.score_z(changed(3, 12, 100), 0.0) == pytest.approx(9 / math.sqrt(15))
    assert statistics.score_z(changed(0, 0, 100), 0.0) == 0.0


def test_noise_of_graded_scores_is_not_taken_for_whole_losses():
    """Half of 300 pairs move by a tenth: their sum is that of 15 whole changes, their squares that of 1.5."""
    noisy = statistics.score_z([-0.1, 0.1] * 75 + [0.0] * 150, 0.02)
    whole = statistics.score_z(changed(8, 7, 300), 0.02)
    assert noisy > 2 * whole


@pytest.mark.parametrize("size", [1.0, 0.5, 0.2])
def test_a_graded_loss_at_the_margin_passes_no_more_often_than_a_whole_one(size):
    quantile, margin, n = statistics.normal_quantile(0.05), 0.02, 300

    def passes(lost):
        return statistics.score_z([-size] * lost + [0.0] * (n - lost), margin) >= quantile

    most = max(lost for lost in range(n) if passes(lost))
    assert special.bdtr(most, n, margin / size) <= 0.065


def test_differences_that_all_lie_within_a_wide_margin_leave_no_doubt():
    assert statistics.score_z([-0.5, -0.5], 0.9) == math.inf


@EXAMPLES
@given(
    st.lists(st.floats(-1, 1), max_size=40),
    st.integers(100, 500),
    st.sampled_from([0.01, 0.02, 0.1, 0.3]),
    st.floats(0, 1),
    st.data(),
)
def test_neither_a_worse_answer_nor_a_smaller_margin_helps(moved, n, margin, by, data):
    quantile = statistics.normal_quantile(0.05)
    before = moved + [0.0] * (n - len(moved))
    item = data.draw(st.integers(0, len(moved)))
    after = [*before[:item], max(-1.0, before[item] - by), *before[item + 1 :]]
    if statistics.score_z(after, margin) >= quantile:
        assert statistics.score_z(before, margin) >= quantile
    if statistics.score_z(before, margin) >= quantile:
        assert statistics.score_z(before, 1.1 * margin) >= quantile


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
