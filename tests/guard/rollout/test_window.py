"""`infercrane.window/v1`: what a router writes is read strictly, or refused by a reason."""

import json

import pytest

from pulumi_infercrane.guard import EvidenceError, load_windows, read_window
from pulumi_infercrane.guard.rollout.benchmark import benchmark_of
from tests.guard.rollout.conftest import NEW, OLD, binding, pair, seconds, window


def problem(document):
    data = document if isinstance(document, bytes) else json.dumps(document).encode()
    return str(read_window(data).problem)


def changed(**changes):
    """A good window with a change in its first binding."""
    return window(binding(NEW, 5, [0.1, 0.2], 1) | changes, binding(OLD, 95, [0.1]))


def benchmark(*bindings, slo=None):
    read = [read_window(json.dumps(window(one, binding(OLD, 95))).encode()).window for one in bindings]
    return benchmark_of([one.bindings[NEW] for one in read], slo or {})


def test_a_window_becomes_a_benchmark_on_each_side():
    record = benchmark(binding(NEW, 5, [0.1, 0.2], failed=3, cut_streams=1))
    assert (record.attempted, record.failed) == (6, 4)
    assert record.errors == {"cut_stream": 1, "http_error": 3}
    assert sorted(record.requests.seconds("ttft_s")) == [0.1, 0.2] + [float("inf")] * 4


def test_what_clients_do_is_no_failure_and_dilutes_nothing():
    faults = {"400": 7, "401": 20, "404": 1, "429": 30}
    record = benchmark(binding(NEW, 5, [0.1, 0.2], failed=1, client_faults=faults, client_cancelled=9, unobserved=2))
    assert (record.attempted, record.failed) == (3, 1)


def test_windows_of_one_revision_are_added_up():
    record = benchmark(binding(NEW, 5, [0.1], failed=1), binding(NEW, 5, [0.2, 0.3]))
    assert (record.attempted, record.failed) == (4, 1)
    assert sorted(record.requests.seconds("ttft_s"))[:3] == [0.1, 0.2, 0.3]


def test_a_request_without_a_first_token_time_is_left_out_of_that_figure():
    record = benchmark(binding(NEW, 5, [0.1, 0.2], ttft_s=[0.1, None]))
    assert list(record.requests.seconds("ttft_s")) == [0.1]
    assert len(list(record.requests.seconds("e2e_s"))) == 2


SLO = {"ttft_s": 0.5}
BUCKETS = {"edges": [0.1, 0.5, 2.0], "counts": [10, 20, 3, 1]}


def test_good_requests_are_counted_at_a_bucket_edge_only():
    histogram = binding(NEW, 5, completed=34, failed=2, ttft_s=BUCKETS, e2e_s=BUCKETS)
    assert benchmark(histogram, slo=SLO).good == 30
    assert benchmark(histogram, slo={"ttft_s": 0.4}).good is None
    assert benchmark(histogram, slo=SLO).requests is None


def test_several_objectives_need_values_of_each_request():
    values = binding(NEW, 5, completed=3, ttft_s=[0.5, 0.9, 0.1], e2e_s=[2.0, 1.0, 9.0])
    both = SLO | {"e2e_s": 2.0}
    assert benchmark(values, slo=both).good == 1
    histogram = binding(NEW, 5, completed=34, ttft_s=BUCKETS, e2e_s=BUCKETS)
    assert benchmark(histogram, slo=both).good is None
    assert benchmark(values, slo=SLO | {"tpot_s": 0.1}).good is None


def test_values_in_one_window_and_buckets_in_another_still_tell_who_was_good():
    values = binding(NEW, 5, completed=2, ttft_s=[0.1, 0.9], e2e_s=[1.0, 1.0])
    histogram = binding(NEW, 5, completed=34, ttft_s=BUCKETS, e2e_s=BUCKETS)
    record = benchmark(values, histogram, slo=SLO)
    assert (record.good, record.requests) == (31, None)


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (b"", "not_json"),
        (b"{", "not_json"),
        (b"\xff\xfe{}", "not_json"),
        (changed(ttft_s=[0.1, float("nan")]), "non_finite"),
        (b'{"service": "chat", "service": "chat"}', "duplicate_key"),
        (b"[" * 100 + b"]" * 100, "bomb"),
        ([], "schema_unknown"),
        (window(schema="infercrane.window/v2"), "schema_unknown"),
        (pair(tool_version="9.0"), "version_unknown"),
        (pair(extra=1), "schema_unknown: window: unknown field 'extra'"),
        (window(), "bad_value: bindings"),
        (pair(begin=5, end=5), "clock"),
        (pair(started_at="2026-11-30 04:00"), "bad_value: started_at"),
        (window(binding(NEW, 5), binding(NEW, 95)), "inconsistent: a revision is bound twice"),
        (window(binding(NEW, 5), binding(OLD, 90)), "inconsistent: the weights"),
        (window(binding(NEW, 100), "x"), "bad_value: bindings[1]"),
        (changed(weight=-5), "bad_value: bindings[0]: weight"),
        (changed(attempted=9), "counters_disagree: bindings[0]: 9 requests were attempted, but 3"),
        (changed(failed_by_class={"truncated": 1}), "schema_unknown: bindings[0].failed_by_class"),
        (changed(client_faults={"500": 1}), "schema_unknown: bindings[0].client_faults"),
        (changed(ttft_s=[0.1]), "counters_disagree: bindings[0].ttft_s: 1 values for 2"),
        (changed(ttft_s=[0.1, 0.0]), "bad_value: bindings[0].ttft_s[1]"),
        (changed(ttft_s=[0.1, -1e9]), "bad_value: bindings[0].ttft_s[1]"),
        (changed(ttft_s=[0.1, "0.2"]), "bad_value: bindings[0].ttft_s[1]"),
        (changed(ttft_s="fast"), "bad_value: bindings[0].ttft_s"),
        (changed(ttft_s={"edges": [2, 1], "counts": [1, 1, 0]}), "bad_value: bindings[0].ttft_s: edges"),
        (changed(ttft_s={"edges": [1], "counts": [1]}), "bad_value: bindings[0].ttft_s: there must be one"),
        (changed(ttft_s={"edges": [1], "counts": [2, 1]}), "counters_disagree"),
        (changed(restarts=None), "bad_value: bindings[0]: restarts"),
    ],
)
def test_what_is_not_a_window_is_refused_by_name(document, reason):
    assert problem(document).startswith(reason)


@pytest.mark.parametrize("name", ["service", "generation", "started_at", "bindings"])
def test_what_is_missing_is_named(name):
    document = pair()
    del document[name]
    assert problem(document).startswith(f"bad_value: {name}")


def test_windows_are_found_below_folders(tmp_path):
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    (deep / "1.window.json").write_text(json.dumps(pair()))
    (deep / "notes.json").write_text("{}")
    (tmp_path / "broken.window.json").write_text("{")
    found = load_windows([tmp_path, deep / "1.window.json"])
    assert [one.window is not None for one in found] == [True, False, True]
    assert found[0].sha256 == found[2].sha256


def test_a_file_that_cannot_be_read_is_an_error_and_no_window(tmp_path):
    with pytest.raises(EvidenceError, match="cannot be read"):
        load_windows([tmp_path / "none.window.json"])
    (tmp_path / "dir.window.json").mkdir()
    assert load_windows([tmp_path]) == ()


def test_a_file_that_is_too_big_is_not_parsed(tmp_path, monkeypatch):
    monkeypatch.setattr("pulumi_infercrane.guard.evidence.window.MAX_BYTES", 1000)
    (tmp_path / "big.window.json").write_text(json.dumps(pair(ttft=seconds(5))))
    assert load_windows([tmp_path])[0].problem.code == "oversize"


def test_more_requests_than_memory_holds_are_refused_before_anything_is_made_of_them():
    most = {
        "completed": 10_000_000,
        "failed_by_class": {},
        "attempted": 10_000_000,
        "ttft_s": BUCKETS,
        "e2e_s": BUCKETS,
    }
    assert problem(changed(**most)) == "None"
    more = most | {"completed": 10_000_001, "attempted": 10_000_001}
    assert problem(changed(**more)).startswith(
        "bad_value: bindings[0]: 10000001 requests in one window, at most 10000000"
    )
