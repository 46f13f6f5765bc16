"""One figure a run: minima count what was answered or failed, partners make an interval, a fail needs no minimum."""

import math
import re
from types import SimpleNamespace

import pytest

from pulumi_infercrane.guard.judging.rule import Member, Rule, Sides
from pulumi_infercrane.guard.judging.summaries import Figure, judge_summaries

LATENCY = Figure("seconds", lambda member: member.record.value, higher_is_better=False, advice="every request")
THROUGHPUT = Figure("tokens", lambda member: member.record.value, higher_is_better=True, advice="more runs")


def run(value, n=1000, incomplete=0, ordinal=None):
    place = ordinal and SimpleNamespace(group="g", ordinal=ordinal)
    return Member(SimpleNamespace(run=place), SimpleNamespace(value=value, attempted=n, incomplete=incomplete))


def runs(values, n=1000):
    return tuple(run(value, n, ordinal=place) for place, value in enumerate(values, start=1))


def judged(candidate, baseline, figure=LATENCY, least=100, compute=20, bound=0.1):
    candidate, baseline = ((one,) if isinstance(one, Member) else tuple(one) for one in (candidate, baseline))
    rule = Rule("benchmark.ttft_p95", "benchmark", True, True, bound, min_pass=least, min_compute=compute)
    return judge_summaries(rule, figure, Sides(candidate, baseline), alpha=0.05)


def missing(finding):
    return int(re.search(r"about (\d+) more", finding.needs)[1])


# --- one run a side ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("candidate_is_short", [False, True])
@pytest.mark.parametrize(
    ("short", "outcome", "code", "method"),
    [
        ({"n": 19}, "unknown", "insufficient_n", ""),
        ({"n": 20}, "unknown", "insufficient_n", "guard_band"),
        ({"n": 99}, "unknown", "insufficient_n", "guard_band"),
        ({"n": 100}, "pass", "within_margin", "guard_band"),
        ({"n": 109, "incomplete": 10}, "unknown", "insufficient_n", "guard_band"),
    ],
)
def test_the_smaller_side_must_have_its_minimum(short, outcome, code, method, candidate_is_short):
    sides = (run(1.0, **short), run(1.0)) if candidate_is_short else (run(1.0), run(1.0, **short))
    finding = judged(*sides)
    assert (finding.outcome, finding.code, finding.method) == (outcome, code, method)
    if outcome == "unknown":
        assert missing(finding) == 100 - (short["n"] - short.get("incomplete", 0))


def test_without_any_minimum_one_request_is_needed():
    assert judged(run(1.0, n=0), run(1.0), least=0, compute=0).code == "insufficient_n"
    assert judged(run(1.0, n=1), run(1.0), least=0, compute=0).outcome == "pass"


def test_a_fail_needs_no_minimum_and_asks_for_nothing():
    finding = judged(run(1.5, n=50), run(1.0, n=50))
    assert (finding.outcome, finding.code, finding.needs) == ("fail", "margin_exceeded", "")
    assert judged(run(1.0), run(1.0)).needs == ""


def test_what_lies_between_says_what_would_settle_it():
    finding = judged(run(1.1, n=50), run(1.0, n=50))
    assert (finding.outcome, finding.code) == ("unknown", "summary_only")
    assert finding.needs == "a difference below half or beyond twice the margin, or every request"


@pytest.mark.parametrize(("figure", "ratio", "limit"), [(LATENCY, 1.3, 1.1), (THROUGHPUT, 0.7, 0.9)])
def test_better_is_lower_or_higher(figure, ratio, limit):
    worse, better = judged(run(ratio), run(1.0), figure), judged(run(1 / ratio), run(1.0), figure)
    assert (worse.outcome, worse.limit, better.outcome) == ("fail", limit, "pass")


# --- several runs a side ----------------------------------------------------------------------------------------


def test_a_run_without_a_partner_spoils_the_pairs():
    three = runs([1.0, 1.01, 1.02])
    assert judged(three, three).method == "repeated_runs"
    for sides in ((runs([1.0, 1.01, 1.02, 1.03]), three), (three, runs([1.0, 1.01, 1.02, 1.03]))):
        finding = judged(*sides)
        assert (finding.outcome, finding.code) == ("unknown", "percentile_of_percentiles")


def test_an_infinite_run_fails_them_all():
    finding = judged(runs([1.0, 1.0, math.inf]), runs([1.0, 1.0, 1.0]))
    assert (finding.outcome, finding.code, finding.estimate) == ("fail", "margin_exceeded", math.inf)
    assert (finding.limit, finding.method, finding.n) == (1.1, "repeated_runs", (3000, 3000))


@pytest.mark.parametrize(("figure", "worse"), [(LATENCY, 1.4), (THROUGHPUT, 0.7)])
def test_a_fail_over_runs_is_sure_of_itself(figure, worse):
    baseline = runs([1.0, 1.01, 1.02])
    failed = judged(runs([worse, 1.02 * worse, 1.01 * worse]), baseline, figure)
    passed = judged(runs([1 / worse, 1.02 / worse, 1.01 / worse]), baseline, figure)
    assert (failed.outcome, passed.outcome) == ("fail", "pass")
    assert failed.p < 0.01 < 0.99 < passed.p


def test_the_requests_of_the_smaller_side_count():
    values = runs([1.0, 1.01, 1.02], n=50)
    finding = judged(values, runs([1.0, 1.01, 1.02]), least=200)
    assert (finding.outcome, finding.code, missing(finding)) == ("unknown", "insufficient_n", 50)


def test_runs_say_how_many_more_requests_would_settle_it():
    """The bound is 2.92 · 0.0141 / √3 = 0.0238 around the mean logarithm, the limit 0.0123 away: 3.75 times as many."""
    shares = (1.07, 1.09, 1.10)
    few = judged(runs(shares), runs([1.0] * 3))
    assert few.code == "interval_straddles"
    assert few.detail.startswith("ratio 1.09 [")
    factor = 1 + missing(few) / 3000
    assert factor == pytest.approx(3.75, abs=0.01)
    many = [shares[place % 3] for place in range(math.ceil(3 * factor))]
    assert judged(runs(many), runs([1.0] * len(many))).outcome == "pass"
    short = judged(runs(shares, n=500), runs([1.0] * 3))
    assert missing(short) == pytest.approx(missing(few) / 2, abs=1)
