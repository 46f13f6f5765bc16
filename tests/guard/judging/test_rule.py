"""What all rules share: limits belong to pass, minima hold, an unknown says how much more would settle it."""

import math
from dataclasses import replace

import pytest

from pulumi_infercrane.guard.judging.rule import (
    MOST_NEEDED,
    Finding,
    Measured,
    Rule,
    at_least,
    at_most,
    conclude,
    disagree,
    first_fail,
    in_conflict,
    more_needed,
    rounded_interval,
    scaled,
    unknown,
)
from pulumi_infercrane.guard.statistics import Interval

RULE = Rule("benchmark.ttft_p95", "benchmark", True, relative=True, bound=0.15, min_pass=100, min_compute=20)
MEASURED = Measured(
    method="bootstrap_ratio",
    n=(150, 120),
    interval=Interval(1.0, 0.9, 1.1),
    limit=1.15,
    outcome="pass",
    what="ratio",
    counts="150 requests against 120",
    p=0.9,
    enough=50,
    total=300.0,
    unit="requests",
)


@pytest.mark.parametrize(
    ("lo", "hi", "outcome"),
    [(0.5, 1.0, "pass"), (0.5, 1.001, "unknown"), (1.0, 1.5, "unknown"), (1.001, 1.5, "fail"), (1.0, 1.0, "pass")],
)
def test_the_limit_belongs_to_pass(lo, hi, outcome):
    assert at_most(Interval(0.9, lo, hi), 1.0) == outcome
    assert at_least(Interval(-0.9, -hi, -lo), -1.0) == outcome


def test_an_interval_is_judged_as_it_is_stored():
    stored = rounded_interval(Interval(0.1234567891, 0.01 + 1e-12, 1.0 - 1e-12))
    assert (stored.estimate, stored.lo, stored.hi) == (0.123456789, 0.01, 1.0)


@pytest.mark.parametrize(
    ("about", "least", "outcome", "code"),
    [
        ({}, 100, "pass", "within_margin"),
        ({}, 120, "pass", "within_margin"),
        ({}, 121, "unknown", "insufficient_n"),
        ({"enough": 121}, 100, "pass", "within_margin"),
        ({"outcome": "unknown"}, 120, "unknown", "interval_straddles"),
        ({"outcome": "unknown"}, 121, "unknown", "insufficient_n"),
        ({"outcome": "unknown", "enough": 120}, 100, "unknown", "interval_straddles"),
        ({"outcome": "unknown", "enough": 121}, 100, "unknown", "insufficient_n"),
        ({"outcome": "fail"}, 1000, "fail", "margin_exceeded"),
    ],
)
def test_minima_keep_from_passing_never_from_failing(about, least, outcome, code):
    """The smaller of the two sides counts."""
    finding = conclude(replace(RULE, min_pass=least), replace(MEASURED, **about))
    assert (finding.outcome, finding.code) == (outcome, code)


def test_an_absolute_rule_exceeds_a_limit():
    finding = conclude(replace(RULE, relative=False), replace(MEASURED, outcome="fail"))
    assert (finding.outcome, finding.code) == ("fail", "limit_exceeded")


def test_a_finding_holds_what_was_measured():
    finding = conclude(RULE, MEASURED, notes=("seen",))
    assert (finding.method, finding.n, finding.limit, finding.p) == ("bootstrap_ratio", (150, 120), 1.15, 0.9)
    assert (finding.estimate, finding.lo, finding.hi, finding.notes) == (1.0, 0.9, 1.1, ("seen",))
    assert (finding.needs, finding.evidence, finding.whole_kind) == ("", (), False)


@pytest.mark.parametrize(
    ("least", "enough", "total", "missing"), [(100, 50, 300.0, 180), (500, 50, 300.0, 380), (100, 400, 300.0, 280)]
)
def test_what_is_missing_is_the_largest_of_what_is_needed(least, enough, total, missing):
    straddling = replace(MEASURED, outcome="unknown", enough=enough, total=total)
    assert conclude(replace(RULE, min_pass=least), straddling).needs == f"about {missing} more requests needed"


def test_too_few_are_told_against_the_larger_minimum():
    few = replace(MEASURED, outcome="unknown", enough=400)
    assert conclude(RULE, few).detail == "120 of 400 requests, ratio 1 [0.9, 1.1] against 1.15"
    assert conclude(replace(RULE, min_pass=500), few).detail.startswith("120 of 500 requests")


@pytest.mark.parametrize(
    ("total", "text"),
    [
        (MOST_NEEDED + 100.0, f"about {MOST_NEEDED} more pairs needed"),
        (MOST_NEEDED + 101.0, "no practical number would settle it: the estimate lies at the limit"),
        (math.inf, "no practical number would settle it: the estimate lies at the limit"),
        (100.0, "about 1 more pairs needed"),
        (101.2, "about 2 more pairs needed"),
    ],
)
def test_what_is_needed_is_a_number_only_while_it_is_practical(total, text):
    assert more_needed(total, 100, "pairs") == text
    assert MOST_NEEDED == 1_000_000


def test_four_times_the_data_halve_the_interval():
    assert scaled(0.2, 0.1) == scaled(0.2, -0.1) == 4
    assert scaled(0.2, 0.0) == scaled(math.inf, 0.1) == math.inf


def test_intervals_disagree_when_two_of_them_do_not_touch():
    low, middle, high = Interval(1, 0, 2), Interval(2, 1, 3), Interval(3, 2.5, 4)
    assert disagree([low, middle, high])
    assert not disagree([low, Interval(3, 2, 4)])
    assert not disagree([low, middle])
    assert not disagree([])


def test_the_first_fail_is_told_and_without_one_the_first_of_all():
    first, second, third = Finding("pass", "a", ""), Finding("fail", "b", ""), Finding("fail", "c", "")
    assert first_fail([first, second, third]) is second
    assert first_fail([first, Finding("unknown", "d", "")]) is first


def test_a_conflict_is_unknown_and_can_be_superseded():
    finding = in_conflict(Finding("pass", "within_margin", "ratio 1"))
    assert (finding.outcome, finding.code) == ("unknown", "conflict")
    assert finding.needs == "find out why, then supersede the wrong one with a reason"


def test_an_unknown_concerns_one_rule_unless_told_otherwise():
    finding = unknown("no_evidence", "none")
    assert (finding.outcome, finding.code, finding.needs, finding.whole_kind) == ("unknown", "no_evidence", "", False)


@pytest.mark.parametrize(
    ("hard", "relative", "stands"), [(True, False, True), (True, True, False), (False, False, False)]
)
def test_only_a_hard_absolute_limit_stands_on_one_piece(hard, relative, stands):
    assert replace(RULE, hard=hard, relative=relative).stands is stands
