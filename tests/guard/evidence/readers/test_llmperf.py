"""llmperf: half a failure rate hides behind normal percentiles, and its per-token latency is another thing."""

import json
import math

import pytest

from tests.guard.evidence.readers.offering import changed, decision, judged, offer, sample

BEDROCK, ANYSCALE, SAMPLES = "summary_bedrock_70b.json", "summary_anyscale_70b.json", "individual_bedrock_70b.json"
WINDOW = {"started_at": "2023-12-27T00:50:00Z", "ended_at": "2023-12-27T00:53:00Z"}
AS_OF = "2023-12-27T01:00:00Z"


def read(folder, primary=BEDROCK, window=WINDOW, **more):
    parts = {"primary": primary} | more.pop("parts", {})
    return offer(folder, "llmperf", "benchmark", parts, envelope={"window": window}, **more)


def test_49_of_150_errors_are_rejected_with_their_code(folder):
    record = read(folder).record
    assert (record.attempted, record.failed, record.errors) == (150, 49, {"-100": 49})
    found = decision(folder, "id: benchmark.error_fraction, limit: 0.01", as_of=AS_OF)
    assert found.verdict == "reject"
    outcome, _, lo, hi, _ = judged(found, "benchmark.error_fraction")
    assert (outcome, round(lo, 4), round(hi, 4)) == ("fail", 0.2634, 0.3952)
    assert found.record["rules"][0]["detail"].endswith("49 of 150 requests; by code: -100 (49)")


def test_a_run_that_failed_throughout_is_rejected(folder):
    def failed(document):
        document.update(results_number_errors=150, results_error_code_frequency="{503: 150}")

    record = read(folder, changed("llmperf", BEDROCK, failed)).record
    assert (record.attempted, record.failed, record.errors, record.latencies) == (150, 150, {"503": 150}, {})
    found = decision(folder, "id: benchmark.error_fraction, limit: 0.9", as_of=AS_OF)
    assert found.verdict == "reject"


def test_no_error_of_150_is_not_enough(folder):
    window = {"started_at": "2023-12-21T05:20:00Z", "ended_at": "2023-12-21T05:23:00Z"}
    read(folder, ANYSCALE, window)
    found = decision(folder, "id: benchmark.error_fraction, limit: 0.01", as_of="2023-12-21T06:00:00Z")
    assert found.verdict == "insufficient_evidence"
    outcome, _, lo, hi, n = judged(found, "benchmark.error_fraction")
    assert (outcome, lo, round(hi, 4), n) == ("unknown", 0, 0.0198, [150])
    assert "149 more" in found.record["rules"][0]["needs"]


def test_l1_numbers_as_text_are_read_only_where_nothing_depends_on_them(folder):
    assert sample("llmperf", BEDROCK)["results_number_input_tokens_min"] == "550"
    assert read(folder).record.in_tokens == 550
    text = changed("llmperf", BEDROCK, lambda d: d.update(results_ttft_s_mean="0.4"))
    assert read(folder, text).problem.code == "bad_value"


def test_l2_percentiles_of_the_successes_look_normal(folder):
    latencies = read(folder).record.latencies
    assert (latencies["ttft_s"].quantiles[0.95], latencies["e2e_s"].mean) == (0.5421029040007852, 7.058203132000026)


def test_l3_too_short_answers_are_failures_by_a_code_that_is_matched_not_evaluated(folder):
    assert sample("llmperf", BEDROCK)["results_error_code_frequency"] == "{-100.0: 49}"
    code = changed("llmperf", BEDROCK, lambda d: d.update(results_error_code_frequency="__import__('os').abort()"))
    assert read(folder, code).problem.code == "bad_value"


def test_l4_the_inter_token_latency_is_never_a_time_per_output_token(folder):
    assert "tpot_s" not in read(folder).record.latencies
    requests = read(folder, parts={"samples": SAMPLES}).record.requests
    assert not requests.ok[0] and sample("llmperf", SAMPLES)[0]["inter_token_latency_s"] > 5
    assert math.isnan(requests.tpot_s[0])
    assert requests.tpot_s[1] == pytest.approx((6.241240903000289 - 0.6257469270007025) / 127)


def test_single_requests_must_be_those_of_the_summary(folder):
    record = read(folder, parts={"samples": SAMPLES}).record
    assert (len(record.requests), record.requests.failed) == (150, 49)
    fewer = json.dumps(sample("llmperf", SAMPLES)[:149]).encode()
    assert read(folder, parts={"samples": fewer}).problem.code == "counters_disagree"


def test_milliseconds_do_not_fit_the_number_of_clients(folder):
    def in_milliseconds(document):
        for key in [key for key in document if key.startswith("results_end_to_end_latency_s")]:
            document[key] *= 50

    assert read(folder, changed("llmperf", BEDROCK, in_milliseconds)).problem.code == "unit_suspect"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"version": "2024-01-01"}, "version_unknown"),
        ({"results_number_errors": 48}, "counters_disagree"),
        ({"results_number_errors": 151}, "counters_disagree"),
        ({"results_ttft_s_quantiles_p99": 0.1}, "inconsistent"),
        ({"results_ttft_s_quantiles_p99": 9.0}, "unit_suspect"),
        ({"results_ttft_s_mean": 0}, "bad_value"),
        ({"num_concurrent_requests": None}, "bad_value"),
        ({"timestamp": 1e300}, "bad_value"),
        ({"timestamp": 1703000000}, "inconsistent"),
    ],
)
def test_what_does_not_add_up_is_refused(folder, change, code):
    assert read(folder, changed("llmperf", BEDROCK, lambda d: d.update(change))).problem.code == code


def test_the_package_of_the_same_name_is_another_tool(folder):
    assert read(folder, b'{"results": []}').problem.code == "schema_unknown"
