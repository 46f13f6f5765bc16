"""genai-perf's export: aiperf's metric blocks without versions, errors or times."""

import pytest

from tests.guard.evidence.readers.offering import decision

TOOL = ("genai-perf", "0.0.16")
NAME = "profile_export_genai_perf.json"


def test_a_run_becomes_seconds_and_tokens(read):
    record = read(*TOOL, {"planned": 80}, primary=NAME).record
    assert (record.attempted, record.failed, record.load_model, record.rate) == (80, 11, "open", 8.0)
    assert record.latencies["ttft_s"].quantiles[0.95] == pytest.approx(0.0832517)
    assert (record.in_tokens, record.out_tokens) == (40, 28)


def test_failures_are_unknown_without_planned_requests(read):
    record = read(*TOOL, primary=NAME).record
    assert (record.attempted, record.failed) == (None, None)
    assert read(*TOOL, {"planned": 68}, primary=NAME).problem.code == "counters_disagree"


def test_a_run_that_failed_throughout_is_known_as_such_by_its_plan(read, document, folder):
    """It answered nothing, so nothing has a latency."""
    blocks = ("request_latency", "time_to_first_token", "time_to_second_token", "inter_token_latency")
    nothing = {"request_count": {"unit": "count", "avg": 0}, "request_throughput": {"unit": "requests/sec", "avg": 0}}
    failed = document("genai-perf", NAME, **{block: {"unit": "ms"} for block in blocks}, **nothing)
    record = read(*TOOL, {"planned": 80}, primary=failed).record
    assert (record.attempted, record.failed) == (80, 80)
    assert not any(latency.times_s for latency in record.latencies.values())
    assert decision(folder, "id: benchmark.error_fraction, limit: 0.9").verdict == "reject"


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"concurrency": 4}, ("closed", None, 4)),
        ({"request_rate": 3.0, "concurrency": None}, ("open", 3.0, None)),
        ({"perf_analyzer": {"stimulus": {"concurrency": 2}}}, ("closed", None, 2)),
        ({}, ("", None, None)),
    ],
)
def test_older_and_newer_files_keep_the_load_in_other_places(read, document, config, expected):
    record = read(*TOOL, primary=document("genai-perf", NAME, input_config=config)).record
    assert (record.load_model, record.rate, record.concurrency) == expected


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"aiperf_version": "0.13.0"}, "schema_unknown"),
        ({"request_count": None}, "schema_unknown"),
        ({"time_to_first_token": {"unit": "ticks", "avg": 1}}, "unit_suspect"),
        ({"output_token_throughput": {"unit": "tokens/min", "avg": 1}}, "unit_suspect"),
        ({"request_latency": {"unit": "ms", "avg": 300.0}}, "inconsistent"),
    ],
)
def test_what_cannot_be_vouched_for_is_refused(read, document, changes, code):
    assert read(*TOOL, primary=document("genai-perf", NAME, **changes)).problem.code == code


@pytest.mark.parametrize("key", ["model", "model_names"])
def test_another_model_of_the_hub_is_a_conflict(read, document, folder, key):
    folder.subjects["candidate"]["model"]["source"] = "hf:org/name"
    folder.reseal()
    config = document("genai-perf", NAME, input_config={key: ["org/other"]})
    assert read(*TOOL, primary=config).problem.code == "binding_conflict"
