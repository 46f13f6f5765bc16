"""inference-perf: stages are read in seconds; what mixes rates or outran its client is no comparison."""

import pytest

from tests.guard.evidence.readers.offering import changed, decision, judged, offer, sample

STAGE, SUMMARY = "ip0.7.0_stage_1_lifecycle_metrics.json", "ip0.7.0_summary_lifecycle_metrics.json"
VALIDATION = "ip0.7.0_validation.json"


def read(folder, primary=STAGE, kind="benchmark", **more):
    return offer(folder, "inference-perf", kind, {"primary": primary}, **more)


def test_a_stage_of_0_7_is_read_in_seconds(folder):
    record = read(folder).record
    assert (record.attempted, record.failed, record.errors) == (96, 14, {"503 - Service Unavailable": 14})
    assert (record.load_model, record.rate, record.duration_s) == ("open", 12.0, 7.998696424999935)
    assert record.latencies["ttft_s"].quantiles[0.95] == 0.07480549785012727
    assert record.latencies["e2e_s"].mean == 0.12562247530487494
    assert (record.in_tokens, record.empty, record.saturation) == (13.365853658536585, 0, "")


def test_a_stage_with_14_of_96_failures_is_rejected(folder):
    read(folder)
    found = decision(folder, "id: benchmark.error_fraction, limit: 0.01")
    assert found.verdict == "reject"
    outcome, reasons, lo, hi, n = judged(found, "benchmark.error_fraction")
    assert (outcome, reasons[0], n) == ("fail", "limit_exceeded", [96])
    assert lo < 14 / 96 < hi


def test_p1_a_summary_of_mixed_rates_is_no_benchmark(folder):
    assert read(folder, SUMMARY).problem.code == "not_comparable"


def test_p1_no_rule_is_judged_on_a_summary_of_mixed_rates(folder):
    read(folder, SUMMARY)
    found = decision(folder, "id: benchmark.error_fraction, limit: 0.5")
    assert judged(found, "benchmark.error_fraction")[:2] == ("unknown", ["not_comparable"])


def test_p1_a_summary_of_mixed_rates_still_counts_failures(folder):
    record = read(folder, SUMMARY, "reliability").record
    assert (record.attempted, record.failed, record.duration_s) == (144, 22, 19.331063260999827)


def test_p2_a_saturated_client_says_so(folder):
    assert read(folder, "vllm_stage_6_lifecycle_metrics.json").record.saturation == (
        "106.5 of 183.4 requests per second were sent"
    )


def test_p2_what_a_saturated_client_measured_passes_nothing(folder):
    read(folder, "vllm_stage_6_lifecycle_metrics.json")
    found = decision(folder, "id: benchmark.error_fraction, limit: 0.01")
    assert found.verdict == "insufficient_evidence"
    assert judged(found, "benchmark.error_fraction")[:2] == ("unknown", ["client_saturated"])


def test_p2_requests_sent_late_are_a_saturated_client(folder):
    late = changed("inference-perf", STAGE, lambda d: d["load_summary"]["schedule_delay"].update(p99=0.2))
    assert read(folder, late).record.saturation == "requests left up to 0.2 s late (p99), at most 0.05 s are tolerated"


@pytest.mark.parametrize("variant", ["quantization", "eagle"])
def test_p3_equal_stage_numbers_at_other_rates_are_not_comparable(folder, variant):
    read(folder, "vllm_stage_3_lifecycle_metrics.json", role="baseline")
    read(folder, f"vllm_{variant}_stage_3_lifecycle_metrics.json")
    found = decision(folder, "id: benchmark.error_fraction_difference, margin: 0.005")
    assert judged(found, "benchmark.error_fraction_difference")[:2] == ("unknown", ["not_comparable"])
    assert "rate differs" in found.reasons[0]


def test_p4_the_median_is_p50_whatever_the_order_of_keys(folder):
    quantiles = read(folder, "vllm_stage_3_lifecycle_metrics.json").record.latencies["ttft_s"].quantiles
    assert (quantiles[0.5], quantiles[0.999]) == (0.04451845702715218, 0.2267707080114639)


def test_p5_the_prometheus_report_is_no_source_of_counts(folder):
    assert read(folder, "vllm_stage_3_prometheus_metrics.json").problem.code == "schema_unknown"


def test_p6_empty_answers_among_the_successes_are_counted_at_most(folder):
    assert read(folder, "vllm_stage_3_lifecycle_metrics.json").record.empty == 6  # below p0.1 of 5,531


def test_p7_a_negative_schedule_delay_is_legal(folder):
    assert sample("inference-perf", STAGE)["load_summary"]["schedule_delay"]["min"] < -0.0008
    assert read(folder).problem is None


def test_p8_no_time_between_tokens_of_one_chunk_is_legal(folder):
    assert read(folder).record.latencies["itl_s"].quantiles[0.25] == 0.0


@pytest.mark.parametrize("key", ["time_to_first_token", "request_latency", "time_per_output_token"])
def test_p8_zero_is_no_other_latency(folder, key):
    zero = changed("inference-perf", STAGE, lambda d: d["successes"]["latency"][key].update({"p0.1": 0.0}))
    assert read(folder, zero).problem.code == "bad_value"


def test_p9_old_files_miss_rate_times_duration_and_are_read(folder):
    document = sample("inference-perf", "vllm_stage_3_lifecycle_metrics.json")
    rate, seconds = document["successes"]["throughput"]["requests_per_sec"], document["load_summary"]["send_duration"]
    assert rate * seconds < 0.991 * document["load_summary"]["count"]
    assert read(folder, "vllm_stage_3_lifecycle_metrics.json").record.duration_s == seconds


def test_p9_a_file_with_its_duration_must_not_miss_it(folder):
    other = changed("inference-perf", STAGE, lambda d: d.update(benchmark_time_seconds=9.0))
    assert read(folder, other).problem.code == "inconsistent"


def test_p10_token_counts_that_the_server_disputes_are_in_doubt(folder):
    record = read(folder).record
    assert record.token_doubt == "client and server count other tokens in 82 of 82 answers"


def test_p10_the_tool_s_own_checks_put_tokens_in_doubt(folder):
    silent = changed("inference-perf", STAGE, lambda d: d["successes"].pop("token_count_mismatches"))
    parts = {"primary": silent, "validation": VALIDATION}
    record = offer(folder, "inference-perf", "benchmark", parts).record
    assert record.token_doubt.startswith("122 request(s) where the client-side token count disagrees")


def test_p10_an_error_of_the_tool_s_own_checks_is_inconsistent(folder):
    broken = changed("inference-perf", VALIDATION, lambda d: d["global"]["errors"].append({"message": "lost a worker"}))
    piece = offer(folder, "inference-perf", "benchmark", {"primary": STAGE, "validation": broken})
    assert str(piece.problem) == "inconsistent: the tool's own checks found: lost a worker"


def test_token_times_of_2025_that_do_not_fit_the_whole_are_left_out(folder):
    record = read(folder, "vllm_stage_3_lifecycle_metrics.json").record
    assert record.token_doubt == "first token and 62.33 tokens at 0.007516 s make 0.5115 s, the whole took 1.021 s"
    assert sorted(record.latencies) == ["e2e_s", "ttft_s"]


def test_milliseconds_in_place_of_seconds_are_suspect(folder):
    def in_milliseconds(document):
        latency = document["successes"]["latency"]["request_latency"]
        latency.update({key: value * 1000 for key, value in latency.items()})

    assert read(folder, changed("inference-perf", STAGE, in_milliseconds)).problem.code == "unit_suspect"


def test_one_figure_in_milliseconds_beside_seconds_is_suspect(folder):
    def mixed(document):
        ttft = document["successes"]["latency"]["time_to_first_token"]
        ttft.update({key: value * 1000 for key, value in ttft.items()})

    assert str(read(folder, changed("inference-perf", STAGE, mixed)).problem).startswith(
        "unit_suspect: ttft_s is larger"
    )


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda d: d["failures"].update(count=13), "counters_disagree"),
        (lambda d: d["failures"]["by_label"].clear(), "counters_disagree"),
        (lambda d: d["successes"]["latency"]["request_latency"].update(p99=0.1), "inconsistent"),
        (lambda d: d["successes"]["latency"]["request_latency"].update(mean=None), "bad_value"),
        (lambda d: d["successes"]["latency"]["request_latency"].update(mean=-1), "bad_value"),
        (lambda d: d.pop("successes"), "schema_unknown"),
    ],
)
def test_what_does_not_add_up_is_refused(folder, change, code):
    assert read(folder, changed("inference-perf", STAGE, change)).problem.code == code


def test_the_rate_of_the_file_is_the_rate_of_the_envelope(folder):
    scenario = {"scenario": {"id": "chat-short", "rate": 10.0}}
    assert (
        str(read(folder, envelope=scenario).problem)
        == "binding_conflict: the file's rate is 12.0, scenario.rate is 10.0"
    )


def test_it_gives_no_cost(folder):
    assert read(folder, kind="cost").problem.code == "tool_unknown"


def test_a_run_without_a_success_has_no_latencies(folder):
    def all_failed(document):
        document["successes"].update(count=0, latency={}, throughput={})
        document["failures"].update(count=96)
        document["failures"]["by_label"]["503 - Service Unavailable"]["count"] = 96

    record = read(folder, changed("inference-perf", STAGE, all_failed)).record
    assert (record.attempted, record.failed, record.latencies) == (96, 96, {})
