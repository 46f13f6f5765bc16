"""LiteLLM: the three times of a call, not its response_time; one revision out of a longer log."""

import json
import math
from dataclasses import asdict

import pytest

from tests.guard.evidence.readers.offering import SAMPLES, decision, judged, offer

LOG = "standard_logging_payload.jsonl"
WINDOW = {"window": {"started_at": "2026-11-30T04:05:00Z", "ended_at": "2026-11-30T04:07:00Z"}}
PRICE = {"price": {"currency": "USD", "date": "2026-11-28", "source": "model prices of the proxy"}}
LINES = [json.loads(line) for line in (SAMPLES / "litellm" / LOG).read_text().splitlines()]


def read(folder, primary=LOG, kind="benchmark", **more):
    envelope = WINDOW | more.pop("envelope", {})
    return offer(folder, "litellm", kind, {"primary": primary}, envelope=envelope, **more)


def lines_with(change, *, of=slice(None)):
    lines = [dict(line) for line in LINES]
    for line in lines[of]:
        line.update(change)
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def spend_log(change=None):
    """Rows as `/spend/logs` answers them: times as text, no `stream`, the status among the metadata."""
    from datetime import UTC, datetime

    rows = []
    for line in LINES:
        names = ("call_type", "model", "prompt_tokens", "completion_tokens", "request_tags")
        row = {name: line[name] for name in names} | {"request_id": line["id"], "spend": line["response_cost"]}
        for name in ("startTime", "endTime", "completionStartTime"):
            row[name] = datetime.fromtimestamp(line[name], UTC).isoformat().replace("+00:00", "Z")
        row["metadata"] = {"status": line["status"], "error_information": line["error_information"]}
        rows.append(row | {"cache_hit": "False"} | (change or {}))
    return json.dumps(rows).encode()


@pytest.mark.parametrize("primary", [LOG, spend_log()], ids=["payloads", "spend log"])
def test_r1_24_records_11_streamed_3_failures(folder, primary):
    record = read(folder, primary).record
    assert (record.attempted, record.failed, record.errors) == (24, 3, {"503": 3})
    assert sum(1 for value in record.requests.ttft_s if value == value) == 11
    assert record.streaming is None


@pytest.mark.parametrize("primary", [LOG, spend_log()], ids=["payloads", "spend log"])
def test_r1_a_streamed_call_takes_longer_than_its_response_time(folder, primary):
    requests = read(folder, primary).record.requests
    assert (round(requests.ttft_s[1], 3), round(requests.e2e_s[1], 3)) == (0.276, 0.395)
    assert round(LINES[1]["response_time"], 3) == 0.276
    assert requests.tpot_s[1] == pytest.approx((requests.e2e_s[1] - requests.ttft_s[1]) / 7)


def test_r1_an_answer_in_one_piece_has_no_first_token(folder):
    requests = read(folder).record.requests
    assert math.isnan(requests.ttft_s[0]) and round(requests.e2e_s[0], 3) == 0.353


def test_r3_no_prompt_and_no_answer_is_kept(folder):
    text = str(asdict(read(folder).record))
    assert LINES[0]["messages"][0]["content"] == "hello 0"
    assert "hello" not in text and "serves tokens" not in text


def test_3_of_24_failures_are_unknown_within_5_percent_and_rejected_within_1(folder):
    read(folder)
    as_of = "2026-11-30T05:00:00Z"
    found = decision(folder, "id: benchmark.error_fraction, limit: 0.05", as_of=as_of)
    assert (found.verdict, judged(found, "benchmark.error_fraction")[0]) == ("insufficient_evidence", "unknown")
    assert decision(folder, "id: benchmark.error_fraction, limit: 0.01", as_of=as_of).verdict == "reject"


def test_reliability_is_what_failed_and_how_long(folder):
    record = read(folder, kind="reliability").record
    assert (record.attempted, record.failed, record.duration_s, record.errors) == (24, 3, 2.926429, {"503": 3})


def test_beside_an_accelerator_spend_is_no_cost(folder):
    record = read(folder, kind="cost", envelope=PRICE).record
    assert (record.gpu_cost, record.other_cost, record.output_tokens, record.requests) == (None, 0, 168, 24)


def test_without_an_accelerator_spend_is_the_cost(folder, subject_of):
    folder.subjects["candidate"] = subject_of("r42", accelerator={"vendor": "none", "sku": "hosted", "count": 0})
    record = read(folder, kind="cost", envelope=PRICE).record
    assert (record.currency, record.price_date, record.gpu_cost) == ("USD", "2026-11-28", 0)
    assert record.per_million_output_tokens == pytest.approx(21 * 5.8e-6 / 168 * 1e6)
    assert read(folder, kind="cost").problem.code == "cost_incomplete"


def test_a_log_of_two_revisions_is_divided_by_tag(folder):
    both = lines_with({"request_tags": ["revision:rev-41"]}, of=slice(0, 10))
    assert str(read(folder, both).problem) == (
        "ambiguous_run: answers of several (mock-7b rev-41; mock-7b rev-42): choose with select.model or select.tag"
    )
    assert read(folder, both, select={"tag": "revision:rev-42"}).record.attempted == 14
    assert read(folder, both, select={"tag": "revision:rev-43"}).problem.code == "no_evidence"


def test_a_log_of_two_models_is_divided_by_model(folder):
    both = lines_with({"model": "other-7b"}, of=slice(0, 4))
    assert read(folder, both).problem.code == "ambiguous_run"
    assert read(folder, both, select={"model": "mock-7b"}).record.attempted == 20


def test_answers_of_the_proxy_s_cache_are_not_the_model_s(folder):
    assert read(folder, lines_with({"cache_hit": True}, of=slice(0, 2))).problem.code == "cache_bias"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"id": "same"}, "counters_disagree"),
        ({"id": None}, "bad_value"),
        ({"status": None}, "schema_unknown"),
        ({"status": "done"}, "schema_unknown"),
        ({"endTime": "2026-11-30T04:05:12"}, "clock"),
        ({"endTime": None}, "bad_value"),
        ({"endTime": 1796011500.0}, "bad_value"),
        ({"endTime": 1e300}, "bad_value"),
        ({"startTime": 1695011512.0, "endTime": 1695011513.0}, "inconsistent"),
        ({"completion_tokens": -1}, "bad_value"),
        ({"prompt_tokens": 1.5}, "bad_value"),
        ({"response_cost": -1}, "bad_value"),
    ],
)
def test_what_no_log_says_is_refused(folder, change, code):
    assert read(folder, lines_with(change)).problem.code == code


def test_times_in_milliseconds_are_no_times_of_this_window(folder):
    thousand = {name: LINES[0][name] * 1000 for name in ("startTime", "endTime", "completionStartTime")}
    assert read(folder, lines_with(thousand, of=slice(0, 1))).problem.code in ("bad_value", "inconsistent")


@pytest.mark.parametrize("primary", [b'{"model": "x"}\n', b"[1]", b'[{"a": 1}]'])
def test_another_tool_s_lines_are_unknown(folder, primary):
    assert read(folder, primary).problem.code == "schema_unknown"
