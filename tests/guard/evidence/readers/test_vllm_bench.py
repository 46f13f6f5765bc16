"""vLLM's result files: every trap of theirs, on files the tool wrote."""

import math

import pytest

from pulumi_infercrane.guard.evidence.readers.vllm_bench import stated
from pulumi_infercrane.guard.evidence.reading.stated import Stated

TOOL = ("vllm-bench", "0.33.0")

OLD = {  # a public file of May 2025, without its model
    "num_prompts": 300,
    "request_rate": 10.0,
    "burstiness": 1.0,
    "max_concurrency": None,
    "duration": 36.034275877,
    "completed": 300,
    "total_input_tokens": 299700,
    "total_output_tokens": 81050,
    "request_throughput": 8.3254066496,
    "request_goodput:": None,
    "output_throughput": 2249.24736,
    "mean_ttft_ms": 54.577,
    "median_ttft_ms": 52.9995,
    "p99_ttft_ms": 89.766,
    "mean_tpot_ms": 13.578,
    "median_tpot_ms": 13.5125,
    "p99_tpot_ms": 17.652,
}


def test_a_run_becomes_seconds_and_tokens(read):
    record = read(*TOOL, primary="ok.json").record
    assert (record.attempted, record.failed, record.load_model, record.rate) == (60, 0, "open", 10.0)
    assert record.latencies["ttft_s"].quantiles[0.95] == pytest.approx(0.0491885)
    assert record.latencies["e2e_s"].mean == pytest.approx(0.1070859)
    assert (record.in_tokens, record.out_tokens) == (pytest.approx(1465 / 60), 16.0)
    assert record.out_tokens_per_s == pytest.approx(157.33, abs=0.01)


def test_v1_a_percentile_that_was_not_asked_for_is_absent_not_zero(read):
    record = read(*TOOL, primary="19of20_failed.json").record
    assert sorted(record.latencies["ttft_s"].quantiles) == [0.5, 0.99]
    assert "e2e_s" not in read(*TOOL, primary="detailed.json").record.latencies


def test_v2_failed_requests_are_zeros_and_no_fast_answers(read):
    record = read(*TOOL, primary="fail10pct.json").record
    assert (record.attempted, record.failed) == (60, 6)
    seconds = sorted(record.requests.seconds("e2e_s"))
    assert seconds[0] > 0.1
    assert seconds[-6:] == [math.inf] * 6
    assert not record.requests.has("ttft_s")


def test_v3_nineteen_of_twenty_failed_beside_a_normal_percentile(read):
    record = read(*TOOL, primary="19of20_failed.json").record
    assert (record.failed, record.attempted) == (19, 20)
    assert record.latencies["ttft_s"].quantiles[0.99] == pytest.approx(0.0388527)


def test_v4_a_run_in_which_everything_failed_has_no_latency(read, document):
    zeros = {key: 0.0 for key in document("vllm-bench", "19of20_failed.json") if key.endswith("_ms")}
    figures = {
        "completed": 0,
        "failed": 20,
        "total_input_tokens": 0,
        "total_output_tokens": 0,
        "request_throughput": 0.0,
    }
    figures |= {"output_throughput": 0.0, "latencies": [0.0] * 20}
    record = read(*TOOL, primary=document("vllm-bench", "19of20_failed.json", **zeros, **figures)).record
    assert (record.attempted, record.failed, record.latencies) == (20, 20, {})


@pytest.mark.parametrize("date", ["20260830-041344", "20261129-135800", "20261130-180500", "20261330-041344"])
def test_a_file_of_another_day_is_not_of_this_window(read, document, date):
    """The date names no zone, but no zone is months away."""
    problem = read(*TOOL, primary=document("vllm-bench", "ok.json", date=date)).problem
    assert problem.code == ("bad_value" if date.startswith("202613") else "inconsistent")


@pytest.mark.parametrize("date", ["20261129-140100", "20261130-180100", "run 7", 5])
def test_a_date_that_fits_some_zone_or_is_none_contradicts_nothing(read, document, date):
    assert read(*TOOL, primary=document("vllm-bench", "ok.json", date=date)).problem is None


def test_v5_appended_results_are_refused_with_the_way_out(read):
    problem = read(*TOOL, primary="append_result_not_json.json").problem
    assert (problem.code, "one file for every run" in problem.detail) == ("ambiguous_run", True)


@pytest.mark.parametrize(("key", "good"), [("request_goodput:", 288), ("request_goodput", 288), ("goodput", None)])
def test_v6_old_files_have_a_colon_in_a_key(read, key, good):
    with_slo = {"change": lambda envelope: envelope.update(slo={"ttft_s": 0.1})}
    record = read(*TOOL, with_slo, primary=OLD | {key: 8.0}).record
    assert (record.good, record.slo) == (good, {"ttft_s": 0.1})
    assert read(*TOOL, primary=OLD | {key: 8.0}).record.good is None  # nobody says what a good request was


def test_v7_old_files_do_not_count_failures(read):
    record = read(*TOOL, primary=OLD).record
    assert (record.attempted, record.failed) == (300, 0)
    assert read(*TOOL, primary=OLD | {"failed": 3}).problem.code == "counters_disagree"


@pytest.mark.parametrize("name", ["ok.json", OLD])
def test_v8_a_rate_below_the_requested_one_is_the_drain_not_saturation(read, name):
    record = read(*TOOL, primary=name).record
    assert (record.saturation, record.rate_achieved) == ("", None)


def test_v8_requests_that_waited_in_the_client_are(read, document):
    record = read(*TOOL, primary=document("vllm-bench", "ok.json", queue_times=[0.2] * 60)).record
    assert "late" in record.saturation


@pytest.mark.parametrize(
    ("changes", "envelope", "code"),
    [
        ({"revision": "rev-42"}, {}, ""),
        ({"revision": "sha256:" + "0" * 64}, {}, "binding_conflict"),
        ({"model_id": "any-alias"}, {"source": "hf:org/name"}, ""),
        ({"model_id": "Org/Name"}, {"source": "hf:org/name"}, ""),
        ({"model_id": "other/name"}, {"source": "hf:org/name"}, "binding_conflict"),
        ({"model_id": "other"}, {"served": ["mock-7b"]}, "binding_conflict"),
        ({"model_id": "mock-7b"}, {"served": ["mock-7b"]}, ""),
    ],
)
def test_v9_metadata_is_a_hint(read, document, folder, changes, envelope, code):
    folder.subjects["candidate"]["model"]["source"] = envelope.get("source", "file:model.gguf")
    folder.reseal()
    served = envelope.get("served")
    probes = {"probes": {"before": {"models": served}, "after": {"models": served}}} if served else {}
    item = read(*TOOL, {"change": lambda e: e.update(probes)}, primary=document("vllm-bench", "ok.json", **changes))
    assert (item.problem.code if item.problem else "") == code


def test_v10_a_cap_on_concurrency_is_kept_apart_from_none(read):
    assert read(*TOOL, primary="ok.json").record.concurrency == 8
    assert read(*TOOL, primary="fail10pct.json").record.concurrency is None


def test_details_become_requests(read):
    record = read(*TOOL, primary="detailed.json").record
    assert len(record.requests) == 12
    assert sorted(record.requests.ttft_s)[11] == pytest.approx(0.04888197)  # p95 of twelve: the largest
    assert record.requests.tpot_s[0] == pytest.approx(0.0045, abs=0.0005)
    assert list(record.requests.out_tokens) == [16.0] * 12
    assert (record.load_model, record.concurrency) == ("closed", 12)


def test_an_error_makes_a_failed_request_and_only_its_status_is_kept(read, document):
    errors = ["Server said 503: secret"] + [""] * 11
    changes = {"errors": errors, "completed": 11, "failed": 1, "request_throughput": 11 / 0.12193235699987781}
    item = read(*TOOL, primary=document("vllm-bench", "detailed.json", **changes))
    assert item.record is not None, item.problem
    assert (item.record.failed, dict(item.record.errors), item.record.requests.failed) == (1, {"503": 1}, 1)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"p95_ttft_ms": 30.0}, "inconsistent"),
        ({"p50_ttft_ms": 33.0}, "inconsistent"),
        ({"median_ttft_ms": 50.0, "p50_ttft_ms": 50.0}, "inconsistent"),
        ({"mean_e2el_ms": 300.0}, "inconsistent"),
        ({"request_throughput": 12.0}, "inconsistent"),
        ({"median_ttft_ms": 0.0, "p50_ttft_ms": 0.0}, "bad_value"),
        ({"p99_ttft_ms": -1.7e12}, "bad_value"),
        ({"p99_ttft_ms": "54.3"}, "bad_value"),
        ({"p99_ttft_ms": 34000.0}, "unit_suspect"),
        ({"completed": 59}, "counters_disagree"),
        ({"latencies": [0.1] * 59 + [0.0]}, "counters_disagree"),
        ({"latencies": [0.2] * 60}, "inconsistent"),
        ({"num_prompts": 2**50}, "counters_disagree"),  # and no memory is asked for by what a file says
        ({"duration": 0}, "bad_value"),
        ({"request_rate": 0}, "bad_value"),
        ({"request_rate": None}, "schema_unknown"),
        ({"num_prompts": None}, "schema_unknown"),
    ],
)
def test_what_cannot_be_true_together_is_refused(read, document, changes, code):
    assert read(*TOOL, primary=document("vllm-bench", "ok.json", **changes)).problem.code == code


def test_requests_without_their_outcome_are_refused(read, document):
    item = read(*TOOL, primary=document("vllm-bench", "detailed.json", errors=[""] * 11))
    assert str(item.problem) == "counters_disagree: errors has 11 values, others have 12"


def test_a_wrong_median_is_found_in_the_requests(read, document):
    """vllm-project/vllm#6064."""
    item = read(*TOOL, primary=document("vllm-bench", "detailed.json", median_ttft_ms=29.0))
    assert item.problem.code == "inconsistent"


@pytest.mark.parametrize(
    ("scenario", "code"), [({"rate": 10.1}, ""), ({"rate": 20}, "x"), ({"load_model": "closed"}, "x")]
)
def test_the_load_is_the_one_of_the_envelope(read, scenario, code):
    item = read(*TOOL, {"scenario": {"id": "chat", **scenario}}, primary="ok.json")
    assert (item.problem.code if item.problem else "") == code.replace("x", "binding_conflict")


def test_only_load_runs_are_read(read):
    assert read(*TOOL, {"kind": "quality"}, primary="ok.json").problem.code == "tool_unknown"


def test_what_the_file_knows_of_its_own_measurement(samples):
    primary = (samples / "vllm-bench/ok.json").read_bytes()
    assert stated({"primary": primary}) == Stated(planned=60)
    assert stated({"primary": b"[]"}) == Stated()
