"""Shares of requests: pooled over runs, none of which hides behind the others, and what would settle an unknown."""

import re
from types import SimpleNamespace

import pytest

from pulumi_infercrane.guard.judging.proportions import failures, judge_counted, judge_difference, judge_share
from pulumi_infercrane.guard.judging.rule import SUPERSEDED, Member, Rule, Sides

ALPHA = 0.05


def rule(bound=0.005, relative=True):
    return Rule("benchmark.error_fraction", "benchmark", True, relative, bound, min_pass=1, min_compute=1)


def run(failed, attempted, name="run", **errors):
    record = SimpleNamespace(failed=failed, attempted=attempted, errors=errors)
    return Member(SimpleNamespace(evidence_id=name), record)


def compared(baseline, candidate, bound=0.005):
    """The finding about `(failed, attempted)` of both sides."""
    return judge_difference(rule(bound), Sides((run(*candidate, "c"),), (run(*baseline, "b"),)), ALPHA)


def shared(*runs, limit=0.01, superseded=()):
    return judge_share(rule(limit, relative=False), runs, failures, limit, ALPHA, superseded)


def missing(finding):
    """The number in `about 240 more requests needed`."""
    return int(re.search(r"about (\d+) more", finding.needs)[1])


# --- of one side ------------------------------------------------------------------------------------------------


def test_a_run_that_fails_by_itself_fails_the_pool():
    finding = shared(run(20, 150), *[run(0, 2000, f"good-{number}") for number in range(3)])
    assert (finding.outcome, finding.n, finding.lo > 0.01) == ("fail", (150,), True)
    assert finding.evidence == ("good-0", "good-1", "good-2", "run")


def test_a_superseded_run_counts_for_nothing_but_a_fail():
    passed = shared(run(0, 400, "new"), superseded=[run(0, 400, "old")])
    assert (passed.outcome, passed.n, passed.notes, passed.evidence) == ("pass", (400,), (), ("new", "old"))
    failed = shared(run(0, 400, "new"), superseded=[run(40, 400, "old")])
    assert (failed.outcome, failed.n, failed.notes, failed.evidence) == ("fail", (400,), (SUPERSEDED,), ("new", "old"))


def test_runs_that_contradict_each_other_are_unknown_unless_one_fails():
    contradicting = (run(0, 1000, "a"), run(12, 1000, "b"))
    assert shared(*contradicting, limit=0.05).code == "conflict"
    assert shared(*contradicting, limit=0.001).code == "limit_exceeded"


@pytest.mark.parametrize(
    ("failed", "attempted", "limit"), [(2, 400, 0.01), (6, 400, 0.01), (30, 400, 0.1), (108, 400, 0.3)]
)
def test_a_share_is_settled_by_about_as_many_as_are_said_to_be_missing(failed, attempted, limit):
    """If it stays what it is: six of ten still straddle, six more settle it."""
    straddling = shared(run(failed, attempted), limit=limit)
    total = attempted + missing(straddling)
    share = failed / attempted
    assert straddling.code == "interval_straddles"
    assert shared(run(round(share * total * 0.6), round(total * 0.6)), limit=limit).outcome == "unknown"
    assert shared(run(round(share * total * 1.6), round(total * 1.6)), limit=limit).outcome in ("pass", "fail")


@pytest.mark.parametrize("n", [10, 400])
def test_a_limit_of_zero_always_needs_one_more(n):
    finding = judge_counted(rule(0.0, relative=False), (0, n), 0.0, ALPHA)
    assert (finding.outcome, finding.code) == ("unknown", "insufficient_n")
    assert finding.detail.startswith(f"{n} of {n + 1} requests")


def test_failed_requests_are_told_by_their_most_frequent_codes():
    codes = {"503": 7, "timeout": 7, "429": 1, "502": 2, "cut": 9}
    detail = shared(run(26, 150, **codes)).detail
    assert detail.endswith("26 of 150 requests; by code: cut (9), 503 (7), timeout (7), others (3)")
    assert shared(run(26, 150, **dict(reversed(codes.items())))).detail == detail
    assert compared((0, 150), (26, 150)).detail.endswith("26 of 150 requests failed against 0 of 150")


def test_codes_are_those_of_the_runs_that_were_counted():
    pooled = shared(run(1, 2000, "a", cut=1), run(2, 2000, "b", cut=1, timeout=1))
    assert pooled.detail.endswith("3 of 4000 requests; by code: cut (2), timeout (1)")
    one = shared(run(40, 150, "bad", cut=40), run(1, 4000, "good", timeout=1))
    assert one.detail.endswith("40 of 150 requests; by code: cut (40)")


def test_a_code_stays_on_its_line_and_is_not_long():
    hostile = "\n\ud800" + "x" * 1000
    detail = shared(run(40, 150, **{hostile: 40})).detail
    assert detail.endswith("; by code: \\n\\ud800" + "x" * 31 + "… (40)")


def test_a_difference_is_told_by_the_codes_of_the_candidate():
    sides = Sides((run(40, 150, "c", cut=40),), (run(1, 150, "b", timeout=1),))
    assert judge_difference(rule(), sides, ALPHA).detail.endswith("failed against 1 of 150; by code: cut (40)")


def test_requests_that_are_bad_in_another_way_have_no_codes():
    def empties(member):
        return 30, member.record.attempted

    judged = judge_share(rule(0.01, relative=False), [run(40, 150, cut=40)], empties, 0.01, ALPHA)
    assert judged.detail.endswith(", 30 of 150 requests")


# --- against the baseline ---------------------------------------------------------------------------------------


def test_as_many_clean_requests_are_needed_as_bring_newcombes_bound_to_the_margin():
    """z² / (n + z²) <= 0.005 from 539 on; the smaller side counts."""
    finding = compared((0, 1000), (0, 300))
    assert (finding.outcome, finding.code, finding.method) == ("unknown", "insufficient_n", "newcombe")
    assert finding.detail.startswith("300 of 539 requests on each side, difference 0 [")
    assert missing(finding) == 239
    assert finding.evidence == ("b", "c")
    assert compared((0, 539), (0, 539)).outcome == "pass"


def test_a_margin_of_zero_always_needs_one_more():
    finding = compared((0, 400), (0, 400), bound=0.0)
    assert (finding.outcome, finding.code) == ("unknown", "insufficient_n")
    assert finding.detail.startswith("400 of 401 requests")
    assert compared((0, 1000), (0, 300), bound=0.0).detail.startswith("300 of 301 requests")


def test_a_difference_at_the_margin_is_as_likely_below_as_above():
    assert compared((5, 1000), (10, 1000)).p == pytest.approx(0.5)
    assert compared((5, 1000), (25, 1000)).p < ALPHA
    assert compared((25, 1000), (5, 1000)).p > 1 - ALPHA


@pytest.mark.parametrize(("baseline", "candidate"), [(10, 10), (10, 22)])
def test_a_difference_is_settled_by_about_as_many_as_are_said_to_be_missing(baseline, candidate):
    straddling = compared((baseline, 1000), (candidate, 1000))
    factor = 1 + missing(straddling) / 1000
    assert straddling.code == "interval_straddles"

    def at(share):
        n = round(1000 * factor * share)
        return compared((round(baseline * n / 1000), n), (round(candidate * n / 1000), n)).outcome

    assert at(0.6) == "unknown"
    assert at(1.2) in ("pass", "fail")
