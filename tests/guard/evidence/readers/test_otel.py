"""OpenTelemetry: spans of requests to a model, whatever else was traced; log records without durations."""

import json
import math
from dataclasses import asdict

import pytest

from tests.guard.evidence.readers.offering import SAMPLES, decision, offer

LINES = [json.loads(line) for line in (SAMPLES / "otel" / "spans.jsonl").read_text().splitlines()]


def read(folder, primary="spans.jsonl", kind="benchmark", **more):
    return offer(folder, "otel", kind, {"primary": primary}, **more)


def spans_with(change):
    lines = json.loads(json.dumps(LINES))
    for line in lines:
        for span in line["resourceSpans"][0]["scopeSpans"][0]["spans"]:
            change(span)
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def attribute(key, value):
    def change(span):
        span["attributes"] = [one for one in span["attributes"] if one["key"] != key] + [{"key": key, "value": value}]

    return change


def test_spans_of_requests_become_requests_in_seconds(folder):
    record = read(folder).record
    assert (record.attempted, record.failed, record.errors) == (6, 2, {"503": 1, "timeout": 1})
    requests = record.requests
    assert (requests.ttft_s[0], requests.e2e_s[0], requests.in_tokens[0], requests.out_tokens[0]) == (0.1, 1.1, 40, 101)
    assert requests.tpot_s[0] == pytest.approx(0.01)
    assert record.streaming is None and math.isnan(requests.ttft_s[2])


def test_spans_of_tools_are_passed_over(folder):
    only_tools = spans_with(attribute("gen_ai.operation.name", {"stringValue": "execute_tool"}))
    assert read(folder, only_tools).problem.code == "no_evidence"


def test_r3_no_message_is_kept(folder):
    assert "never to be kept" in json.dumps(LINES)
    assert "never to be kept" not in str(asdict(read(folder).record))


def test_2_of_6_failures_are_rejected(folder):
    read(folder)
    assert decision(folder, "id: benchmark.error_fraction, limit: 0.01").verdict == "reject"


def test_log_records_count_and_do_not_time(folder):
    record = read(folder, "logs.jsonl", "reliability").record
    assert (record.attempted, record.failed, record.errors) == (4, 1, {"503": 1})
    assert read(folder, "logs.jsonl", "cost").record.output_tokens == 303
    assert read(folder, "logs.jsonl").problem.code == "tool_unknown"


def test_spans_give_tokens_to_a_cost(folder):
    record = read(folder, kind="cost").record
    assert (record.output_tokens, record.input_tokens, record.requests, record.gpu_cost) == (404, 160, 6, None)


def test_one_model_of_several_is_chosen_by_attribute(folder):
    def other(span):
        if span["spanId"].endswith("3"):
            attribute("gen_ai.request.model", {"stringValue": "other"})(span)

    both = spans_with(other)
    assert read(folder, both).problem.code == "ambiguous_run"
    assert read(folder, both, select={"gen_ai.request.model": "chat"}).record.attempted == 5


def test_the_spans_of_client_and_server_are_one_request_twice(folder):
    def server(span):
        if span["spanId"].endswith("3"):
            span["kind"] = 2

    assert read(folder, spans_with(server)).problem.code == "ambiguous_run"


def test_one_service_version_of_several_is_chosen_by_attribute(folder):
    lines = json.loads(json.dumps(LINES))
    lines[1]["resourceSpans"][0]["resource"]["attributes"][1]["value"] = {"stringValue": "r41"}
    both = "".join(json.dumps(line) + "\n" for line in lines).encode()
    assert read(folder, both).problem.code == "ambiguous_run"
    assert read(folder, both, select={"service.version": "r42"}).record.attempted == 2


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda span: span.update(spanId="same", traceId="same"), "counters_disagree"),
        (lambda span: span.pop("spanId"), "bad_value"),
        (lambda span: span.update(endTimeUnixNano="soon"), "bad_value"),
        (lambda span: span.update(endTimeUnixNano=1.5), "bad_value"),
        (lambda span: span.update(endTimeUnixNano="0"), "bad_value"),
        (lambda span: span.update(endTimeUnixNano="9" * 40), "bad_value"),
        (lambda span: span.update(endTimeUnixNano=span["startTimeUnixNano"]), "bad_value"),
        (lambda span: span.update(startTimeUnixNano="1000", endTimeUnixNano="2000000000"), "inconsistent"),
        (lambda span: span.update(attributes={}), "schema_unknown"),
        (lambda span: span.update(attributes=[{"key": "a"}]), "schema_unknown"),
        (lambda span: span["attributes"].append(span["attributes"][0]), "duplicate_key"),
        (attribute("gen_ai.usage.output_tokens", {"intValue": "-1"}), "bad_value"),
        (attribute("gen_ai.usage.output_tokens", {"stringValue": "12"}), "bad_value"),
        (attribute("gen_ai.response.time_to_first_chunk", {"stringValue": "0.1"}), "bad_value"),
        (attribute("gen_ai.response.time_to_first_chunk", {"doubleValue": 110.0}), "bad_value"),
    ],
)
def test_what_no_exporter_writes_is_refused(folder, change, code):
    assert read(folder, spans_with(change)).problem.code == code


@pytest.mark.parametrize(
    "line", [{}, {"resourceSpans": 1}, {"resourceSpans": [1]}, {"resourceSpans": [], "resourceLogs": []}]
)
def test_another_tool_s_lines_are_unknown(folder, line):
    assert read(folder, json.dumps(line).encode()).problem.code == "schema_unknown"


def test_a_failure_is_a_status_too(folder):
    def failed(span):
        span["attributes"] = [one for one in span["attributes"] if one["key"] != "error.type"]

    assert read(folder, spans_with(failed)).record.errors == {"unnamed": 2}


def test_failed_requests_have_no_response_model_and_count_for_the_same_one(folder):
    def answered(span):
        if "status" not in span:
            attribute("gen_ai.response.model", {"stringValue": "chat-0613"})(span)

    assert read(folder, spans_with(answered)).record.attempted == 6


def test_tokens_that_one_answer_does_not_say_are_unknown(folder):
    def silent(span):
        if span["spanId"].endswith("3"):
            span["attributes"] = [one for one in span["attributes"] if "usage" not in one["key"]]

    assert read(folder, spans_with(silent), "cost").record.output_tokens is None
