"""locust: the JSON is whole where the CSV lags, and both mix the times of failures with those of answers."""

import json

import pytest

from tests.guard.evidence.readers.offering import SAMPLES, changed, decision, judged, offer, sample


def read(folder, primary="run.json", kind="benchmark", details=None, **more):
    parts = {"primary": primary} | ({} if details is None else {"details": details})
    return offer(folder, "locust", kind, parts, **more)


def without_failures(document):
    document[0].update(num_failures=0, num_fail_per_sec={})


def test_47_of_329_failures_are_rejected(folder):
    record = read(folder).record
    assert (record.failed, record.attempted) == (47, 329)
    found = decision(folder, "id: benchmark.error_fraction, limit: 0.01")
    assert (found.verdict, judged(found, "benchmark.error_fraction")[0]) == ("reject", "fail")


def test_reliability_lasts_from_the_first_to_the_last_request(folder):
    record = read(folder, kind="reliability").record
    assert (record.failed, record.attempted, round(record.duration_s, 3)) == (47, 329, 10.322)


def test_u1_times_that_include_failures_are_no_latency(folder):
    assert sample("locust", "run.json")[0]["response_times"]["7"] == 30  # milliseconds, of failed requests
    assert read(folder).record.latencies == {}


def test_u1_without_failures_the_rounded_times_are_latencies(folder):
    e2e = read(folder, changed("locust", "run.json", without_failures)).record.latencies["e2e_s"]
    assert (e2e.quantiles[0.5], e2e.quantiles[0.95]) == (0.083, 0.11)
    assert e2e.mean == pytest.approx(24878.23807999664 / 329 / 1000)


def test_u2_a_csv_that_lags_disagrees(folder):
    problem = read(folder, details="run_stats.csv").problem
    assert str(problem).endswith("47 of 329 failed, 42 of 314 in the CSV")
    assert problem.code == "counters_disagree"


def test_u2_a_csv_that_agrees_changes_nothing(folder):
    text = (SAMPLES / "locust" / "run_stats.csv").read_text().replace(",314,42,", ",329,47,").encode()
    assert read(folder, details=text).record == read(folder).record


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "schema_unknown"),
        (b"\xff\xfeT\x00", "not_json"),
        (b'Type,Name,Request Count,Failure Count\n"POST,', "not_json"),
        (b"Type,Name,Request Count,Failure Count\nPOST,=cmd|calc,1,0\n", "counters_disagree"),
        (b"Type,Name,Request Count,Failure Count\nPOST,/v1/chat/completions\n", "counters_disagree"),
        (b"Type,Name,Request Count,Failure Count\nPOST,\0,1,0\n", "counters_disagree"),
        (b"a" * (1024 * 1024 + 1), "oversize"),
    ],
)
def test_a_csv_that_is_none_is_refused(folder, data, code):
    assert read(folder, details=data).problem.code == code


def test_one_endpoint_of_several_is_named(folder):
    several = changed("locust", "run.json", lambda d: d.append(d[0] | {"name": "/health", "method": "GET"}))
    assert read(folder, several).problem.code == "ambiguous_run"
    assert read(folder, several, select={"name": "POST /v1/chat/completions"}).record.attempted == 329
    assert read(folder, several, select={"name": "POST /v2"}).problem.code == "bad_value"


def test_a_run_of_another_day_is_not_of_this_window(folder):
    old = changed(
        "locust", "run.json", lambda d: d[0].update(start_time=1695011173.0, last_request_timestamp=1695011184.0)
    )
    assert read(folder, old).problem.code == "inconsistent"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"num_failures": 330}, "counters_disagree"),
        ({"num_requests": 330}, "counters_disagree"),
        ({"num_requests": 0}, "no_evidence"),
        ({"num_failures": 46}, "counters_disagree"),
        ({"num_failures": None}, "bad_value"),
        ({"num_reqs_per_sec": {"a": 329}}, "bad_value"),
        ({"start_time": "yesterday"}, "bad_value"),
    ],
)
def test_what_does_not_add_up_is_refused(folder, change, code):
    assert read(folder, changed("locust", "run.json", lambda d: d[0].update(change))).problem.code == code


@pytest.mark.parametrize("document", [{}, [1], [{"name": "x"}]])
def test_another_tool_s_json_is_unknown(folder, document):
    assert read(folder, json.dumps(document).encode()).problem.code == "schema_unknown"


def test_no_entries_are_no_evidence(folder):
    assert read(folder, b"[]").problem.code == "no_evidence"
