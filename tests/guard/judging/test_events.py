"""Events and drills: one is enough to fail, their absence takes time, and what was replaced helps nobody to pass."""

import math
from types import SimpleNamespace

import pytest

from pulumi_infercrane.guard.judging.events import Drill, fact, judge_drill, judge_events, needs_soak
from pulumi_infercrane.guard.judging.rule import SUPERSEDED, Finding, Member, Rule, Sides

SOAK_S = 1800.0


def slowest(members):
    return max((member.record.s for member in members), default=0.0), sum(member.record.n for member in members)


DRILL = Drill(slowest, "s", "tries")


def rule(bound=0.0, least=1, compute=1):
    return Rule("reliability.crashes", "reliability", True, False, bound, min_pass=least, min_compute=compute)


def soak(events, seconds=SOAK_S, name="soak"):
    return Soak(SimpleNamespace(evidence_id=name), SimpleNamespace(events=events, duration_s=seconds))


class Soak(Member):
    """A piece whose window is as long as what it measured."""

    @property
    def window_s(self):
        return self.record.duration_s


def drill(seconds, tries, name="drill"):
    return Member(SimpleNamespace(evidence_id=name), SimpleNamespace(s=seconds, n=tries))


def events(*soaks, superseded=(), **about):
    return judge_events(
        rule(**about), Sides(soaks, (), None, tuple(superseded)), lambda m: m.record.events, "crashes", SOAK_S
    )


def drilled(*drills, superseded=(), **about):
    return judge_drill(rule(**about), Sides(drills, (), None, tuple(superseded)), DRILL)


def outcome(finding):
    return finding.outcome, finding.code


@pytest.mark.parametrize(
    ("value", "bound", "expected"),
    [
        (0.0, 0.0, ("pass", "within_margin")),
        (1.0, 0.0, ("fail", "hard_event")),
        (2.0, 2.0, ("pass", "within_margin")),
        (2.1, 2.0, ("fail", "limit_exceeded")),
        (math.inf, 2.0, ("fail", "limit_exceeded")),
    ],
)
def test_a_fact_is_held_against_its_limit(value, bound, expected):
    finding = fact(rule(bound), value, 3, "")
    assert outcome(finding) == expected
    assert (finding.method, finding.n, finding.limit) == ("count", (3,), bound)
    assert (finding.estimate, finding.lo, finding.hi) == (value, value, value)


# --- events -----------------------------------------------------------------------------------------------------


def test_the_worst_soak_decides_wherever_it_stands():
    for soaks in ([soak(1, name="a"), soak(3, name="b")], [soak(3, name="b"), soak(1, name="a")]):
        assert (events(*soaks).estimate, events(*soaks).n) == (3, (1,))


def test_a_soak_that_was_replaced_does_not_show_the_absence_of_events():
    old, new = soak(0, name="old"), soak(0, seconds=60.0, name="new")
    assert outcome(events(new, superseded=[old])) == ("unknown", "insufficient_n")
    assert events(new, old).outcome == "pass"


def test_an_event_of_a_soak_that_was_replaced_counts_and_is_marked():
    finding = events(soak(0, name="new"), superseded=[soak(1, name="old")])
    assert (*outcome(finding), finding.notes) == ("fail", "hard_event", (SUPERSEDED,))
    assert finding.evidence == ("new", "old")
    assert events(soak(1, name="new")).notes == ()


def test_soaks_that_did_not_count_are_left_out():
    assert outcome(events(soak(None))) == ("unknown", "no_evidence")
    assert events(soak(None, name="silent"), soak(0, name="told")).evidence == ("told",)


def test_the_longest_soak_is_told():
    finding = events(soak(0, seconds=60.0, name="a"), soak(0, seconds=900.0, name="b"))
    assert finding.detail.startswith("0 of 1 soaks of 1800 s, the longest has 900 s; ")
    assert finding.needs == "1 more of at least 1800 s needed"


def test_a_share_needs_one_soak_however_many_requests_the_rule_wants():
    share = Finding("pass", "within_margin", "", method="clopper_pearson")
    assert needs_soak(rule(least=100), share, [SOAK_S], SOAK_S) == share
    unseen = needs_soak(rule(least=100), share, [], SOAK_S)
    assert unseen.detail.startswith("0 of 1 soaks of 1800 s, the longest has 0 s")
    counted = fact(rule(), 0.0, 1, "")
    assert outcome(needs_soak(rule(least=2), counted, [SOAK_S], SOAK_S)) == ("unknown", "insufficient_n")


# --- drills -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tries", "least", "compute", "expected"),
    [
        (0, 0, 0, ("unknown", "no_evidence")),
        (1, 0, 0, ("pass", "within_margin")),
        (2, 3, 3, ("unknown", "insufficient_n")),
        (3, 3, 3, ("pass", "within_margin")),
        (3, 4, 3, ("unknown", "insufficient_n")),
    ],
)
def test_a_drill_takes_some_tries(tries, least, compute, expected):
    assert outcome(drilled(drill(5.0, tries), bound=9.0, least=least, compute=compute)) == expected


def test_too_few_tries_of_one_piece_do_not_even_fail_alone():
    pieces = [drill(5.0, 3, "a"), drill(99.0, 2, "b")]
    assert drilled(*pieces, bound=9.0, compute=3).n == (5,)
    assert outcome(drilled(pieces[1], bound=9.0, compute=3)) == ("unknown", "insufficient_n")
    assert outcome(drilled(pieces[0], superseded=[pieces[1]], bound=9.0, compute=3)) == ("pass", "within_margin")


def test_a_piece_without_tries_fails_nothing():
    assert drilled(drill(5.0, 1), superseded=[drill(99.0, 0, "old")], bound=9.0, compute=0).outcome == "pass"
    assert drilled(drill(5.0, 1), superseded=[drill(99.0, 1, "old")], bound=9.0, compute=0).notes == (SUPERSEDED,)
