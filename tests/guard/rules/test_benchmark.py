"""Load runs: intervals against margins, failures never hidden, unequal runs never compared."""

import json
from types import SimpleNamespace

import pytest

from pulumi_infercrane.guard.evidence.records import Benchmark
from pulumi_infercrane.guard.judging.rule import Member, Rule, Settings, Sides
from pulumi_infercrane.guard.rules import find_kind
from tests.guard.asking import supersede

HEAD = "schema: infercrane.policy/v1\nmin_duration_s: 60\nrequired_kinds: [benchmark]\n"


def judged(folder, rule, head=HEAD):
    """The record of the only rule of a policy."""
    (record,) = folder.decide(policy=f"{head}rules:\n  - {{{rule}}}\n").record["rules"]
    return record


def both(folder, candidate=None, baseline=None, **changes):
    folder.benchmark("baseline", baseline or folder.seconds(400, seed=1))
    folder.benchmark("candidate", candidate or folder.seconds(400, seed=2), **changes)


# --- failures ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "failed", "limit", "outcome", "code"),
    [
        (150, 49, 0.01, "fail", "limit_exceeded"),
        (20, 19, 0.01, "fail", "limit_exceeded"),
        (60, 6, 0.01, "fail", "limit_exceeded"),
        (150, 0, 0.01, "unknown", "insufficient_n"),
        (60, 0, 0.01, "unknown", "insufficient_n"),
        (299, 0, 0.01, "pass", "within_margin"),
        (300, 0, 0.01, "pass", "within_margin"),
        (1000, 4, 0.01, "pass", "within_margin"),
        (1000, 5, 0.01, "unknown", "interval_straddles"),
        (150, 2, 0.05, "pass", "within_margin"),
        (150, 3, 0.05, "unknown", "interval_straddles"),
        (150, 13, 0.05, "fail", "limit_exceeded"),
    ],
)
def test_error_fraction(folder, n, failed, limit, outcome, code):
    folder.benchmark("candidate", folder.seconds(n), failed=failed)
    record = judged(folder, f"id: benchmark.error_fraction, limit: {limit}")
    assert (record["outcome"], record["reasons"]) == (outcome, [code])
    assert record["n"] == [n]


def test_too_few_requests_say_how_many_are_missing(folder):
    folder.benchmark("candidate", folder.seconds(150))
    record = judged(folder, "id: benchmark.error_fraction")
    assert record["detail"] == "150 of 299 requests, share 0 [0, 0.0198] against 0.01"
    assert record["needs"] == "about 149 more requests needed"


def test_a_share_at_the_limit_cannot_be_settled(folder):
    folder.benchmark("candidate", folder.seconds(400), failed=20)
    assert "no practical number" in judged(folder, "id: benchmark.error_fraction, limit: 0.05")["needs"]


def test_no_failure_at_all_can_be_demanded_but_never_shown(folder):
    folder.benchmark("candidate", folder.seconds(400))
    record = judged(folder, "id: benchmark.error_fraction, limit: 0")
    assert (record["outcome"], record["reasons"]) == ("unknown", ["insufficient_n"])


def test_a_lowered_minimum_may_not_make_a_wide_interval_pass(folder):
    folder.benchmark("candidate", folder.seconds(30))
    assert judged(folder, "id: benchmark.error_fraction, limit: 0.05, min_pass: 1")["outcome"] == "unknown"


def test_a_raised_minimum_keeps_a_narrow_interval_from_passing(folder):
    folder.benchmark("candidate", folder.seconds(300))
    record = judged(folder, "id: benchmark.error_fraction, min_pass: 500")
    assert (record["outcome"], record["reasons"]) == ("unknown", ["insufficient_n"])
    assert record["needs"] == "about 200 more requests needed"


def test_error_fraction_needs_no_baseline(folder):
    folder.benchmark("candidate", folder.seconds(300))
    assert folder.decide(policy=f"{HEAD}rules: [{{id: benchmark.error_fraction}}]").verdict == "promote"


@pytest.mark.parametrize(
    ("n", "failed", "outcome"),
    [(539, (0, 0), "pass"), (538, (0, 0), "unknown"), (1000, (5, 25), "fail"), (1000, (25, 5), "pass")],
)
def test_error_fraction_against_the_baseline(folder, n, failed, outcome):
    folder.benchmark("baseline", folder.seconds(n, seed=1), failed=failed[0])
    folder.benchmark("candidate", folder.seconds(n, seed=2), failed=failed[1])
    policy = HEAD + "rules: [{id: benchmark.error_fraction_difference}, {id: benchmark.error_fraction, limit: 0.5}]\n"
    assert folder.decide(policy=policy).record["rules"][0]["outcome"] == outcome


# --- empty answers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("empty", "outcome"), [(0, "pass"), (4, "unknown"), (20, "fail")])
def test_answers_without_a_token_are_no_answers(folder, empty, outcome):
    def silent(lines):
        for line in lines[:empty]:
            line["out_tokens"] = 0
            line["e2e_s"] = line["ttft_s"]
            line.pop("tpot_s")

    folder.benchmark("candidate", folder.seconds(400), lines=silent)
    record = judged(folder, "id: benchmark.empty_fraction")
    assert (record["outcome"], record["estimate"]) == (outcome, empty / 400)


def test_answers_nobody_counted_the_tokens_of_may_be_empty(folder):
    def uncounted(lines):
        for line in lines:
            for name in ("out_tokens", "token_source"):
                line.pop(name)

    folder.benchmark("candidate", folder.seconds(400), lines=uncounted)
    record = judged(folder, "id: benchmark.empty_fraction")
    assert (record["outcome"], record["reasons"]) == ("unknown", ["no_evidence"])


def test_a_tool_that_keeps_no_answers_cannot_say_which_were_empty(folder, summary_run):
    folder.summary("candidate", summary_run())
    record = judged(folder, "id: benchmark.empty_fraction")
    assert record["detail"] == "vllm-bench does not say which answers were empty"


def silent(lines):
    for line in lines[:40]:
        line["out_tokens"] = 0
        line["e2e_s"] = line["ttft_s"]
        line.pop("tpot_s")


def test_empty_answers_of_a_superseded_run_still_count(folder):
    old = folder.benchmark("candidate", folder.seconds(400), name="old", lines=silent)
    supersede(folder, old)
    assert judged(folder, "id: benchmark.empty_fraction")["outcome"] == "fail"


def test_a_superseded_run_that_does_not_tell_which_were_empty_is_left_out(folder):
    def uncounted(lines):
        for line in lines:
            for name in ("out_tokens", "token_source"):
                line.pop(name)

    old = folder.benchmark("candidate", folder.seconds(400), name="old", lines=uncounted)
    supersede(folder, old)
    record = judged(folder, "id: benchmark.empty_fraction")
    assert (record["outcome"], record["n"]) == ("pass", [300])


@pytest.mark.parametrize(("empty", "outcome"), [(0, "pass"), (40, "fail")])
def test_a_tool_may_count_empty_answers_without_keeping_the_others(empty, outcome):
    record = Benchmark(attempted=400, failed=0, empty=empty)
    envelope = SimpleNamespace(evidence_id="id", primary=SimpleNamespace(tool="inference-perf"))
    sides = Sides((Member(envelope, record),), ())
    rule = Rule("benchmark.empty_fraction", "benchmark", True, False, 0.01, 1, 1)
    assert find_kind("benchmark").judge(rule, sides, Settings(0.05, 60.0)).outcome == outcome


# --- latency ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["ttft_p50", "ttft_p95", "tpot_p50", "tpot_p95", "e2e_p95"])
def test_equal_revisions_are_within_a_generous_margin(folder, rule):
    both(folder)
    record = judged(folder, f"id: benchmark.{rule}, margin: 0.5, min_pass: 400")
    assert (record["outcome"], record["method"], record["n"]) == ("pass", "bootstrap_ratio", [400, 400])
    assert record["limit"] == 1.5


def test_a_slower_candidate_fails_with_figures(folder):
    both(folder, folder.seconds(400, seed=2, scale=3.0))
    record = judged(folder, "id: benchmark.ttft_p95, min_pass: 400")
    assert (record["outcome"], record["reasons"]) == ("fail", ["margin_exceeded"])
    assert 1.15 < record["lo"] < record["estimate"] < record["hi"]
    assert record["detail"].startswith("ratio ")
    assert record["detail"].endswith("against 1.15, 400 requests against 400")


def test_a_pure_rise_of_spread_is_caught(folder):
    steady = [0.050 + 0.0001 * (index % 10) for index in range(400)]
    jumpy = [value + (0.1 if index % 10 == 0 else 0) for index, value in enumerate(steady)]
    both(folder, jumpy, steady)
    assert judged(folder, "id: benchmark.ttft_p50, min_pass: 400")["outcome"] == "pass"
    assert judged(folder, "id: benchmark.ttft_p95, min_pass: 400")["outcome"] == "fail"


def test_below_min_compute_no_interval_is_formed_in_either_direction(folder):
    both(folder, folder.seconds(199, seed=2, scale=9.0), folder.seconds(199))
    record = judged(folder, "id: benchmark.ttft_p95")
    assert (record["outcome"], record["reasons"]) == ("unknown", ["insufficient_n"])
    assert "lo" not in record
    assert record["needs"] == "about 801 more requests on each side needed"


def test_below_min_pass_a_fail_stands_and_a_pass_does_not(folder):
    both(folder, folder.seconds(400, seed=2, scale=3.0))
    assert judged(folder, "id: benchmark.ttft_p95")["outcome"] == "fail"
    both(folder, folder.seconds(400, seed=2, scale=0.5))
    record = judged(folder, "id: benchmark.ttft_p95")
    assert (record["outcome"], record["reasons"]) == ("unknown", ["insufficient_n"])
    assert record["needs"] == "about 600 more requests on each side needed"


def test_failures_count_as_infinitely_slow(folder):
    both(folder, failed=60)
    record = judged(folder, "id: benchmark.ttft_p95, min_pass: 400")
    assert (record["outcome"], record["estimate"], record["lo"]) == ("fail", "inf", "inf")


def test_a_broken_baseline_proves_nothing_about_the_candidate(folder):
    folder.benchmark("baseline", folder.seconds(400, seed=1), failed=60)
    folder.benchmark("candidate", folder.seconds(400, seed=2))
    record = judged(folder, "id: benchmark.ttft_p95")
    assert (record["outcome"], record["reasons"]) == ("unknown", ["baseline_broken"])


def test_a_baseline_whose_quantile_is_infinite_is_broken_whatever_the_error_limit(folder):
    folder.benchmark("baseline", folder.seconds(400, seed=1), failed=60)
    folder.benchmark("candidate", folder.seconds(400, seed=2))
    policy = f"{HEAD}rules: [{{id: benchmark.error_fraction, limit: 0.9}}, {{id: benchmark.ttft_p95}}]"
    assert folder.decide(policy=policy).record["rules"][1]["reasons"] == ["baseline_broken"]


def test_milliseconds_against_seconds_are_suspected(folder):
    values = [0.02 + 0.00001 * index for index in range(400)]
    scaled = [1000 * value for value in values]

    def in_milliseconds(lines):
        for line in lines:
            line["e2e_s"] = line["ttft_s"] + 0.47

    both(folder, scaled, values, lines=in_milliseconds)
    record = judged(folder, "id: benchmark.ttft_p95, min_pass: 400")
    assert (record["outcome"], record["reasons"]) == ("unknown", ["unit_suspect"])


def test_no_baseline_is_no_evidence(folder):
    folder.benchmark("candidate", folder.seconds(400))
    record = judged(folder, "id: benchmark.ttft_p95")
    assert (record["reasons"], record["detail"]) == (["no_evidence"], "no admissible baseline measurement")


# --- attainment -------------------------------------------------------------------------------------------------

SLO = HEAD + "slo: {ttft_s: 0.06}\n"


@pytest.mark.parametrize(
    ("slow", "failed", "outcome"),
    [(0, 0, "pass"), (24, 10, "fail"), (34, 0, "fail"), (0, 34, "fail"), (3, 1, "unknown")],
)
def test_attainment_counts_slow_and_failed_requests_alike(folder, slow, failed, outcome):
    folder.benchmark("candidate", [0.07] * slow + [0.05] * (80 - slow), failed=failed)
    record = judged(folder, "id: benchmark.attainment", SLO)
    assert record["outcome"] == outcome
    assert record["limit"] == 0.05


def test_an_objective_on_time_per_token_spares_answers_of_one_token(folder):
    def short(lines):
        for line in lines:
            line.update(out_tokens=1, e2e_s=line["ttft_s"])
            del line["tpot_s"]

    folder.benchmark("candidate", [0.05] * 80, lines=short)
    assert judged(folder, "id: benchmark.attainment", HEAD + "slo: {tpot_s: 0.000001}\n")["outcome"] == "pass"


def test_an_answer_of_nothing_is_not_a_good_one(folder):
    def empty(lines):
        for line in lines[:34]:
            line.update(out_tokens=0, e2e_s=line["ttft_s"])
            del line["tpot_s"]

    folder.benchmark("candidate", [0.05] * 80, lines=empty)
    assert judged(folder, "id: benchmark.attainment", SLO)["outcome"] == "fail"


def test_an_objective_is_not_met_by_answers_whose_time_nobody_took(folder):
    """A log of a proxy mixes streamed calls with calls answered in one piece, which have no first token."""
    starts = [1796011200 + index * 0.55 for index in range(200)]
    common = {"model": "m", "status": "success", "completion_tokens": 9}
    times = [{"startTime": at, "endTime": at + 2, "completionStartTime": at + 0.01} for at in starts]
    calls = [{"id": str(i), "stream": i < 20 or None} | common | one for i, one in enumerate(times)]
    raw = "".join(json.dumps(call) + "\n" for call in calls).encode()
    folder.measured("candidate", "litellm", "1", {"primary": raw})
    record = judged(folder, "id: benchmark.attainment", SLO)
    assert (record["outcome"], record["reasons"]) == ("unknown", ["no_evidence"])


# --- comparability ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scenario", "text"),
    [
        ({"id": "chat-long"}, "scenario.id differs: chat-long against chat-short"),
        ({"dataset_digest": "sha256:" + "e" * 64}, "scenario.dataset_digest differs"),
        ({"streaming": True}, "scenario.streaming differs: True against not stated"),
        ({"path": "gateway"}, "scenario.path differs"),
        ({"replicas": 2}, "scenario.replicas differs"),
        ({"cache": "warm"}, "scenario.cache differs"),
        ({"random_seed": 7}, "scenario.random_seed differs"),
        ({"concurrency": 3}, "scenario.concurrency differs: 2 against 3"),
    ],
)
def test_another_workload_is_not_comparable(folder, scenario, text):
    both(folder, change=lambda envelope: envelope["scenario"].update(scenario))
    record = judged(folder, "id: benchmark.ttft_p95")
    assert (record["outcome"], record["reasons"]) == ("unknown", ["not_comparable"])
    assert record["detail"].startswith(text)


def test_a_rate_within_two_percent_is_the_same_rate(folder):
    folder.benchmark("baseline", folder.seconds(400), change=lambda e: e["scenario"].update(rate=10.0))
    folder.benchmark("candidate", folder.seconds(400), change=lambda e: e["scenario"].update(rate=10.19))
    assert judged(folder, "id: benchmark.ttft_p50, min_pass: 400")["outcome"] == "pass"
    folder.benchmark("candidate", folder.seconds(400), change=lambda e: e["scenario"].update(rate=10.3))
    assert judged(folder, "id: benchmark.ttft_p50, min_pass: 400")["reasons"] == ["not_comparable"]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ({"out_tokens": 47}, "mean output length in tokens differs: 47 against 48"),
        ({"in_tokens": 31}, "mean input length in tokens differs: 30 against 31"),
        ({"token_source": "events"}, "token_source differs: events against usage"),
    ],
)
def test_other_lengths_are_not_comparable(folder, line, text):
    both(folder, lines=lambda lines: [one.update(line) for one in lines])
    assert judged(folder, "id: benchmark.ttft_p95")["detail"] == text


def test_another_tokenizer_may_count_the_same_input_differently(folder, subject_of):
    folder.subjects["candidate"] = subject_of("r2", tokenizer_digest="sha256:" + "e" * 64)
    both(folder, lines=lambda lines: [one.update(in_tokens=36) for one in lines])
    assert judged(folder, "id: benchmark.ttft_p50, margin: 0.5, min_pass: 400")["outcome"] == "pass"


def test_another_concurrency_in_the_file_is_not_comparable(folder):
    both(folder, header={"concurrency": 768})
    assert judged(folder, "id: benchmark.ttft_p95")["detail"] == "concurrency differs: 2 against 768"


def test_another_runtime_is_the_declared_change_and_comparable(folder, subject_of):
    engine = {"name": "vllm", "version": "0.33.0", "args_digest": "sha256:" + "1" * 64}
    accelerator = {"vendor": "nvidia", "sku": "L40S", "count": 1}
    folder.subjects["candidate"] = subject_of("r2", engine=engine, accelerator=accelerator, region="eu")
    both(folder)
    decision = folder.decide(policy=f"{HEAD}rules: [{{id: benchmark.ttft_p50, margin: 0.5, min_pass: 400}}]")
    assert decision.verdict == "promote"
    assert decision.record["change"] == ["accelerator", "engine", "region"]


def caches(hits, cache="warm"):
    def change(envelope):
        envelope["scenario"]["cache"] = cache
        before = {"prefix_cache": {"hits": 0, "queries": 0}}
        envelope["probes"] = {"before": before, "after": {"prefix_cache": {"hits": hits, "queries": 100}}}

    return change


@pytest.mark.parametrize(
    ("cache", "hits", "reasons"),
    [
        ("warm", (50, 54), ["within_margin"]),
        ("warm", (50, 60), ["cache_bias"]),
        ("cold", (2, 4), ["within_margin"]),
        ("cold", (50, 50), ["cache_bias"]),
    ],
)
def test_cached_prompts_bias_a_comparison(folder, cache, hits, reasons):
    folder.benchmark("baseline", folder.seconds(400), change=caches(hits[0], cache))
    folder.benchmark("candidate", folder.seconds(400), change=caches(hits[1], cache))
    assert judged(folder, "id: benchmark.ttft_p50, min_pass: 400")["reasons"] == reasons


# --- time and repeats -------------------------------------------------------------------------------------------


def measured(day, time="04"):
    window = {"started_at": f"2026-11-{day}T{time}:00:00Z", "ended_at": f"2026-11-{day}T{time}:02:00Z"}
    return {"header": dict(window), "change": lambda envelope: envelope.update(window=window)}


@pytest.mark.parametrize(
    ("day", "reasons", "notes"),
    [(30, ["within_margin"], []), (28, ["within_margin"], ["stale_baseline"]), (22, ["stale"], [])],
)
def test_an_old_baseline_is_warned_about_and_then_refused(folder, day, reasons, notes):
    folder.benchmark("baseline", folder.seconds(400), **measured(day))
    folder.benchmark("candidate", folder.seconds(400))
    record = judged(folder, "id: benchmark.ttft_p50, min_pass: 400")
    assert record["reasons"] == reasons
    assert [note for note in record.get("notes", []) if note == "stale_baseline"] == notes


def test_with_a_longer_age_allowed_seven_days_apart_is_still_too_far(folder):
    folder.benchmark("baseline", folder.seconds(400), **measured(20))
    folder.benchmark("candidate", folder.seconds(400))
    record = judged(folder, "id: benchmark.ttft_p50, min_pass: 400", HEAD + "max_age: {benchmark: 30d}\n")
    assert (record["reasons"], record["detail"]) == (
        ["stale"],
        "the baseline was measured 10 days apart from the candidate",
    )


def test_repeats_are_pooled(folder):
    for name, seed in (("one", 1), ("two", 2)):
        folder.benchmark("candidate", folder.seconds(150, seed), name=name)
    record = judged(folder, "id: benchmark.error_fraction")
    assert (record["n"], record["outcome"], len(record["evidence"])) == ([300], "pass", 2)


def test_a_run_that_fails_by_itself_stands_however_many_good_ones_follow(folder):
    folder.benchmark("candidate", folder.seconds(150, seed=1), failed=20, name="bad")
    for seed in range(2, 12):
        folder.benchmark("candidate", folder.seconds(400, seed=seed), name=f"good-{seed}")
    assert judged(folder, "id: benchmark.error_fraction, limit: 0.05")["outcome"] == "fail"


def test_runs_that_differ_by_more_than_noise_are_in_conflict(folder):
    folder.benchmark("baseline", folder.seconds(600))
    folder.benchmark("candidate", folder.seconds(300, seed=2), name="one")
    folder.benchmark("candidate", folder.seconds(300, seed=3, scale=1.5), name="two")
    record = judged(folder, "id: benchmark.ttft_p50, margin: 1, min_pass: 400")
    assert (record["outcome"], record["reasons"]) == ("unknown", ["conflict"])
    assert "supersede" in record["needs"]


def in_pairs(folder, speeds, n=300):
    """Runs of both sides in pairs, each pair on a machine of another speed."""
    for ordinal, speed in enumerate(speeds, start=1):

        def placed(envelope, ordinal=ordinal):
            envelope["run"] = {"group": "g", "ordinal": ordinal, "of": len(speeds)}

        for role, seed in (("baseline", ordinal), ("candidate", 10 + ordinal)):
            folder.benchmark(role, folder.seconds(n, seed=seed, scale=speed), name=f"{role}-{ordinal}", change=placed)


def test_three_runs_in_pairs_are_compared_pair_by_pair(folder):
    in_pairs(folder, (1.0, 1.6, 0.7))
    record = judged(folder, "id: benchmark.ttft_p50, margin: 0.3, min_pass: 400")
    assert (record["outcome"], record["method"], record["n"]) == ("pass", "repeated_runs", [900, 900])
    assert record["detail"].endswith("3 runs against 3")


def test_runs_too_short_for_a_quantile_of_their_own_are_pooled(folder):
    in_pairs(folder, (1.0, 1.0, 1.0), n=150)
    rule = "id: benchmark.ttft_p50, margin: 0.3, min_pass: 400, min_compute: 200"
    assert judged(folder, rule)["method"] == "bootstrap_ratio"


def test_shares_that_differ_by_more_than_noise_are_in_conflict(folder):
    folder.benchmark("candidate", folder.seconds(1000, seed=2), name="one")
    folder.benchmark("candidate", folder.seconds(1000, seed=3), failed=12, name="two")
    assert judged(folder, "id: benchmark.error_fraction, limit: 0.05")["reasons"] == ["conflict"]


# --- completeness -----------------------------------------------------------------------------------------------


def test_a_run_shorter_than_the_minimum_is_truncated(folder):
    folder.benchmark("candidate", folder.seconds(400))
    record = judged(folder, "id: benchmark.error_fraction", HEAD.replace("60", "600"))
    assert (record["reasons"], record["detail"]) == (["truncated"], "measured for 120 s, at least 600 s are required")
    assert record["needs"] == "a run of at least 600 s (`min_duration_s` of the policy)"


def test_a_run_with_fewer_requests_than_planned_is_truncated(folder):
    folder.benchmark("candidate", folder.seconds(400), lines=lambda lines: lines.__delitem__(slice(379, None)))
    record = judged(folder, "id: benchmark.error_fraction")
    assert (record["reasons"], record["detail"]) == (["truncated"], "379 of 400 planned requests are in the file")
    folder.benchmark("candidate", folder.seconds(400), lines=lambda lines: lines.__delitem__(slice(380, None)))
    assert judged(folder, "id: benchmark.error_fraction")["outcome"] == "pass"
