"""Our own files: read into canonical records, or refused with the line that is wrong."""

import json
import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pulumi_infercrane.guard import load_evidence
from pulumi_infercrane.guard.evidence.records import Answer


def read(folder):
    (item,) = load_evidence(folder.root).items
    return item


def test_a_load_run_becomes_requests_in_seconds(folder):
    folder.benchmark("candidate", [0.05, 0.06, 0.07], failed=1)
    record = read(folder).record
    assert (record.attempted, record.failed, record.concurrency, record.token_source) == (3, 1, 2.0, "usage")
    requests = record.requests
    columns = (requests.ttft_s, requests.tpot_s, requests.e2e_s, requests.in_tokens, requests.out_tokens)
    assert [column[0] for column in columns] == [0.05, 0.01, 0.52, 30, 48]
    assert list(requests.ok) == [1, 1, 0]
    assert record.errors == {"http_error": 1}
    assert list(requests.seconds("ttft_s")) == [0.05, 0.06, math.inf]


def test_a_task_becomes_answers_by_id(folder):
    def cut_and_empty(lines):
        lines[1] |= {"finish_reason": "length", "empty": True}
        lines[2] = {"id": "0002", "score": 0, "outcome": "idle_timeout"}

    folder.quality("candidate", [1, 0.5, 0], lines=cut_and_empty)
    record = read(folder).record
    assert (record.task, record.metric, record.attempted) == ("basics", "contains", 3)
    texts = [answer.text_sha256 for answer in record.answers.values()]
    assert record.answers["0001"] == Answer(0.5, ok=True, empty=True, cut=True, text_sha256=texts[1])
    assert record.answers["0002"] == Answer(0.0, ok=False, empty=False, cut=False, text_sha256="")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ({"ttft_s": "0.05"}, "bad_value: line 2: ttft_s is not a number"),
        ({"ttft_s": None}, "bad_value: line 2: ttft_s is not a number"),
        ({"ttft_s": True}, "bad_value: line 2: ttft_s is not a number"),
        ({"ttft_s": 0.0}, "bad_value: 1 of 150 complete requests have a latency outside"),
        ({"e2e_s": -1.7e12}, "bad_value: 1 of 150 complete requests have a latency outside"),
        ({"e2e_s": 601}, "bad_value: 1 of 150 complete requests have a latency outside"),
        ({"out_tokens": 4.5}, "bad_value: line 2: out_tokens is not a count"),
        ({"in_tokens": -1}, "bad_value: line 2: in_tokens is not a count"),
        ({"id": "0001"}, "counters_disagree: line 3: id '0001' occurs twice"),
        ({"id": 1}, "bad_value: line 2: id is missing or not a str"),
        ({"outcome": None}, "bad_value: line 2: outcome is missing or not a str"),
        ({"token_source": "events"}, "inconsistent: token counts come from more than one source"),
    ],
)
def test_a_wrong_request_is_named(folder, line, expected):
    folder.benchmark("candidate", lines=lambda lines: lines[0].update(line))
    assert str(read(folder).problem).startswith(expected)


def test_a_complete_request_needs_its_latencies(folder):
    folder.benchmark("candidate", lines=lambda lines: lines[3].pop("e2e_s"))
    assert str(read(folder).problem) == "bad_value: line 5: a complete request without ttft_s or e2e_s"


def test_one_impossible_latency_in_a_thousand_counts_as_a_failure(folder):
    folder.benchmark("candidate", folder.seconds(1000), lines=lambda lines: lines[0].update(ttft_s=0))
    assert read(folder).record.failed == 1


def test_an_answer_of_one_token_has_no_time_per_token(folder):
    def short(lines):
        lines[0].update(out_tokens=1, e2e_s=lines[0]["ttft_s"])
        del lines[0]["tpot_s"]

    folder.benchmark("candidate", lines=short)
    assert math.isnan(read(folder).record.requests.tpot_s[0])


def test_parts_that_do_not_add_up_are_inconsistent(folder):
    folder.benchmark("candidate", lines=lambda lines: [line.update(tpot_s=0.02) for line in lines])
    assert read(folder).problem.code == "inconsistent"


@pytest.mark.parametrize(
    ("header", "code"),
    [
        ({"schema": "infercrane.benchmark/v2"}, "schema_unknown"),
        ({"schema": "infercrane.quality/v1"}, "schema_unknown"),
        ({"load_model": "open"}, "schema_unknown"),
        ({"revision_digest": "sha256:" + "0" * 64}, "binding_conflict"),
        ({"planned": 151}, "counters_disagree"),
        ({"planned": True}, "bad_value"),
        ({"concurrency": "2"}, "bad_value"),
        ({"streaming": 1}, "bad_value"),
        ({"started_at": "2026-11-30T03:00:00Z"}, "inconsistent"),
        ({"ended_at": "2026-11-30T04:02:00"}, "clock"),
    ],
)
def test_the_header_must_agree_with_its_envelope(folder, header, code):
    folder.benchmark("candidate", header=header)
    assert read(folder).problem.code == code


def test_more_lines_than_planned_are_refused(folder):
    folder.benchmark("candidate", lines=lambda lines: lines.append(lines[0] | {"id": "extra"}))
    assert read(folder).problem.code == "counters_disagree"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ({"score": 1.5}, "bad_value: line 2: score 1.5 is not between 0 and 1"),
        ({"score": "1"}, "bad_value: line 2: score is not a number"),
        ({"text_sha256": "abc"}, "bad_value: line 2: text_sha256 is not 64 hex digits"),
        ({"outcome": "truncated"}, "inconsistent: line 2: a failed request cannot score"),
    ],
)
def test_a_wrong_answer_line_is_named(folder, line, expected):
    folder.quality("candidate", lines=lambda lines: lines[0].update(line))
    assert str(read(folder).problem) == expected


def test_an_answer_without_a_score_is_refused(folder):
    folder.quality("candidate", lines=lambda lines: lines[0].pop("score"))
    assert str(read(folder).problem) == "bad_value: line 2: score is missing"


def test_a_task_without_answers_has_no_scores(folder):
    folder.quality("candidate", ())
    assert read(folder).problem.code == "no_scores"


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"", "not_json"),
        (b"not json", "not_json"),
        (b'{"schema": "infercrane.benchmark/v1", "planned": NaN}', "non_finite"),
        (b'{"schema": "infercrane.benchmark/v1", "planned": 4', "not_json"),
    ],
)
def test_a_file_that_is_not_json_lines_is_refused(folder, raw, code):
    folder.write_raw("benchmark", "candidate", "x", raw)
    assert read(folder).problem.code == code


@pytest.mark.parametrize(
    ("file", "code"),
    [
        ({"tool": "wrk"}, "tool_unknown"),
        ({"tool": "../infercrane"}, "tool_unknown"),
        ({"tool_version": "0.2.0"}, "version_unknown"),
        ({"tool_version": "main"}, "version_unknown"),
    ],
)
def test_a_tool_nobody_reads_is_refused(folder, file, code):
    folder.benchmark("candidate", change=lambda e: e["files"][0].update(file))
    assert read(folder).problem.code == code


def test_patch_releases_of_a_known_tool_are_read(folder):
    folder.benchmark("candidate", change=lambda e: e["files"][0].update(tool_version="0.1.7"))
    assert read(folder).problem is None


def test_a_kind_we_do_not_write_is_refused(folder):
    folder.write_raw("cost", "candidate", "x", json.dumps({"schema": "infercrane.cost/v1"}).encode())
    assert str(read(folder).problem) == "tool_unknown: infercrane writes no evidence of kind 'cost'"


anything = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**30), 10**30) | st.just(10**400),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)
FIELDS = {
    "benchmark": ["id", "ttft_s", "tpot_s", "e2e_s", "in_tokens", "out_tokens", "token_source", "outcome"],
    "quality": ["id", "score", "outcome", "finish_reason", "empty", "text_sha256"],
}
HEADERS = [
    "schema",
    "revision_digest",
    "planned",
    "started_at",
    "ended_at",
    "concurrency",
    "streaming",
    "task",
    "metric",
]


@settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kind=st.sampled_from(sorted(FIELDS)), data=st.data())
def test_whatever_stands_in_a_field_nothing_is_raised(folder, kind, data):
    line = {data.draw(st.sampled_from(FIELDS[kind])): data.draw(anything)}
    header = data.draw(st.dictionaries(st.sampled_from(HEADERS), anything, max_size=1))
    write = getattr(folder, kind)
    write("baseline")
    write("candidate", header=header, lines=lambda lines: lines[0].update(line))
    assert folder.decide().verdict == "insufficient_evidence"
