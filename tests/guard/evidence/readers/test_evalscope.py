"""evalscope perf: the unit is in the key, and differs within one file."""

import json

import pytest

from tests.guard.evidence.readers.offering import changed, decision, judged, offer, sample


def read(folder, layout="1.14", primary=None, details=None, **more):
    parts = {"primary": primary or f"summary_{layout}.json", "details": details or f"percentile_{layout}.json"}
    return offer(folder, "evalscope", "benchmark", parts, **more)


def test_x2_milliseconds_of_parts_stand_beside_seconds_of_the_whole(folder):
    record = read(folder).record
    assert (record.attempted, record.failed, record.concurrency, record.load_model) == (400, 8, 8, "closed")
    ttft, e2e = record.latencies["ttft_s"], record.latencies["e2e_s"]
    assert [ttft.mean, ttft.quantiles[0.95]] == pytest.approx([0.09241, 0.13177])
    assert [e2e.mean, e2e.quantiles[0.95]] == [1.2054, 1.331]


def test_x2_the_layout_of_2025_has_seconds_everywhere(folder):
    record = read(folder, "2025").record
    assert (record.latencies["ttft_s"].mean, record.latencies["ttft_s"].quantiles[0.95]) == (0.0924, 0.1318)
    assert record.latencies["tpot_s"].mean == 0.0088


def test_x2_parts_of_two_layouts_are_never_mixed(folder):
    assert read(folder, details="percentile_2025.json").problem.code == "unit_suspect"


def test_the_layout_with_another_time_per_token_is_refused(folder):
    older = changed("evalscope", "summary_2025.json", lambda d: d.update({"Average package latency (s)": 0.01}))
    assert read(folder, "2025", older).problem.code == "schema_unknown"


def test_8_of_400_failures_are_promoted_within_5_percent_and_unknown_within_2(folder):
    read(folder)
    assert decision(folder, "id: benchmark.error_fraction, limit: 0.05").verdict == "promote"
    found = decision(folder, "id: benchmark.error_fraction, limit: 0.02")
    assert (found.verdict, judged(found, "benchmark.error_fraction")[0]) == ("insufficient_evidence", "unknown")


@pytest.mark.parametrize(("p95", "verdict"), [(131.9, "promote"), (160.0, "insufficient_evidence"), (190.0, "reject")])
def test_a_quantile_of_two_summaries_is_judged_with_a_guard_band(folder, p95, verdict):
    def slower(rows):
        rows[3].update({"TTFT (ms)": p95})
        rows[4].update({"TTFT (ms)": 200})

    def answered(**more):
        counts = {"Success Requests": 400, "Failed Requests": 0, "Stream Requests": 400}
        whole = counts | {"Req Throughput (req/s)": 6.6534, "Output Throughput (tok/s)": 851.6}
        return changed("evalscope", "summary_1.14.json", lambda document: document.update(whole | more))

    read(folder, primary=answered(), details=changed("evalscope", "percentile_1.14.json", slower))
    read(folder, primary=answered(**{"Avg Input Tokens": 513}), role="baseline")
    found = decision(folder, "id: benchmark.ttft_p95, margin: 0.15, min_pass: 300")
    assert found.verdict == verdict, found.reasons


def test_an_open_loop_has_a_rate_and_no_concurrency(folder):
    record = read(
        folder, primary=changed("evalscope", "summary_1.14.json", lambda d: d.update({"Request Rate (req/s)": 7}))
    )
    assert (record.record.load_model, record.record.rate, record.record.concurrency) == ("open", 7, None)


def test_without_streaming_there_is_no_first_token(folder):
    def whole(document):
        document.update({"Stream Requests": 0, "Non-Stream Requests": 392, "Avg TPOT (ms)": 0, "Avg ITL (ms)": 0})

    record = read(folder, primary=changed("evalscope", "summary_1.14.json", whole)).record
    assert (record.streaming, sorted(record.latencies)) == (False, ["e2e_s"])


def test_a_run_that_failed_wholly_has_no_latencies(folder):
    def failed(document):
        document.update({"Success Requests": 0, "Failed Requests": 400, "Avg TTFT (ms)": -1000, "Avg Latency (s)": -1})

    record = read(folder, primary=changed("evalscope", "summary_1.14.json", failed)).record
    assert (record.failed, record.latencies, record.out_tokens) == (400, {}, None)


def test_nan_in_the_percentiles_is_not_finite(folder):
    rows = json.dumps(sample("evalscope", "percentile_1.14.json")).replace("71.2", "NaN").encode()
    assert read(folder, details=rows).problem.code == "non_finite"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"Failed Requests": 9}, "counters_disagree"),
        ({"Avg TTFT (ms)": 0}, "bad_value"),
        ({"Avg TTFT (ms)": 92410.0}, "unit_suspect"),
        ({"Avg Latency (s)": 61.0}, "inconsistent"),
        ({"Test Duration (s)": "60"}, "bad_value"),
        ({"Total Requests": 400.5}, "bad_value"),
    ],
)
def test_what_does_not_add_up_is_refused(folder, change, code):
    primary = changed("evalscope", "summary_1.14.json", lambda d: d.update(change))
    assert read(folder, primary=primary).problem.code == code


def test_another_tool_s_summary_is_unknown(folder):
    assert read(folder, primary=b'{"num_prompts": 60}').problem.code == "schema_unknown"
