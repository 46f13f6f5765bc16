"""Pairs of one item on both sides: the same margin in both directions, and what would settle an unknown."""

import math
import re

import pytest

from pulumi_infercrane.guard import statistics
from pulumi_infercrane.guard.judging.pairs import judge_band, judge_pairs, judge_ratio, too_few_pairs
from pulumi_infercrane.guard.judging.rule import Rule

ALPHA = 0.05


def rule(bound, least=1):
    return Rule("quality.basics", "quality", True, relative=True, bound=bound, min_pass=least, min_compute=1)


def answers(lost, gained, n):
    """Baseline and candidate: right before and wrong now, the other way round, right both times."""
    return [(1.0, 0.0)] * lost + [(0.0, 1.0)] * gained + [(1.0, 1.0)] * (n - lost - gained)


def judged(pairs, bound, higher_is_better=True, alpha=ALPHA, least=1):
    return judge_pairs(rule(bound, least), pairs, higher_is_better, "difference", alpha)[1]


def missing(finding):
    """The number in `about 240 more pairs needed`."""
    return int(re.search(r"about (\d+) more pairs needed", finding.needs)[1])


@pytest.mark.parametrize(("least", "pairs", "enough"), [(30, 29, False), (30, 30, True), (0, 0, False), (0, 1, True)])
def test_an_interval_takes_some_pairs(least, pairs, enough):
    asked = Rule("quality.basics", "quality", True, True, 0.02, min_pass=300, min_compute=least)
    finding = too_few_pairs(asked, pairs)
    assert (finding is None) == enough
    if finding:
        assert (finding.outcome, finding.code, missing(finding)) == ("unknown", "insufficient_n", 300 - pairs)


# --- differences ------------------------------------------------------------------------------------------------


def test_losing_more_of_what_is_good_is_gaining_more_of_what_is_bad():
    for lost, gained in ((40, 0), (6, 2), (0, 0), (0, 30)):
        good = judged(answers(lost, gained, 400), 0.03)
        bad = judged([(1 - b, 1 - c) for b, c in answers(lost, gained, 400)], 0.03, higher_is_better=False)
        assert (good.outcome, good.code, good.method) == (bad.outcome, bad.code, "agresti_min")
        assert (good.estimate, good.lo, good.hi, good.limit) == pytest.approx((-bad.estimate, -bad.hi, -bad.lo, -0.03))
        assert good.p == pytest.approx(bad.p)


def test_a_difference_at_the_margin_is_as_likely_below_as_above():
    at_margin = judged(answers(11, 0, 400), 0.0275)
    assert judged(answers(40, 0, 400), 0.0275).p < 0.01 < at_margin.p < 0.6
    assert judged(answers(0, 0, 400), 0.0275).p > 0.99


def test_the_counts_are_told_in_words():
    assert judged(answers(7, 2, 400), 0.02).detail.endswith("7 lost / 2 gained of 400")
    fewer = judged([(1 - b, 1 - c) for b, c in answers(7, 2, 400)], 0.02, higher_is_better=False)
    assert fewer.detail.endswith("7 more / 2 fewer of 400")


def test_a_fail_needs_more_than_chance_among_the_pairs_that_differ():
    """9 against 3 comes up in one of fourteen runs of a coin; the interval alone would reject."""
    finding = judged(answers(9, 3, 20), 0.01)
    assert (finding.hi < finding.limit, finding.outcome) == (True, "unknown")
    assert judged(answers(12, 0, 20), 0.01).outcome == "fail"


def test_a_pass_needs_the_score_test_too():
    """One in eight candidates two points worse loses no more than 3 of 312: the interval alone would promote them."""
    finding = judged(answers(3, 0, 312), 0.02)
    assert (finding.lo > finding.limit, finding.outcome, finding.code) == (True, "unknown", "interval_straddles")
    assert finding.detail.endswith("3 lost / 0 gained of 312, but the score test at the margin has p 0.095")
    more = [(1 - b, 1 - c) for b, c in answers(3, 0, 312)]
    assert judged(more, 0.02, higher_is_better=False).outcome == "unknown"
    assert judged(answers(3, 0, 312), 0.02, alpha=0.1).outcome == "pass"


def test_what_the_interval_leaves_open_says_nothing_of_the_score_test():
    assert "score" not in judged(answers(3, 0, 300), 0.02).detail
    assert judged(answers(2, 0, 300), 0.02).outcome == "pass"


def test_a_pass_that_the_score_test_denied_comes_with_as_many_pairs_as_are_said_to_be_missing():
    needed = missing(judged(answers(3, 0, 312), 0.02))
    factor = 1 + needed / 312
    assert round(3 * factor) == 5
    assert judged(answers(5, 0, round(312 * 5 / 3)), 0.02).outcome == "pass"
    assert judged(answers(4, 0, round(312 * 4 / 3)), 0.02).outcome == "unknown"


@pytest.mark.parametrize("margin", [0.02, 0.01])
def test_a_candidate_at_the_margin_whose_changes_are_all_losses_passes_in_six_of_a_hundred_cases(margin):
    """Computed, not drawn: the binomial chance of no more losses than still pass. It is the worst way to be there."""
    sizes = {}
    for n in range(300, 421):
        most = max(lost for lost in range(-1, 16) if lost < 0 or judged(answers(lost, 0, n), margin).outcome == "pass")
        sizes[n] = statistics.binomial_at_most(most, n, margin) if most >= 0 else 0.0
    assert max(sizes.values()) <= 0.065
    assert min(sizes.values()) > 0.01  # patience has its limits: something passes at every number of pairs


def test_as_many_pairs_are_missing_as_show_equality_four_times_in_five():
    """1277 pairs at the discordance of 8 in 100, margin 0.02; 425 at that of none in 50, where one is assumed."""
    assert missing(judged(answers(4, 4, 100), 0.02)) == 1277 - 100
    assert missing(judged(answers(0, 0, 50), 0.02)) == 425 - 50


def test_revisions_that_differ_settle_when_the_estimate_stays():
    straddling = judged(answers(60, 20, 4000), 0.0125)
    factor = 1 + missing(straddling) / 4000

    def at(share):
        return judged(answers(*(round(x * factor * share) for x in (60, 20, 4000))), 0.0125)

    assert (at(0.5).outcome, at(1.5).outcome) == ("unknown", "pass")


@pytest.mark.parametrize(("margin", "outcome"), [(0.045, "fail"), (0.055, "pass")])
def test_a_difference_of_five_in_a_hundred_settles_near_the_margin_with_as_many_as_are_missing(margin, outcome):
    """30 lost and 10 gained of 400, just beyond the margin or within it."""
    factor = 1 + missing(judged(answers(30, 10, 400), margin)) / 400

    def at(share):
        return judged(answers(*(round(x * factor * share) for x in (30, 10, 400))), margin).outcome

    assert (at(0.8), at(1)) == ("unknown", outcome)


def test_as_many_pairs_as_equality_takes_do_not_settle_a_difference_at_the_margin():
    """100 pairs would show equality within 0.082; these are 100, and 8 of them were lost."""
    assert statistics.pairs_needed(0.08, 0.082) <= 100
    assert missing(judged(answers(8, 0, 100), 0.082)) > 100


def test_a_margin_of_zero_can_be_asked_for():
    finding = judged(answers(3, 5, 400), 0.0)
    assert (finding.outcome, finding.limit) == ("unknown", 0)
    assert missing(finding) > 400


# --- ratios -----------------------------------------------------------------------------------------------------


def ratios(factor, n=200, spread=0.2, failed=0):
    """Pairs whose candidate takes `factor` times as long, more or less; the last `failed` got no answer."""
    noisy = [(1.0, factor * math.exp(spread * math.sin(7.0 * index))) for index in range(n)]
    return noisy[: n - failed] + [(1.0, math.inf)] * failed


def test_a_ratio_has_a_limit_above_only():
    assert judge_ratio(rule(0.1), ratios(0.5), "ratio", ALPHA).outcome == "pass"
    assert judge_ratio(rule(0.1), ratios(1.5), "ratio", ALPHA).outcome == "fail"


@pytest.mark.parametrize(
    ("factor", "outcome", "limit"),
    [(0.5, "fail", 0.909090909), (0.99, "pass", 0.909090909), (1.01, "pass", 1.1), (1.5, "fail", 1.1)],
)
def test_a_band_has_a_limit_on_each_side_and_shows_the_nearer(factor, outcome, limit):
    finding = judge_band(rule(0.1), ratios(factor, spread=0.02), "ratio", ALPHA)
    assert (finding.outcome, finding.limit, finding.notes) == (outcome, limit, ("band 0.909 to 1.1",))


def test_what_is_the_same_on_both_sides_is_held_against_the_upper_limit():
    assert judge_band(rule(0.1), [(1.0, 1.0)] * 50, "ratio", ALPHA).limit == 1.1


def test_half_of_them_failed_so_nothing_is_known_of_the_median():
    finding = judge_band(rule(0.1), ratios(1.0, failed=99), "ratio", ALPHA)
    assert (finding.outcome, finding.lo, finding.hi, finding.n) == ("unknown", 0, math.inf, (101,))
    assert finding.needs == "no practical number would settle it: the estimate lies at the limit"


def test_nothing_at_all_of_the_candidate_makes_no_number():
    finding = judge_ratio(rule(0.1), [(1.0, 0.0)] * 95 + [(1.0, 1.2)] * 105, "ratio", ALPHA)
    assert (finding.outcome, finding.lo, finding.hi) == ("unknown", 0, 1.2)
    assert "no practical number" in finding.needs


@pytest.mark.parametrize("factor", [1.05, 1.15])
def test_a_ratio_settles_with_about_as_many_pairs_as_are_said_to_be_missing(factor):
    few = judge_ratio(rule(0.1), ratios(factor, n=60, spread=0.4), "ratio", ALPHA)
    total = 60 + missing(few)
    assert few.code == "interval_straddles"
    assert judge_ratio(rule(0.1), ratios(factor, n=round(0.6 * total), spread=0.4), "ratio", ALPHA).outcome == "unknown"
    assert judge_ratio(rule(0.1), ratios(factor, n=round(1.3 * total), spread=0.4), "ratio", ALPHA).outcome in (
        "pass",
        "fail",
    )
