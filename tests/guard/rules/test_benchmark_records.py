"""Load runs as other tools record them: figures that one side has and the other has not are no figures of both."""

import json
import math
from array import array
from dataclasses import replace

import pytest

from pulumi_infercrane.guard import load_evidence
from pulumi_infercrane.guard.statistics import lower_bound

POLICY = "schema: infercrane.policy/v1\nrequired_kinds: [benchmark]\n"
LATENCY = "id: benchmark.ttft_p50, min_pass: 400"
DAY_BEFORE = {"started_at": "2026-11-29T04:00:00Z", "ended_at": "2026-11-29T04:02:00Z"}


@pytest.fixture
def judged(folder):
    """`judged(rule, candidate={…})`: the rule's record when the reader had found these figures on one side."""
    folder.benchmark("baseline", folder.seconds(400, seed=1))
    folder.benchmark("candidate", folder.seconds(400, seed=2))

    def judge(rule, head="", evidence=None, beside="", **sides):
        evidence = evidence or load_evidence(folder.root)
        items = [
            replace(item, record=replace(item.record, **sides.get(item.envelope.role, {}))) for item in evidence.items
        ]
        policy = f"{POLICY}{head}rules: [{{{rule}}}{beside}]"
        (record, *_) = folder.decide(policy=policy, evidence=replace(evidence, items=tuple(items))).record["rules"]
        return record

    return judge


def outcome(record):
    return record["outcome"], record["reasons"]


@pytest.mark.parametrize("figure", ["attempted", "failed"])
@pytest.mark.parametrize("role", ["baseline", "candidate"])
@pytest.mark.parametrize("rule", ["id: benchmark.error_fraction_difference", LATENCY])
def test_failures_that_one_side_did_not_count_are_not_zero(judged, rule, role, figure):
    assert outcome(judged(rule, **{role: {figure: None}})) == ("unknown", ["counters_disagree"])


@pytest.mark.parametrize("role", ["baseline", "candidate"])
def test_tokens_in_doubt_on_one_side_are_not_compared(judged, role):
    rule = "id: benchmark.tpot_p50, min_pass: 400"
    assert outcome(judged(rule)) == ("pass", ["within_margin"])
    assert outcome(judged(rule, **{role: {"token_doubt": "counted twice"}})) == ("unknown", ["counters_disagree"])


@pytest.mark.parametrize(
    ("rate", "achieved", "expected"),
    [
        (10.0, 9.4, ("unknown", ["client_saturated"])),
        (10.0, 9.5, ("pass", ["within_margin"])),
        (10.0, None, ("pass", ["within_margin"])),
        (None, 3.0, ("pass", ["within_margin"])),
    ],
)
def test_a_client_that_sent_too_slowly_measured_itself(judged, rate, achieved, expected):
    paced = {"rate": rate, "rate_achieved": achieved}
    assert outcome(judged(LATENCY, candidate=paced, baseline=paced)) == expected
    assert outcome(judged("id: benchmark.error_fraction", candidate=paced)) == expected


def test_what_fails_under_a_client_that_was_too_slow_fails_all_the_more(judged):
    slow = {"rate": 10.0, "rate_achieved": 5.0}
    assert outcome(judged("id: benchmark.error_fraction", candidate=slow | {"failed": 60})) == (
        "fail",
        ["limit_exceeded"],
    )


@pytest.mark.parametrize("rule", ["error_fraction", "attainment"])
def test_a_superseded_run_that_cannot_be_counted_is_left_out(folder, judged, rule):
    old = folder.benchmark("candidate", folder.seconds(400, seed=3), name="old")
    named = [{"evidence_id": json.loads(old.read_text())["evidence_id"], "reason": "the cable was loose"}]
    folder.benchmark("candidate", folder.seconds(400, seed=2), change=lambda e: e.update(supersedes=named))
    evidence = load_evidence(folder.root)
    silent = {"attempted": None, "failed": None, "requests": None}
    items = [
        replace(item, record=replace(item.record, **silent)) if item.path.startswith("old") else item
        for item in evidence.items
    ]
    record = judged(f"id: benchmark.{rule}", "slo: {ttft_s: 9.0}\n", evidence=replace(evidence, items=tuple(items)))
    assert (outcome(record), record["n"]) == (("pass", ["within_margin"]), [400])


def test_a_superseded_run_without_the_objectives_is_left_out(folder, judged):
    old = folder.benchmark("candidate", folder.seconds(400, seed=3), name="old")
    named = [{"evidence_id": json.loads(old.read_text())["evidence_id"], "reason": "the cable was loose"}]
    folder.benchmark("candidate", folder.seconds(400, seed=2), change=lambda e: e.update(supersedes=named))
    evidence = load_evidence(folder.root)
    items = [
        replace(item, record=replace(item.record, requests=None)) if item.path.startswith("old") else item
        for item in evidence.items
    ]
    record = judged("id: benchmark.attainment", "slo: {ttft_s: 9.0}\n", evidence=replace(evidence, items=tuple(items)))
    assert (outcome(record), record["n"]) == (("pass", ["within_margin"]), [400])


@pytest.mark.parametrize(("ended", "old"), [("29T04:02:00", False), ("29T04:01:59", True)])
def test_a_baseline_is_old_after_a_day_and_not_before(folder, judged, ended, old):
    window = DAY_BEFORE | {"started_at": "2026-11-29T03:59:00Z", "ended_at": f"2026-11-{ended}Z"}
    before = {"header": dict(window), "change": lambda envelope: envelope.update(window=window)}
    folder.benchmark("baseline", folder.seconds(400, seed=1), **before)
    assert ("stale_baseline" in judged(LATENCY).get("notes", [])) == old


@pytest.mark.parametrize(
    ("ended", "expected"), [("04:02:00", ("pass", "within_margin")), ("04:01:59", ("unknown", "stale"))]
)
def test_a_baseline_is_too_old_beyond_seven_days(folder, judged, ended, expected):
    window = {"started_at": "2026-11-23T03:59:00Z", "ended_at": f"2026-11-23T{ended}Z"}
    before = {"header": dict(window), "change": lambda envelope: envelope.update(window=window)}
    folder.benchmark("baseline", folder.seconds(400, seed=1), **before)
    record = judged(LATENCY, "max_age: {benchmark: 30d}\n")
    assert (record["outcome"], *record["reasons"]) == expected


def test_a_baseline_beyond_its_own_limit_is_broken_at_it_is_not(judged):
    rule = "id: benchmark.error_fraction_difference"
    broken = judged(rule, baseline={"failed": 40})
    assert (outcome(broken), broken["detail"]) == (
        ("unknown", ["baseline_broken"]),
        "40 of 400 requests to the baseline failed, itself beyond 0.01",
    )
    at_limit = lower_bound(40, 400, 0.05)
    beside = f", {{id: benchmark.error_fraction, limit: {at_limit!r}}}"
    assert judged(rule, beside=beside, baseline={"failed": 40})["outcome"] == "pass"


@pytest.mark.parametrize("role", ["baseline", "candidate"])
def test_either_side_may_be_the_older_one(folder, judged, role):
    long_before = {key: value.replace("11-29", "11-20") for key, value in DAY_BEFORE.items()}
    folder.benchmark(role, folder.seconds(400), header=dict(long_before), change=lambda e: e.update(window=long_before))
    assert outcome(judged(LATENCY, "max_age: {benchmark: 30d}\n")) == ("unknown", ["stale"])


def test_the_newest_run_of_a_side_says_how_old_it_is(folder, judged):
    long_before = {key: value.replace("11-29", "11-20") for key, value in DAY_BEFORE.items()}
    before = {"header": dict(long_before), "change": lambda envelope: envelope.update(window=long_before)}
    folder.benchmark("baseline", folder.seconds(400, seed=3), name="old", **before)
    assert outcome(judged(LATENCY, "max_age: {benchmark: 30d}\n")) == ("pass", ["within_margin"])


# --- attainment -------------------------------------------------------------------------------------------------


def attained(judged, slo, **sides):
    return judged("id: benchmark.attainment", f"slo: {slo}\n", **sides)


def test_a_request_misses_when_it_exceeds_one_of_several_objectives(judged):
    assert attained(judged, "{ttft_s: 1.0, e2e_s: 9.0}")["outcome"] == "pass"
    assert attained(judged, "{ttft_s: 1.0, e2e_s: 0.4}")["outcome"] == "fail"
    assert attained(judged, "{ttft_s: 0.001, e2e_s: 9.0}")["outcome"] == "fail"


def test_an_objective_that_is_just_met_is_met(folder, judged):
    folder.benchmark("candidate", lines=lambda lines: [line.update(ttft_s=0.05) for line in lines])
    assert attained(judged, "{ttft_s: 0.05}")["estimate"] == 0
    assert attained(judged, "{ttft_s: 0.0499}")["estimate"] == 1


@pytest.fixture
def without_durations(folder):
    """The requests of the candidate, of which the tool kept no durations."""
    folder.benchmark("candidate", folder.seconds(400, seed=2))
    (requests,) = [i.record.requests for i in load_evidence(folder.root).items if i.envelope.role == "candidate"]
    return replace(requests, e2e_s=array("d", [math.nan]) * 400)


def test_objectives_of_which_the_file_has_one_are_not_judged(judged, without_durations):
    record = attained(judged, "{ttft_s: 1.0, e2e_s: 9.0}", candidate={"requests": without_durations})
    assert outcome(record) == ("unknown", ["no_evidence"])


def test_where_requests_do_not_show_it_the_count_of_the_tool_does(judged, without_durations):
    objectives = {"ttft_s": 1.0, "e2e_s": 9.0}
    counted = {"requests": without_durations, "good": 200, "slo": objectives}
    record = attained(judged, "{ttft_s: 1.0, e2e_s: 9.0}", candidate=counted)
    assert (record["outcome"], record["estimate"], record["n"]) == ("fail", 0.5, [400])
    other = attained(judged, "{ttft_s: 1.0, e2e_s: 8.0}", candidate=counted)
    assert outcome(other) == ("unknown", ["not_comparable"])


def test_a_superseded_run_that_missed_the_objectives_still_rejects(folder, judged):
    old = folder.benchmark("candidate", [2.0] * 400, name="old")
    named = [{"evidence_id": json.loads(old.read_text())["evidence_id"], "reason": "the cable was loose"}]
    folder.benchmark("candidate", folder.seconds(400, seed=2), change=lambda e: e.update(supersedes=named))
    record = attained(judged, "{ttft_s: 1.0}")
    assert (outcome(record), len(record["evidence"])) == (("fail", ["limit_exceeded"]), 2)
