"""A soak is judged alone: too many failures or one event reject; the absence of events needs time to mean anything."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from pulumi_infercrane.guard import load_evidence
from pulumi_infercrane.guard.times import format_time, parse_time

HEAD = "schema: infercrane.policy/v1\nrequired_kinds: [reliability]\n"


def judged(folder, rule, head=HEAD, **asked):
    """The record of the only rule of a policy."""
    (record,) = folder.decide(policy=f"{head}rules:\n  - {{id: reliability.{rule}}}\n", **asked).record["rules"]
    return record


def outcome(record):
    return record["outcome"], record["reasons"][0]


def short(seconds):
    """Header of a soak that ends when the others do and takes `seconds`."""
    started = parse_time("2026-11-30T04:02:00Z") - timedelta(seconds=seconds)
    return {"started_at": format_time(started), "duration_s": float(seconds)}


@pytest.mark.parametrize(
    ("n", "failed", "expected"),
    [
        (597, 0, ("unknown", "insufficient_n")),
        (598, 0, ("pass", "within_margin")),
        (2000, 4, ("pass", "within_margin")),
        (2000, 5, ("unknown", "interval_straddles")),
        (598, 7, ("fail", "limit_exceeded")),
    ],
)
@pytest.mark.parametrize("rule", ["error_fraction", "timeouts"])
def test_failed_requests_against_half_a_percent(folder, n, failed, expected, rule):
    def late(lines):
        for line in lines[n - failed :]:
            line.update(outcome="idle_timeout")

    folder.reliability(n=n, failed=failed, lines=late)
    record = judged(folder, rule)
    assert outcome(record) == expected
    assert record["method"] == "clopper_pearson"


def test_a_request_that_failed_at_once_is_no_timeout(folder):
    folder.reliability(n=600, failed=20)
    assert judged(folder, "timeouts")["outcome"] == "pass"
    assert judged(folder, "error_fraction")["outcome"] == "fail"


@pytest.mark.parametrize("event", ["crashes", "oom_kills", "restarts", "ghost_replicas", "unready_s"])
def test_an_event_rejects_and_its_absence_passes(folder, event):
    folder.reliability()
    record = judged(folder, event)
    assert outcome(record) == ("pass", "within_margin")
    assert (record["estimate"], record["lo"], record["hi"], record["limit"]) == (0, 0, 0, 0)
    folder.reliability(header={event: 1})
    assert outcome(judged(folder, event)) == ("fail", "hard_event")


@pytest.mark.parametrize(
    ("event", "told"),
    [
        ("oom_kills", "out-of-memory kills"),
        ("crashes", "crashes"),
        ("restarts", "restarts"),
        ("ghost_replicas", "ghost replicas"),
    ],
)
def test_an_event_is_told_with_its_time(folder, event, told):
    folder.reliability(header={event: 2})
    assert judged(folder, event)["detail"] == f"2 {told} in 1920 s, at most 0 allowed"


def test_a_short_soak_shows_no_absence_but_an_event_all_the_same(folder):
    folder.reliability(header=short(1799))
    record = judged(folder, "crashes")
    assert outcome(record) == ("unknown", "insufficient_n")
    assert record["needs"] == "1 more of at least 1800 s needed"
    assert judged(folder, "error_fraction")["reasons"] == ["insufficient_n"]
    folder.reliability(header=short(1799) | {"crashes": 1})
    assert judged(folder, "crashes")["outcome"] == "fail"


def test_many_short_soaks_are_no_long_one(folder):
    for number in range(3):
        folder.reliability(
            header=short(900),
            name=f"soak-{number}",
            lines=lambda lines, n=number: lines[0].update(e2e_s=1 + n),
        )
    assert judged(folder, "crashes")["outcome"] == "unknown"


def test_a_shorter_soak_may_be_allowed_and_is_noted(folder):
    folder.reliability(header=short(600))
    decision = folder.decide(policy=HEAD + "min_soak_s: 600\nrules: [{id: reliability.crashes}]\n")
    assert decision.verdict == "promote"
    assert decision.record["notes"] == ["lowered_minimum: min_soak_s 600 instead of 1800"]


def test_below_the_least_duration_not_even_an_event_counts(folder):
    folder.reliability(header=short(59) | {"crashes": 1})
    assert outcome(judged(folder, "crashes")) == ("unknown", "truncated")


def test_an_event_nobody_counted_may_have_happened(folder):
    folder.reliability(header={"crashes": None})
    assert outcome(judged(folder, "crashes")) == ("unknown", "no_evidence")


def test_a_superseded_soak_with_an_event_still_rejects(folder):
    old = folder.reliability(name="old", header={"crashes": 1})
    named = [{"evidence_id": json.loads(old.read_text())["evidence_id"], "reason": "the cable was loose"}]
    folder.reliability(name="new", header={"crashes": None}, change=lambda e: e.update(supersedes=named))
    record = judged(folder, "crashes")
    assert (record["outcome"], record["notes"]) == ("fail", ["superseded evidence counts: a hard limit was broken"])
    assert judged(folder, "crashes, class: S")["outcome"] == "unknown"


def test_the_worst_of_several_soaks_decides(folder):
    folder.reliability(name="calm")
    for crashes in (1, 3, 2):
        folder.reliability(name=f"wild-{crashes}", header={"crashes": crashes})
    record = judged(folder, "crashes")
    assert (record["outcome"], record["estimate"], len(record["evidence"])) == ("fail", 3, 4)


def test_more_than_one_soak_may_be_required(folder):
    folder.reliability(name="one")
    assert outcome(judged(folder, "crashes, min_pass: 2")) == ("unknown", "insufficient_n")
    folder.reliability(name="two", lines=lambda lines: lines[0].update(e2e_s=9))
    assert judged(folder, "crashes, min_pass: 2")["outcome"] == "pass"


def test_unready_seconds_may_be_allowed(folder):
    folder.reliability(header={"unready_s": 12.5})
    assert judged(folder, "unready_s, limit: 12.5")["outcome"] == "pass"
    assert outcome(judged(folder, "unready_s, limit: 12")) == ("fail", "limit_exceeded")


@pytest.mark.parametrize(
    ("starts", "limit", "expected"),
    [
        ([20.0, 22.0], 30, ("unknown", "insufficient_n")),
        ([], 30, ("unknown", "no_evidence")),
        ([20.0, 22.0, 30.0], 30, ("pass", "within_margin")),
        ([20.0, 22.0, 30.1], 30, ("fail", "limit_exceeded")),
        ([*[20.0] * 19, 99.0], 30, ("pass", "within_margin")),  # from 20 on, p95 is no longer the slowest
        ([*[20.0] * 18, 99.0], 30, ("fail", "limit_exceeded")),
    ],
)
def test_cold_starts(folder, starts, limit, expected):
    folder.reliability(header={"cold_starts_s": starts})
    assert outcome(judged(folder, f"cold_start_p95, limit: {limit}")) == expected


def test_a_rollback_is_drilled_and_quick(folder):
    folder.reliability()
    record = judged(folder, "rollback_drill")
    assert (record["outcome"], record["estimate"], record["limit"]) == ("pass", 40, 300)
    folder.reliability(header={"rollback_drill_s": 301})
    assert outcome(judged(folder, "rollback_drill")) == ("fail", "limit_exceeded")


def test_the_slowest_of_several_rollbacks_counts_and_more_may_be_required(folder):
    for seconds in (40, 400):
        folder.reliability(name=f"drill-{seconds}", header={"rollback_drill_s": seconds})
    assert judged(folder, "rollback_drill")["estimate"] == 400
    record = judged(folder, "rollback_drill, limit: 500, min_pass: 3")
    assert (*outcome(record), record["n"], record["estimate"]) == ("unknown", "insufficient_n", [2], 400)


def test_the_slow_starts_of_one_soak_are_not_made_up_for_by_others(folder):
    folder.reliability(name="slow", header={"cold_starts_s": [50.0, 60.0, 70.0]})
    folder.reliability(name="quick", header={"cold_starts_s": [10.0] * 200})
    assert judged(folder, "cold_start_p95, limit: 30")["estimate"] == 70
    assert judged(folder, "cold_start_p95, limit: 30, class: S")["estimate"] == 70


def test_a_soak_is_no_longer_than_its_window(folder):
    window = {"started_at": "2026-11-30T03:32:01Z", "duration_s": 1850.0}  # 1,799 s and a tolerated difference
    folder.reliability(header=window)
    assert judged(folder, "crashes")["outcome"] == "unknown"


def test_a_soak_that_was_interrupted_is_as_long_as_it_says(folder):
    folder.reliability(header={"duration_s": 1700.0})
    assert judged(folder, "crashes")["outcome"] == "unknown"


def test_a_drain_cuts_no_stream(folder):
    folder.reliability()
    assert judged(folder, "cut_streams")["n"] == [4]
    folder.reliability(header={"drain": {"streams_open": 4, "streams_completed": 3}})
    assert outcome(judged(folder, "cut_streams")) == ("fail", "hard_event")
    folder.reliability(header={"drain": {"streams_open": 0, "streams_completed": 0}})
    assert outcome(judged(folder, "cut_streams")) == ("unknown", "no_evidence")


def test_no_baseline_is_needed(folder):
    folder.reliability()
    names = ("error_fraction", "timeouts", "crashes", "rollback_drill", "cut_streams")
    rules = "".join(f"  - {{id: reliability.{name}}}\n" for name in names)
    assert folder.decide(policy=f"{HEAD}rules:\n{rules}").verdict == "promote"


@pytest.mark.parametrize(
    ("stack", "as_of", "verdict"),
    [
        ("dev", "2026-12-02T04:02:00Z", "promote"),
        ("org/project/prod", "2026-12-01T04:02:00Z", "promote"),
        ("org/project/prod", "2026-12-01T04:02:01Z", "insufficient_evidence"),
    ],
)
def test_a_soak_ages_faster_in_production(folder, stack, as_of, verdict):
    folder.reliability()
    decision = folder.decide(policy=HEAD + "rules: [{id: reliability.crashes}]\n", stack=stack, as_of=as_of)
    assert decision.verdict == verdict
    if stack != "dev" and verdict == "promote":
        assert decision.expires_at == "2026-12-01T04:02:00Z"


@pytest.fixture
def uncounted(folder):
    """`uncounted("old")`: what the folder holds, as a tool that counted no failures would have left those pieces."""

    def evidence(start):
        found = load_evidence(folder.root)
        items = [
            replace(item, record=replace(item.record, failed=None, timeouts=None))
            if item.path.startswith(start)
            else item
            for item in found.items
        ]
        return replace(found, items=tuple(items))

    return evidence


@pytest.mark.parametrize("rule", ["error_fraction", "timeouts"])
def test_failures_of_one_soak_that_nobody_counted_are_not_zero(folder, uncounted, rule):
    folder.reliability(name="told")
    folder.reliability(name="silent", lines=lambda lines: lines[0].update(e2e_s=9))
    assert judged(folder, rule)["outcome"] == "pass"
    assert outcome(judged(folder, rule, evidence=uncounted("silent"))) == ("unknown", "counters_disagree")


def test_a_superseded_soak_with_too_many_failures_still_rejects_if_it_counted_them(folder, uncounted):
    old = folder.reliability(name="old", failed=60)
    named = [{"evidence_id": json.loads(old.read_text())["evidence_id"], "reason": "the cable was loose"}]
    folder.reliability(name="new", change=lambda e: e.update(supersedes=named))
    assert judged(folder, "error_fraction")["outcome"] == "fail"
    assert judged(folder, "error_fraction", evidence=uncounted("old"))["outcome"] == "pass"


def test_starts_are_ranked_in_whichever_order_they_came(folder):
    """One slow start in 21 is not the 95th percentile."""
    folder.reliability(header={"cold_starts_s": [*[20.0] * 19, 99.0, 20.0]})
    record = judged(folder, "cold_start_p95, limit: 30")
    assert (record["outcome"], record["estimate"], record["n"]) == ("pass", 20, [21])
