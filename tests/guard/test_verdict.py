"""Aggregation is a table: worst first, nothing averaged, no default success."""

from dataclasses import replace

import pytest

from pulumi_infercrane.guard.judging.rule import Finding, Rule
from pulumi_infercrane.guard.reasons import GATES, Problem, gate_rank
from pulumi_infercrane.guard.verdict import Judged, confirmed, in_order_of_weight, verdict_of

CODES = {"pass": "within_margin", "fail": "limit_exceeded", "unknown": "no_evidence", "waived": "waived"}


def judged(outcome, required=True, hard=True, code="", p=None, name="benchmark.error_fraction"):
    rule = Rule(name, "benchmark", hard, relative=False, bound=0.01, min_pass=1, min_compute=1)
    return Judged(rule, Finding(outcome, code or CODES[outcome], "", p=p), required)


@pytest.mark.parametrize(
    ("outcomes", "verdict"),
    [
        (["pass"], "promote"),
        (["pass", "waived"], "promote"),
        (["pass", "unknown"], "insufficient_evidence"),
        (["unknown", "fail"], "reject"),
        (["pass", "pass", "fail"], "reject"),
        (["unknown"], "insufficient_evidence"),
        ([], "insufficient_evidence"),
    ],
)
def test_the_worst_outcome_decides(outcomes, verdict):
    assert verdict_of([judged(outcome) for outcome in outcomes]) == verdict


def test_what_is_not_required_can_only_reject():
    assert verdict_of([judged("pass"), judged("unknown", required=False)]) == "promote"
    assert verdict_of([judged("pass"), judged("fail", required=False)]) == "reject"
    assert verdict_of([judged("pass", required=False)]) == "insufficient_evidence"


def test_the_order_of_weight():
    rules = [
        judged("pass"),
        judged("unknown", required=False, code="tampered"),
        judged("unknown", code="interval_straddles"),
        judged("unknown", code="stale"),
        judged("fail", hard=False),
        judged("fail"),
    ]
    assert in_order_of_weight(rules) == [rules[5], rules[4], rules[3], rules[2], rules[1], rules[0]]


def test_a_fail_weighs_more_than_what_could_not_even_be_read():
    unread, soft = judged("unknown", code="not_json"), judged("fail", hard=False)
    assert in_order_of_weight([unread, soft]) == [soft, unread]


def test_a_fail_must_stand_beside_the_others():
    rules = [judged("fail", p=0.04, name="a"), judged("pass", p=0.9, name="b")]
    assert [one.finding.code for one in confirmed(rules, 0.05)] == ["fail_unconfirmed", "within_margin"]
    rules = [judged("fail", p=0.02, name="a"), judged("pass", p=0.9, name="b")]
    assert [one.finding.outcome for one in confirmed(rules, 0.05)] == ["fail", "pass"]


def test_a_doubted_fail_is_unknown():
    (doubted, _) = confirmed([judged("fail", p=0.04, name="a"), judged("pass", p=0.9, name="b")], 0.05)
    assert (doubted.finding.outcome, verdict_of([doubted])) == ("unknown", "insufficient_evidence")


def test_the_surest_fail_of_all_stands():
    """Its p is so small that it is 0."""
    rules = [judged("fail", p=0.0, name="a"), judged("pass", p=0.9, name="b"), judged("pass", p=0.8, name="c")]
    assert [one.finding.outcome for one in confirmed(rules, 0.05)] == ["fail", "pass", "pass"]


def test_a_reason_says_what_would_settle_it():
    unknown = judged("unknown", code="insufficient_n")
    told = replace(unknown, finding=replace(unknown.finding, detail="5 of 9", needs="about 4 more"))
    assert told.line == "benchmark.error_fraction: insufficient_n: 5 of 9; about 4 more"
    assert told.short == "benchmark.error_fraction: insufficient_n"


def test_rules_that_were_never_judged_do_not_weaken_a_fail():
    rules = [judged("fail", p=0.04, name="a"), judged("unknown", name="b")]
    assert confirmed(rules, 0.05)[0].finding.outcome == "fail"


def test_a_misspelt_code_raises():
    with pytest.raises(KeyError):
        gate_rank("tamperd")
    with pytest.raises(KeyError):
        Problem("tamperd", "")


def test_codes_are_unique_and_gates_are_in_order():
    codes = [code for codes in GATES.values() for code in codes]
    assert len(codes) == len(set(codes))
    order = ["not_json", "tampered", "tool_unknown", "bad_value", "binding_mismatch", "stale", "truncated"]
    order += ["not_comparable", "insufficient_n", "interval_straddles", "waived"]
    assert sorted(order, key=gate_rank) == order
