"""Load tools at rule level, on the files they wrote: each figure is one their users would otherwise get wrong.

Every case stands twice: as the rule decides, and under the default policy, where a run shorter than a minute is
truncated. The last tests drive one complete decision for every tool.
"""

import json
import math

import pytest

from pulumi_infercrane.guard import load_evidence
from pulumi_infercrane.guard.judging.latency import Quantile, adjusted_quantile
from pulumi_infercrane.guard.judging.rule import Member

HEAD = "schema: infercrane.policy/v1\nrequired_kinds: [benchmark]\n"
ANY_LENGTH = HEAD + "min_duration_s: 0\n"

VLLM, SGLANG, AIPERF = ("vllm-bench", "0.33.0"), ("sglang-bench", "0.5.23"), ("aiperf", "0.13.0")


@pytest.fixture
def case(folder, samples):
    """`case(("vllm-bench", "0.33.0"), "ok.json")`: a sample, bytes or an object as evidence of one side."""

    def write(tool, source, role="candidate", **about):
        content = (samples / tool[0] / source).read_bytes() if isinstance(source, str) else source
        folder.measured(role, *tool, {"primary": content}, **about)

    return write


@pytest.fixture
def judged(folder):
    def judge(rule, more="", head=ANY_LENGTH):
        return folder.decide(policy=f"{head}{more}rules: [{{id: benchmark.{rule}}}]").record["rules"][0]

    return judge


def figures(record):
    return record["outcome"], round(record["lo"], 4), round(record["hi"], 4)


# --- failures ---------------------------------------------------------------------------------------------------

FAILURES = [
    pytest.param(VLLM, "19of20_failed.json", {}, "fail", 0.7839, 0.9974, id="3: 19 of 20"),
    pytest.param(VLLM, "fail10pct.json", {}, "fail", 0.0445, 0.1879, id="4: 6 of 60"),
    pytest.param(VLLM, "ok.json", {}, "unknown", 0.0, 0.0487, id="5: 0 of 60"),
    pytest.param(
        SGLANG, "two_runs_failing.jsonl", {"select": {"line": 1}, "planned": 60}, "fail", 0.1197, 0.3038, id="11"
    ),
    pytest.param(
        SGLANG, "two_runs_failing.jsonl", {"select": {"line": 2}, "planned": 60}, "fail", 0.1332, 0.3222, id="11b"
    ),
    pytest.param(("guidellm", "0.5.4"), "0.5.4_fail15pct.json", {}, "fail", 0.0656, 0.1825, id="12: 11 of 96"),
    pytest.param(("guidellm", "0.6.1"), "0.6.1_fail15pct.json", {}, "fail", 0.057, 0.1686, id="12: 10 of 97"),
    pytest.param(("guidellm", "0.8.1"), "0.8.1_fail15pct.json", {}, "fail", 0.0811, 0.2046, id="12: 13 of 97"),
    pytest.param(AIPERF, "fail14pct.json", {}, "fail", 0.0791, 0.2173, id="14: 11 of 80"),
]


@pytest.mark.parametrize(("tool", "name", "about", "outcome", "lo", "hi"), FAILURES)
def test_failures_are_counted_whatever_the_percentiles_say(case, judged, tool, name, about, outcome, lo, hi):
    case(tool, name, **about)
    assert figures(judged("error_fraction")) == (outcome, lo, hi)
    assert judged("error_fraction", head=HEAD)["reasons"] == ["truncated"]


def test_case_3_the_percentile_of_the_one_answer_is_no_pass(case, judged):
    case(VLLM, "19of20_failed.json")
    case(VLLM, "ok.json", role="baseline")
    assert judged("ttft_p99")["outcome"] != "pass"


@pytest.mark.parametrize("q", [0.95, 0.99])
def test_case_4_the_tail_of_all_requests_is_infinite(case, folder, q):
    """A tenth failed: the p95 over the answers is that of no tail."""
    case(VLLM, "fail10pct.json")
    (item,) = load_evidence(folder.root).items
    spec = Quantile("ttft_s", q, 0.15, hard=True, min_pass=1)
    assert math.isfinite(item.record.latencies["ttft_s"].quantiles[q])
    assert adjusted_quantile(Member(item.envelope, item.record), spec) == math.inf


def test_case_5_says_how_many_more_are_needed(case, judged):
    case(VLLM, "ok.json")
    assert judged("error_fraction")["needs"] == "about 239 more requests needed"


def test_case_6_another_cap_on_concurrency_is_another_operating_point(case, judged):
    case(VLLM, "ok.json", role="baseline")
    case(VLLM, "fail10pct.json")
    for rule in ("ttft_p50", "error_fraction_difference", "e2e_p95"):
        record = judged(rule)
        assert (record["outcome"], record["reasons"]) == ("unknown", ["not_comparable"])
        assert record["detail"] == "concurrency differs: 8 against not stated"


def test_case_7_a_file_of_last_year(case, judged, summary_run):
    run = {key: value for key, value in summary_run(n=300).items() if not key.endswith(("e2el_ms", "p95_ttft_ms"))}
    for role in ("candidate", "baseline"):
        old = run | {"request_rate": 10.0, "max_concurrency": None, "request_goodput:": None, "label": role}
        del old["failed"]
        case(VLLM, old, role=role)
    record = judged("error_fraction")
    assert (record["outcome"], round(record["hi"], 5)) == ("pass", 0.00994)
    latency = judged("ttft_p95")
    assert (latency["outcome"], latency["reasons"]) == ("unknown", ["no_evidence"])


def test_case_8_several_results_in_one_file(case, judged):
    case(VLLM, "append_result_not_json.json")
    assert judged("error_fraction")["reasons"] == ["ambiguous_run"]


def test_case_10_nobody_counted_the_failures(case, judged):
    case(SGLANG, "ok.jsonl")
    record = judged("error_fraction")
    assert (record["outcome"], record["reasons"]) == ("unknown", ["counters_disagree"])
    assert record["needs"] == "planned.requests in the envelope, or a file that keeps every request"


def test_case_11_two_runs_in_one_file(case, judged):
    case(SGLANG, "two_runs_failing.jsonl", planned=60)
    assert judged("error_fraction")["reasons"] == ["ambiguous_run"]


def test_case_13_two_requests_settle_nothing(case, judged, summary_run):
    for role in ("candidate", "baseline"):
        case(VLLM, summary_run(n=2, concurrency=1) | {"label": role}, role=role)
    for rule in ("error_fraction", "ttft_p50", "ttft_p95"):
        assert judged(rule)["reasons"] == ["insufficient_n"]


def test_case_14_failures_miss_every_objective(case, judged):
    case(AIPERF, "fail14pct.json")
    assert figures(judged("attainment", "slo: {ttft_s: 0.06}\n")) == ("fail", 0.3312, 0.5231)  # 34 of 80
    other = judged("attainment", "slo: {ttft_s: 0.05}\n")
    assert (other["outcome"], other["reasons"]) == ("unknown", ["not_comparable"])


def test_case_14_token_figures_are_in_doubt(case, judged, samples):
    document = json.loads((samples / "aiperf/fail14pct.json").read_text())
    case(AIPERF, "fail14pct.json")
    case(AIPERF, document | {"benchmark_id": "other"}, role="baseline")
    for rule in ("tpot_p50", "out_tokens_per_s"):
        assert judged(rule)["reasons"] == ["counters_disagree"]
    assert judged("attainment", "slo: {tpot_s: 0.06}\n")["reasons"] == ["counters_disagree"]


# --- good requests of a public pair of runs, from their published numbers ---------------------------------------


def aiperf_run(answered, good, concurrency, rps):
    """As aiperf 0.11 wrote them, at two levels of concurrency."""
    phase = {"name": "profiling", "kind": "profiling", "concurrency": concurrency}
    return {
        "schema_version": "1.3",
        "aiperf_version": "0.11.0",
        "input_config": {"phases": [phase], "slos": {"time_to_first_token": 1000.0}},
        "request_count": {"unit": "requests", "avg": float(answered)},
        "good_request_count": {"unit": "requests", "avg": float(good)},
        "request_throughput": {"unit": "requests/sec", "avg": rps},
        "benchmark_duration": {"unit": "sec", "avg": answered / rps},
        "request_latency": {"unit": "ms", "avg": 1e3 * concurrency / rps},
        "output_token_throughput": {"unit": "tokens/sec", "avg": 200.0 * rps},
    }


SLOW, FAST = aiperf_run(2044, 2044, 16, 6.8), aiperf_run(5097, 193, 768, 17.0)
SLO = "slo: {ttft_s: 1}\n"


def test_case_15_every_request_within_its_objective(case, judged):
    case(("aiperf", "0.11.0"), SLOW)
    record = judged("attainment", SLO, head=HEAD)
    assert (record["outcome"], round(record["hi"], 4), record["n"]) == ("pass", 0.0015, [2044])


def test_case_16_two_and_a_half_times_the_throughput_and_hardly_one_within_its_objective(case, judged):
    case(("aiperf", "0.11.0"), FAST)
    assert figures(judged("attainment", SLO, head=HEAD)) == ("fail", 0.9574, 0.9664)


def test_case_17_another_concurrency_is_another_operating_point(case, judged):
    case(("aiperf", "0.11.0"), SLOW, role="baseline")
    case(("aiperf", "0.11.0"), FAST)
    for rule in ("ttft_p95", "out_tokens_per_s", "error_fraction_difference"):
        record = judged(rule, head=HEAD)
        assert (record["outcome"], record["reasons"]) == ("unknown", ["not_comparable"])


# --- the pace of the client -------------------------------------------------------------------------------------


@pytest.fixture
def late(case, samples):
    """A run whose requests waited in the client, beside one whose did not."""
    document = json.loads((samples / "vllm-bench/ok.json").read_text()) | {"num_prompts": 60}
    case(VLLM, document | {"queue_times": [0.5] * 60, "label": "late"})
    case(VLLM, document | {"label": "in time"}, role="baseline")


@pytest.mark.parametrize("rule", ["ttft_p50, min_compute: 20", "e2e_p95", "error_fraction_difference"])
def test_a_client_that_did_not_keep_up_is_not_compared(late, judged, rule):
    assert judged(rule)["reasons"] == ["client_saturated"]


def test_a_client_that_did_not_keep_up_proves_no_absence_of_errors(late, judged, case, samples):
    assert judged("error_fraction, limit: 0.1")["reasons"] == ["client_saturated"]
    document = json.loads((samples / "vllm-bench/fail10pct.json").read_text())
    case(VLLM, document | {"queue_times": [0.5] * 60})
    assert judged("error_fraction")["outcome"] == "fail"


# --- completeness and comparability -----------------------------------------------------------------------------


def test_requests_cut_at_the_end_are_few_or_the_run_is_truncated(case, judged, samples):
    """G7."""
    document = json.loads((samples / "guidellm/0.8.1_fail15pct.json").read_text())
    totals = document["benchmarks"][0]["metrics"]["request_totals"]
    totals |= {"incomplete": 6, "total": 101}
    case(("guidellm", "0.8.1"), document)
    assert judged("error_fraction")["reasons"] == ["truncated"]
    totals |= {"incomplete": 5, "total": 100}
    case(("guidellm", "0.8.1"), document)
    assert judged("error_fraction")["outcome"] == "fail"


def test_another_rate_is_another_operating_point(case, judged, samples):
    document = json.loads((samples / "vllm-bench/ok.json").read_text())
    case(VLLM, document | {"request_rate": 1000})
    for rate, reason in ((1020, "insufficient_n"), (1030, "not_comparable")):
        case(VLLM, document | {"request_rate": rate}, role="baseline")
        assert judged("ttft_p50")["reasons"] == [reason]


def test_two_tools_are_never_compared(case, judged):
    """vllm-project/guidellm#470: they disagree by 6 % about one server."""
    case(VLLM, "ok.json")
    case(("guidellm", "0.6.1"), "0.6.1_fail15pct.json", role="baseline")
    assert judged("ttft_p50")["reasons"] == ["version_mismatch"]


def test_300_against_1023_output_tokens_of_one_server(case, judged, samples):
    """ai-dynamo/aiperf#339."""
    document = json.loads((samples / "aiperf/fail14pct.json").read_text())
    totals = {"total_osl": 1023, "total_usage_completion_tokens": 300}
    changes = {name: {"unit": "tokens", "avg": float(value)} for name, value in totals.items()}
    for role in ("candidate", "baseline"):
        case(AIPERF, document | changes | {"benchmark_id": role}, role=role)
    record = judged("tpot_p95")
    assert (record["outcome"], record["reasons"]) == ("unknown", ["counters_disagree"])
    assert "1023 against 300" in record["detail"]


@pytest.mark.parametrize("key", ["mean_ttft_ms", "median_ttft_ms"])
def test_a_time_to_first_token_of_zero_is_refused(case, judged, samples, key):
    """LMCache/LMBenchmark#27: TTFT 0, throughput infinite."""
    case(VLLM, json.loads((samples / "vllm-bench/19of20_failed.json").read_text()) | {key: 0})
    assert judged("error_fraction")["reasons"] == ["bad_value"]


def test_an_infinite_throughput_is_refused(case, judged, samples):
    """LMCache/LMBenchmark#27."""
    raw = (samples / "vllm-bench/19of20_failed.json").read_bytes()
    case(VLLM, raw.replace(b'"output_throughput": 15.831979711433503', b'"output_throughput": Infinity'))
    assert judged("error_fraction")["reasons"] == ["non_finite"]


def test_1648_of_3000_succeed_and_the_file_is_silent(case, judged, samples):
    """sgl-project/sglang#2805."""
    line = json.loads((samples / "sglang-bench/ok.jsonl").read_text())
    line |= {"completed": 1648, "duration": 1648 / line["request_throughput"]}
    line |= {"total_output_tokens": 20435, "total_output_tokens_retokenized": 20435, "total_input_tokens": 78000}
    case(SGLANG, line)
    assert judged("error_fraction")["outcome"] == "unknown"
    case(SGLANG, line, planned=3000)
    record = judged("error_fraction")
    assert (record["outcome"], record["n"], round(record["estimate"], 4)) == ("fail", [3000], 0.4507)


# --- complete decisions -----------------------------------------------------------------------------------------

RELEASE = HEAD + "rules: [{id: benchmark.error_fraction}, {id: benchmark.ttft_p95}, {id: benchmark.out_tokens_per_s}]\n"


@pytest.mark.parametrize(("scale", "verdict"), [(1.02, "promote"), (1.4, "reject"), (1.2, "insufficient_evidence")])
def test_vllm_bench_decides(folder, summary_run, scale, verdict):
    folder.summary("baseline", summary_run())
    folder.summary("candidate", summary_run(scale=scale))
    assert folder.decide(policy=RELEASE).verdict == verdict


def sglang_line(line, tag, factor=1.0):
    times = {key: value * factor for key, value in line.items() if key.endswith("_ms")}
    duration = 3000 / 25.0
    counts = {"completed": 3000, "duration": duration, "request_throughput": 25.0, "tag": tag}
    tokens = {"total_input_tokens": 142000, "total_output_tokens": 37200, "total_output_tokens_retokenized": 37200}
    return line | times | counts | tokens


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "promote"), (1.5, "reject")])
def test_sglang_bench_decides(folder, case, samples, factor, verdict):
    line = json.loads((samples / "sglang-bench/ok.jsonl").read_text())
    case(SGLANG, sglang_line(line, "r1"), role="baseline", planned=3000)
    case(SGLANG, sglang_line(line, "r2", factor), planned=3000)
    policy = HEAD + "rules: [{id: benchmark.error_fraction}, {id: benchmark.ttft_p95}, {id: benchmark.e2e_p95}]\n"
    decision = folder.decide(policy=policy)
    assert decision.verdict == verdict, decision.reasons


def test_guidellm_decides(folder, case):
    case(("guidellm", "0.8.1"), "0.8.1_fail15pct.json")
    decision = folder.decide(policy=ANY_LENGTH + "rules: [{id: benchmark.error_fraction}]\n")
    assert (decision.verdict, decision.action) == ("reject", "keep")
    assert decision.reasons[0].startswith("benchmark.error_fraction: limit_exceeded: share 0.134 [0.0811, 0.205]")


def test_aiperf_decides(folder, samples):
    parts = {"primary": "head40.json", "details": "details.head40.jsonl"}
    content = {part: (samples / "aiperf" / name).read_bytes() for part, name in parts.items()}
    folder.measured("candidate", *AIPERF, content)
    decision = folder.decide(policy=ANY_LENGTH + SLO + "rules: [{id: benchmark.attainment, limit: 0.5}]\n")
    assert decision.verdict == "promote", decision.reasons  # 5 of 40 failed, the others were in time
    decision = folder.decide(policy=ANY_LENGTH + SLO + "rules: [{id: benchmark.attainment}]\n")
    assert decision.verdict == "reject"


def test_genai_perf_decides(folder, case):
    tool = ("genai-perf", "0.0.16")
    policy = ANY_LENGTH + "rules: [{id: benchmark.error_fraction}]\n"
    case(tool, "profile_export_genai_perf.json")
    assert folder.decide(policy=policy).verdict == "insufficient_evidence"
    case(tool, "profile_export_genai_perf.json", planned=80)
    assert folder.decide(policy=policy).verdict == "reject"


def test_inferencex_decides(folder, case):
    case(("inferencex", "1.0"), "vllm_tp8_conc64.json", planned=640)
    decision = folder.decide(policy=ANY_LENGTH + "rules: [{id: benchmark.error_fraction}, {id: benchmark.ttft_p99}]\n")
    assert decision.verdict == "insufficient_evidence"
    assert "does not say how many requests were attempted and failed" in decision.reasons[0]
