"""Latency of which a tool kept only percentiles: a guard band for one run a side, an interval for several in pairs."""

import json

import pytest

from pulumi_infercrane.guard import load_evidence
from pulumi_infercrane.guard.judging.latency import pooled_seconds
from pulumi_infercrane.guard.judging.rule import Member

HEAD = "schema: infercrane.policy/v1\nrequired_kinds: [benchmark]\nmin_duration_s: 0\n"


@pytest.fixture
def sides(folder, summary_run):
    """`sides(1.1)`: one summary of either side, the candidate 1.1 times as slow."""

    def write(scale=1.0, baseline=None, **candidate):
        folder.summary("baseline", summary_run(**(baseline or {})))
        folder.summary("candidate", summary_run(scale=scale, **candidate))

    return write


def judged(folder, rule="id: benchmark.ttft_p95", head=HEAD):
    return folder.decide(policy=f"{head}rules: [{{{rule}}}]").record["rules"][0]


@pytest.mark.parametrize(
    ("scale", "outcome", "reason"),
    [
        (0.8, "pass", "within_margin"),
        (1.075, "pass", "within_margin"),
        (1.076, "unknown", "summary_only"),
        (1.299, "unknown", "summary_only"),
        (1.3, "fail", "margin_exceeded"),
    ],
)
def test_half_the_margin_passes_and_twice_the_margin_fails(folder, sides, scale, outcome, reason):
    sides(scale)
    record = judged(folder)
    assert (record["outcome"], record["reasons"], record["method"]) == (outcome, [reason], "guard_band")
    assert (record["estimate"], record["limit"]) == (pytest.approx(scale), 1.15)


def test_what_would_settle_it_is_the_option_of_the_tool(folder, sides):
    sides(1.2)
    assert "--save-detailed" in judged(folder)["needs"]


@pytest.mark.parametrize(("n", "reason"), [(199, "insufficient_n"), (999, "insufficient_n"), (1000, "within_margin")])
def test_a_summary_of_few_requests_settles_nothing(folder, sides, n, reason):
    sides(n=n, baseline={"n": n, "concurrency": 2}, concurrency=2)
    record = judged(folder)
    assert record["reasons"] == [reason]


def test_a_summary_of_very_few_requests_does_not_even_fail(folder, sides):
    sides(3.0, n=199, baseline={"n": 199, "concurrency": 1}, concurrency=1)
    assert judged(folder)["reasons"] == ["insufficient_n"]


@pytest.mark.parametrize(
    ("failed", "rule", "reason"),
    [
        (20, "id: benchmark.ttft_p95", "within_margin"),
        (21, "id: benchmark.ttft_p95", "summary_only"),
        (99, "id: benchmark.ttft_p95", "summary_only"),
        (100, "id: benchmark.ttft_p95", "margin_exceeded"),
        (100, "id: benchmark.ttft_p50", "within_margin"),
        (20, "id: benchmark.ttft_p99", "margin_exceeded"),
    ],
)
def test_where_that_share_failed_the_quantile_is_infinite(folder, sides, failed, rule, reason):
    sides(failed=failed)
    assert judged(folder, rule)["reasons"] == [reason]


def test_quantiles_that_count_failures_leave_none_out(folder, samples):
    """A4: half of the requests took at most 54.0 ms, of the answers 50.7 ms."""
    export = json.loads((samples / "aiperf/fail14pct.json").read_text())
    for role in ("baseline", "candidate"):
        folder.measured(role, "aiperf", "0.13.0", {"primary": export | {"benchmark_id": role}})
    rules = "{id: benchmark.ttft_p50, min_pass: 80}, {id: benchmark.error_fraction, limit: 0.2}"
    record = folder.decide(policy=f"{HEAD}rules: [{rules}]").record["rules"][0]
    assert (record["outcome"], record["method"]) == ("pass", "guard_band")


def test_an_infinite_quantile_of_the_baseline_is_no_bar(folder, sides):
    sides(baseline={"failed": 100})
    policy = f"{HEAD}rules: [{{id: benchmark.ttft_p95}}, {{id: benchmark.error_fraction, limit: 0.2}}]"
    assert folder.decide(policy=policy).record["rules"][0]["reasons"] == ["baseline_broken"]


def test_a_percentile_that_was_not_written_names_the_option(folder, summary_run):
    """V1: p95 exists only when asked for."""
    for role in ("baseline", "candidate"):
        run = {key: value for key, value in summary_run().items() if "p95_ttft" not in key}
        folder.summary(role, run)
    record = judged(folder)
    assert (record["outcome"], record["reasons"]) == ("unknown", ["no_evidence"])
    assert record["needs"] == "measure with --percentile-metrics ttft,tpot,e2el --metric-percentiles 50,95,99"


def test_milliseconds_against_seconds_are_suspected(folder, sides):
    sides(baseline={"scale": 0.001})
    assert judged(folder)["reasons"] == ["unit_suspect"]


# --- several runs -----------------------------------------------------------------------------------------------


def repeated(folder, summary_run, scales, group="g", roles=("baseline", "candidate")):
    for role in roles:
        for ordinal, (low, high) in enumerate(scales, start=1):
            run = summary_run(n=700, scale=high if role == "candidate" else low)
            place = {"group": group, "ordinal": ordinal, "of": len(scales)}
            folder.summary(
                role,
                run,
                name=f"{role}-{ordinal}",
                change=lambda envelope, place=place: envelope.update(run=place),
            )


@pytest.mark.parametrize(
    ("ratios", "outcome", "reason"),
    [
        ((1.00, 1.01, 1.02), "pass", "within_margin"),
        ((1.40, 1.41, 1.42), "fail", "margin_exceeded"),
        ((0.90, 1.10, 1.30), "unknown", "interval_straddles"),
    ],
)
def test_three_runs_in_pairs_give_an_interval(folder, summary_run, ratios, outcome, reason):
    repeated(
        folder, summary_run, [(scale, scale * ratio) for scale, ratio in zip((1.0, 1.2, 0.9), ratios, strict=True)]
    )
    record = judged(folder)
    assert (record["outcome"], record["reasons"], record["method"]) == (outcome, [reason], "repeated_runs")
    assert record["lo"] <= record["estimate"] <= record["hi"]


def test_two_runs_are_not_averaged(folder, summary_run):
    repeated(folder, summary_run, [(1.0, 1.0), (1.0, 1.0)])
    record = judged(folder)
    assert (record["outcome"], record["reasons"]) == ("unknown", ["percentile_of_percentiles"])


def test_three_runs_without_partners_are_not_averaged(folder, summary_run):
    for ordinal in range(3):
        for role in ("baseline", "candidate"):
            folder.summary(role, summary_run(scale=1.1 if role == "candidate" else 1.0), name=f"{role}-{ordinal}")
    assert judged(folder)["reasons"] == ["percentile_of_percentiles"]


def test_a_run_of_which_too_much_failed_fails_them_all(folder, summary_run):
    repeated(folder, summary_run, [(1.0, 1.0)] * 3)
    place = {"group": "g", "ordinal": 3, "of": 3}
    folder.summary(
        "candidate",
        summary_run(n=700, failed=40),
        name="candidate-3",
        change=lambda envelope: envelope.update(run=place),
    )
    record = judged(folder)
    assert (record["outcome"], record["method"]) == ("fail", "repeated_runs")


# --- requests beside summaries ----------------------------------------------------------------------------------


def detailed(run, scale=1.0):
    n = run["num_prompts"]
    spread = [50.0 * scale * (0.5 + index / (n - 1)) for index in range(n)]
    run |= {"ttfts": [x / 1e3 for x in spread], "output_lens": [48] * n, "input_lens": [30] * n}
    run |= {"latencies": [x / 1e3 + 0.47 * scale for x in spread]}
    return {key: value for key, value in run.items() if not key.endswith("_ms")} | {"mean_ttft_ms": 50.0 * scale}


def test_one_detailed_and_one_summary_of_a_side_are_not_mixed(folder, sides, summary_run):
    sides()
    folder.summary("candidate", detailed(summary_run(n=1500)), name="more")
    record = judged(folder)
    assert (record["outcome"], record["reasons"]) == ("unknown", ["percentile_of_percentiles"])
    assert "every request" in record["needs"]
    errors = judged(folder, "id: benchmark.error_fraction")
    assert (errors["n"], errors["outcome"]) == ([3500], "pass")  # counts may be added


def test_requests_on_one_side_meet_a_summary_on_the_other_in_the_band(folder, sides, summary_run):
    sides()
    folder.summary("candidate", detailed(summary_run()))
    record = judged(folder)
    assert (record["method"], record["estimate"]) == ("guard_band", pytest.approx(72.5 / 90, rel=0.01))


def test_requests_on_both_sides_give_an_interval(folder, summary_run):
    for role in ("baseline", "candidate"):
        run = detailed(summary_run())
        folder.summary(role, run)
    record = judged(folder)
    assert (record["method"], record["outcome"]) == ("bootstrap_ratio", "pass")


def test_durations_of_every_request_do_not_stand_in_for_first_tokens(folder, summary_run):
    for role in ("baseline", "candidate"):
        run = {key: value for key, value in summary_run().items() if "e2el" not in key}
        folder.summary(role, run | {"latencies": [0.5 + 0.00002 * index for index in range(2000)]})
    members = [Member(item.envelope, item.record) for item in load_evidence(folder.root).items]
    assert (pooled_seconds(members, "ttft_s"), len(pooled_seconds(members, "e2e_s"))) == ([], 4000)
    assert judged(folder)["method"] == "guard_band"
    attained = judged(folder, "id: benchmark.attainment", HEAD + "slo: {ttft_s: 0.5}\n")
    assert (attained["outcome"], attained["reasons"]) == ("unknown", ["no_evidence"])
    assert judged(folder, "id: benchmark.attainment", HEAD + "slo: {e2e_s: 0.6}\n")["outcome"] == "pass"


def test_one_impossible_latency_in_a_thousand_counts_as_a_failure(folder, summary_run):
    run = detailed(summary_run())
    run["ttfts"][7] = -1.7e9
    folder.summary(
        "candidate", {key: value for key, value in run.items() if key != "mean_ttft_ms"} | {"p1_ttft_ms": 25.5}
    )
    record = judged(folder, "id: benchmark.error_fraction")
    assert (record["n"], record["estimate"]) == ([2000], 0.0005)
