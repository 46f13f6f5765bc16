"""SGLang's result lines: every trap of theirs, on files the tool wrote."""

import json
import math

import pytest

TOOL = ("sglang-bench", "0.5.23")


@pytest.fixture
def line(samples):
    return json.loads((samples / "sglang-bench/ok.jsonl").read_text())


def test_a_run_becomes_seconds_and_tokens(read):
    record = read(*TOOL, {"planned": 60}, primary="ok.jsonl").record
    assert (record.attempted, record.failed, record.load_model, record.rate) == (60, 0, "open", 10.0)
    assert record.latencies["ttft_s"].quantiles[0.95] == pytest.approx(0.0489381)
    assert record.latencies["e2e_s"].quantiles[0.5] == pytest.approx(0.0915245)
    assert record.out_tokens == 744 / 60


def test_s1_failures_are_unknown_without_planned_requests(read):
    record = read(*TOOL, primary="ok.jsonl").record
    assert (record.attempted, record.failed) == (None, None)


@pytest.mark.parametrize(("number", "completed"), [(1, 48), (2, 47)])
def test_s2_one_run_of_several_is_named(read, number, completed):
    assert read(*TOOL, primary="two_runs_failing.jsonl").problem.code == "ambiguous_run"
    about = {"planned": 60, "select": {"line": number}}
    record = read(*TOOL, about, primary="two_runs_failing.jsonl").record
    assert (record.attempted, record.failed) == (60, 60 - completed)


@pytest.mark.parametrize("select", [{"line": 0}, {"line": 3}, {"index": 1}, {"line": "1"}])
def test_s2_a_line_that_is_not_there_is_refused(read, select):
    assert read(*TOOL, {"select": select}, primary="two_runs_failing.jsonl").problem.code == "ambiguous_run"


def test_s3_nothing_written_is_no_run_without_errors(read, line):
    assert read(*TOOL, primary=b"").problem.code == "not_json"
    assert read(*TOOL, primary=line | {"completed": 0}).problem.code == "bad_value"


def test_s4_two_counts_of_the_same_tokens_put_them_in_doubt(read, line):
    record = read(*TOOL, {"select": {"line": 1}}, primary="two_runs_failing.jsonl").record
    assert record.token_doubt.endswith("997 against 597 output tokens")
    assert read(*TOOL, primary=line | {"total_output_tokens_retokenized": 760}).record.token_doubt == ""


def test_more_answers_than_planned_is_refused(read):
    assert read(*TOOL, {"planned": 59}, primary="ok.jsonl").problem.code == "counters_disagree"


def test_without_an_arrival_rate_the_tool_writes_a_number_that_is_not_json(read, line):
    raw = json.dumps(line | {"request_rate": math.inf, "max_concurrency": 8}).encode()
    record = read(*TOOL, primary=raw).record
    assert (record.load_model, record.rate, record.concurrency) == ("closed", None, 8)
    assert (
        read(*TOOL, primary=raw.replace(b'"duration": ', b'"duration": Infinity, "d": ')).problem.code == "non_finite"
    )


def test_details_become_requests(read, line):
    details = {"ttfts": [0.03] * 59 + [0.0], "itls": [[0.005] * 11] * 59 + [[]], "errors": [""] * 59 + ["timeout"]}
    figures = {key: 30.0 for key in line if key.endswith("_ttft_ms")} | {
        key: 85.0 for key in line if key.endswith("_e2e_latency_ms")
    }
    figures |= {"mean_tpot_ms": 5.0, "completed": 59, "output_lens": [12] * 59 + [0]}
    figures |= {"total_output_tokens": 59 * 12, "request_throughput": 59 / line["duration"]}
    item = read(*TOOL, primary=line | details | figures)
    assert item.record is not None, item.problem
    assert (item.record.attempted, item.record.failed, len(item.record.requests)) == (60, 1, 60)
    assert item.record.requests.e2e_s[0] == pytest.approx(0.085)
    assert item.record.requests.tpot_s[0] == pytest.approx(0.005)


def test_details_that_count_otherwise_are_refused(read, line):
    details = {"ttfts": [0.03] * 60, "itls": [[]] * 60, "errors": [""] * 59 + ["timeout"]}
    assert read(*TOOL, primary=line | details).problem.code == "counters_disagree"
    assert read(*TOOL, primary=line | details | {"errors": [""]}).problem.code == "counters_disagree"


def test_a_file_of_vllm_is_not_one_of_sglang(read, samples):
    raw = (samples / "vllm-bench/ok.json").read_bytes()
    assert read(*TOOL, primary=raw).problem.code == "schema_unknown"
