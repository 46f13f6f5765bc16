"""aiperf's exports: every trap of theirs, on files the tool wrote."""

import math

import pytest

from pulumi_infercrane.guard.evidence.readers.aiperf import stated
from pulumi_infercrane.guard.evidence.reading.stated import Stated

TOOL = ("aiperf", "0.13.0")


@pytest.fixture
def export(document):
    return lambda **changes: document("aiperf", "fail14pct.json", **changes)


def block(avg, unit="requests"):
    return {"unit": unit, "avg": avg}


def old_export(export, answered, good, concurrency):
    """As 0.11 writes it: no counter of everything, no wall clock, no adjusted figures."""
    gone = ("completed_request_count", "error_request_count", "request_error_rate", "good_request_fraction")
    adjusted = [key for key in export() if key.startswith("adj_")]
    phases = [{"name": "profiling", "kind": "profiling", "type": "concurrency", "concurrency": concurrency}]
    rps = concurrency / 0.1
    e2e = {"unit": "ms", "avg": 100.0, "p50": 99.0, "p95": 120.0}
    return export(
        **dict.fromkeys([*gone, *adjusted, "was_cancelled", "is_complete", "error_summary", "usage_discrepancy_count"]),
        aiperf_version="0.11.0",
        schema_version="1.3",
        request_count=block(float(answered)),
        good_request_count=block(float(good)),
        request_latency=e2e,
        time_to_first_token=None,
        inter_token_latency=None,
        input_config=export()["input_config"] | {"phases": phases},
        request_throughput=block(rps, "requests/sec"),
        benchmark_duration=block(answered / rps, "sec"),
    )


def test_a_run_becomes_seconds_and_tokens(read):
    record = read(*TOOL, primary="fail14pct.json").record
    assert (record.attempted, record.failed, record.load_model, record.rate) == (80, 11, "open", 8.0)
    assert record.latencies["ttft_s"].mean == pytest.approx(0.0545730)
    assert record.latencies["e2e_s"].mean == pytest.approx(0.1269630)
    assert (record.streaming, record.duration_s) == (True, pytest.approx(11.3232))
    assert dict(record.errors) == {"503": 11}


def test_a1_a_counter_that_is_absent_is_zero(read, export):
    record = read("aiperf", "0.11.0", primary=old_export(export, 2044, 2044, 16)).record
    assert (record.attempted, record.failed, record.good, record.concurrency) == (2044, 0, 2044, 16)


def test_a2_answers_and_all_requests_are_counted_apart(read, export):
    document = export()
    assert (document["request_count"]["avg"], document["completed_request_count"]["avg"]) == (69, 80)
    record = read(*TOOL, primary=document).record
    assert (record.attempted, record.good) == (80, 46)
    assert read(*TOOL, primary=export(completed_request_count=block(81.0))).problem.code == "counters_disagree"


def test_a3_a_rate_in_percent_and_a_fraction_as_ratio(read, export):
    assert read(*TOOL, primary=export(request_error_rate=block(0.1375, "ratio"))).problem.code == "unit_suspect"
    assert read(*TOOL, primary=export(request_error_rate=block(0.1375, "%"))).problem.code == "counters_disagree"
    assert read(*TOOL, primary=export(good_request_fraction=block(57.5, "ratio"))).problem.code == "counters_disagree"


def test_a4_an_adjusted_percentile_that_is_missing_is_infinite(read):
    quantiles = read(*TOOL, primary="fail14pct.json").record.latencies["ttft_s"].quantiles
    assert quantiles[0.5] == pytest.approx(0.0539964)  # 0.0507 over the answers alone
    assert (math.isfinite(quantiles[0.75]), quantiles[0.9], quantiles[0.95]) == (True, math.inf, math.inf)


def test_a5_a_latency_that_includes_fast_failures_is_not_used(read, export):
    assert export()["effective_latency"]["avg"] == pytest.approx(110.78, abs=0.01)
    assert read(*TOOL, primary="fail14pct.json").record.latencies["e2e_s"].mean > 0.12


def test_a6_client_and_server_count_other_tokens(read, export):
    doubt = read(*TOOL, primary="fail14pct.json").record.token_doubt
    assert doubt.endswith("1932 against 1104 output tokens")
    agreed = {"total_usage_completion_tokens": block(1932.0, "tokens")}
    assert "69 of 69" in read(*TOOL, primary=export(**agreed)).record.token_doubt
    assert read(*TOOL, primary=export(**agreed, usage_discrepancy_count=block(3.0))).record.token_doubt == ""


def test_a7_requests_per_second_are_of_the_wall_clock(read, export):
    assert read(*TOOL, primary=export(end_time="2026-11-30T03:57:52.388880")).record is not None
    assert read(*TOOL, primary=export(end_time="2026-11-30T03:57:53.388880")).problem.code == "inconsistent"
    other = {"request_throughput": block(69 / 11.323197440000001, "requests/sec")}
    assert read(*TOOL, primary=export(**other)).record is not None  # 1.3 of 69 off: within two requests
    old = old_export(export, 2044, 2044, 16)
    assert read("aiperf", "0.11.0", primary=old | {"end_time": "x"}).record is not None


def test_a_file_of_another_day_is_not_of_this_window(read, export):
    """The times name no zone, but no zone is months away."""
    assert read(*TOOL, primary=export(start_time="2026-08-30T03:57:40", end_time="2026-08-30T03:57:51.5")).problem
    problem = read(*TOOL, primary=export(start_time="2026-11-29T13:50:00", end_time="2026-11-29T13:50:11.5")).problem
    assert (problem.code, "in some time zone" in problem.detail) == ("inconsistent", True)
    earliest = export(start_time="2026-11-29T14:01:00", end_time="2026-11-29T14:01:11.5434")
    assert read(*TOOL, primary=earliest).problem is None


def test_a8_a_run_of_503s_ends_like_any_other(read, export):
    """NVIDIA/TensorRT-LLM#17427: exit code 0."""
    gone = dict.fromkeys(key for key, value in export().items() if isinstance(value, dict) and "unit" in value)
    kept = {"request_count": block(0.0), "error_request_count": block(80.0), "request_latency": block(0.0, "ms")}
    record = read(*TOOL, primary=export(**gone | kept)).record
    assert (record.attempted, record.failed, record.latencies) == (80, 80, {})


def test_a9_good_requests_come_with_their_objectives_in_seconds(read, export):
    assert read(*TOOL, primary="fail14pct.json").record.slo == {"ttft_s": 0.06}
    config = export()["input_config"]
    for slos, expected in (({"request_latency": 500.0}, {"e2e_s": 0.5}), ({"other": 1000.0}, {"other": 1.0})):
        assert read(*TOOL, primary=export(input_config=config | {"slos": slos})).record.slo == expected
    assert read(*TOOL, primary=export(input_config=config | {"slos": None})).record.good is None
    for nothing in (0, -1, 5e-324):
        refused = read(*TOOL, primary=export(input_config=config | {"slos": {"request_latency": nothing}})).problem
        assert str(refused) == "bad_value: input_config.slos: an objective is more than 0 ms"


def test_a10_details_keep_failed_requests_and_drop_the_warm_up(read, samples):
    raw = (samples / "aiperf/details.head40.jsonl").read_bytes()
    warm = raw.splitlines()[0].replace(b'"profiling"', b'"warmup"') + b"\n"
    record = read(*TOOL, primary="head40.json", details=warm + raw).record
    assert (len(record.requests), record.requests.failed) == (40, 5)
    assert record.requests.ttft_s[0] == pytest.approx(0.0430994)
    assert record.requests.e2e_s[0] == pytest.approx(0.1117951)


def test_details_must_be_of_the_same_run(read):
    item = read(*TOOL, primary="fail14pct.json", details="details.head40.jsonl")
    assert str(item.problem) == "counters_disagree: 40 requests are kept, the summary counts 80"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"aiperf_version": "0.11.0"}, "binding_conflict"),
        ({"aiperf_version": 13}, "schema_unknown"),
        ({"schema_version": "2.0"}, "schema_unknown"),
        ({"was_cancelled": True}, "truncated"),
        ({"is_complete": False}, "truncated"),
        ({"time_to_first_token": {"unit": "furlongs", "avg": 54.0}}, "unit_suspect"),
        ({"time_to_first_token": {"unit": "s", "avg": 54.0}}, "unit_suspect"),
        ({"time_to_first_token": {"unit": "ms", "avg": 54.6, "count": 69, "sum": 4000.0}}, "inconsistent"),
        ({"time_to_first_token": {"unit": "ms", "p50": 60.0, "p95": 55.0}}, "inconsistent"),
        ({"time_to_first_token": {"unit": "ms", "avg": 0.0}}, "bad_value"),
        ({"request_count": {"unit": "requests", "avg": 69.5}}, "bad_value"),
        ({"input_config": None}, "schema_unknown"),
        ({"error_summary": [1]}, "bad_value"),
    ],
)
def test_what_cannot_be_vouched_for_is_refused(read, export, changes, code):
    assert read(*TOOL, primary=export(**changes)).problem.code == code


def test_a_newer_version_is_refused(read):
    assert read("aiperf", "0.14.0", primary="fail14pct.json").problem.code == "version_unknown"


def test_requests_that_left_late_make_the_client_the_pace(read, export):
    late = {"unit": "ms", "avg": 40.0, "p50": 30.0, "p99": 90.0}
    assert "late" in read(*TOOL, primary=export(credit_to_start_latency=late)).record.saturation


def test_several_profiling_phases_are_not_one_run(read, export):
    config = export()["input_config"]
    item = read(*TOOL, primary=export(input_config=config | {"phases": config["phases"] * 2}))
    assert item.problem.code == "ambiguous_run"


def test_what_the_file_knows_of_its_own_measurement(samples):
    primary = (samples / "aiperf/fail14pct.json").read_bytes()
    assert stated({"primary": primary}) == Stated("0.13.0")
    assert stated({"primary": b"[]"}) == Stated()
