"""guidellm's reports in all their layouts: every trap of theirs, on files the tool wrote."""

import copy
import math

import pytest

from pulumi_infercrane.guard.evidence.readers.guidellm import stated
from pulumi_infercrane.guard.evidence.reading.stated import Stated
from tests.guard.evidence.readers.offering import decision

VERSIONS = ["0.5.4", "0.6.1", "0.8.1"]


@pytest.fixture
def report(document):
    """A report and its only benchmark, to be changed in place."""

    def make(version="0.8.1"):
        found = document("guidellm", f"{version}_fail15pct.json")
        return found, found["benchmarks"][0]

    return make


@pytest.mark.parametrize(
    ("version", "failed", "attempted", "ttft_ms", "total_ms"),
    [("0.5.4", 11, 96, 57.29, 50.73), ("0.6.1", 10, 97, 54.98, 48.75), ("0.8.1", 13, 97, 56.28, 56.63)],
)
def test_g1_latencies_are_those_of_successes(read, document, version, failed, attempted, ttft_ms, total_ms):
    record = read("guidellm", version, primary=f"{version}_fail15pct.json").record
    assert (record.failed, record.attempted, dict(record.errors)) == (failed, attempted, {"503": failed})
    assert record.latencies["ttft_s"].mean * 1e3 == pytest.approx(ttft_ms, abs=0.005)
    benchmark = document("guidellm", f"{version}_fail15pct.json")["benchmarks"][0]
    assert benchmark["metrics"]["time_to_first_token_ms"]["total"]["mean"] == pytest.approx(total_ms, abs=0.005)


@pytest.mark.parametrize(("version", "made"), [("0.5.4", 173), ("0.6.1", 107), ("0.8.1", 126)])
def test_g2_requests_generated_ahead_were_never_sent(read, report, version, made):
    found, benchmark = report(version)
    assert benchmark["scheduler_metrics"]["requests_made"]["total"] == made
    assert read("guidellm", version, primary=found).record.attempted in (96, 97)
    benchmark["requests"]["successful"].pop()
    assert read("guidellm", version, primary=found).problem.code == "counters_disagree"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_run_that_failed_throughout_is_rejected(read, report, folder, version):
    found, benchmark = report(version)
    totals, kept = benchmark["metrics"]["request_totals"], benchmark["requests"]
    totals |= {"successful": 0, "incomplete": 0, "errored": totals["total"]}
    benchmark["requests"] = {"successful": [], "incomplete": [], "errored": [kept["errored"][0]] * totals["total"]}
    record = read("guidellm", version, primary=found).record
    assert (record.failed, record.errors, record.latencies) == (record.attempted, {"503": record.attempted}, {})
    assert decision(folder, "id: benchmark.error_fraction, limit: 0.9").verdict == "reject"


def test_g3_an_incomplete_request_nobody_counted_and_a_rate_one_request_off(read, report):
    found, benchmark = report("0.5.4")
    assert (len(benchmark["requests"]["incomplete"]), benchmark["metrics"]["request_totals"]["incomplete"]) == (1, 0)
    record = read("guidellm", "0.5.4", primary=found).record
    assert (record.incomplete, len(record.requests)) == (0, 96)
    assert benchmark["metrics"]["requests_per_second"]["successful"]["mean"] * 12 == pytest.approx(84)
    benchmark["metrics"]["requests_per_second"]["successful"]["mean"] = 6.8
    assert read("guidellm", "0.5.4", primary=found).problem.code == "inconsistent"


def test_g4_seconds_and_milliseconds_stand_side_by_side(read):
    latencies = read("guidellm", "0.5.4", primary="0.5.4_fail15pct.json").record.latencies
    assert latencies["e2e_s"].mean == pytest.approx(0.1303145)
    assert latencies["ttft_s"].quantiles[0.95] == pytest.approx(0.0921230)
    assert latencies["tpot_s"].mean == pytest.approx(0.00483558, rel=1e-5)  # 0.0081 with the first token in it


def test_g5_one_benchmark_of_several_is_named(read, report):
    found, benchmark = report()
    other = copy.deepcopy(benchmark)
    other["config"]["strategy"]["rate"] = 16.0
    for one in (benchmark, other):
        one["requests"] = {"successful": [], "errored": [], "incomplete": []}
    found["benchmarks"].append(other)
    del found["conclusions"]
    assert read("guidellm", "0.8.1", primary=found).problem.code == "ambiguous_run"
    record = read("guidellm", "0.8.1", {"select": {"index": 1}}, primary=found).record
    assert (record.rate, record.requests, record.attempted) == (16.0, None, 97)
    assert read("guidellm", "0.8.1", {"select": {"index": 2}}, primary=found).problem.code == "ambiguous_run"


def test_g6_the_csv_is_refused(read):
    raw = b"Run Info,Run Info\nModel,Backend\n,\nmock-7b,openai_http\n"
    assert read("guidellm", "0.8.1", primary=raw).problem.code == "not_json"


def test_g7_requests_cut_at_the_end_are_neither_failed_nor_answered(read):
    record = read("guidellm", "0.8.1", primary="0.8.1_fail15pct.json").record
    assert (record.attempted, record.failed, record.incomplete, len(record.requests)) == (97, 13, 2, 95)


@pytest.mark.parametrize("version", VERSIONS)
def test_g8_requests_have_their_times_from_timings(read, report, version):
    found, benchmark = report(version)
    record = read("guidellm", version, primary=found).record
    times = benchmark["requests"]["successful"][0]["info"]["timings"]
    assert record.requests.ttft_s[0] == pytest.approx(times["first_token_iteration"] - times["request_start"])
    seconds = sorted(record.requests.seconds("ttft_s"))
    assert seconds[-record.failed :] == [math.inf] * record.failed
    assert math.fsum(seconds[: -record.failed]) / len(seconds[: -record.failed]) == pytest.approx(
        record.latencies["ttft_s"].mean, rel=1e-3
    )


@pytest.mark.parametrize(
    ("declared", "written", "code"),
    [
        ("0.8.0.dev18", "0.8.1", ""),
        ("0.6.1", "0.5.4", "binding_conflict"),
        ("0.5.4", None, "schema_unknown"),
        ("0.9.0", "0.9.0", "version_unknown"),
        ("1.0.0", "1.0.0", "version_unknown"),
    ],
)
def test_the_version_of_the_file_is_the_declared_one(read, report, declared, written, code):
    found, _ = report()
    found["metadata"]["guidellm_version"] = written
    item = read("guidellm", declared, primary=found)
    assert (item.problem.code if item.problem else "") == code


def test_a_layout_of_another_version_is_refused(read, report):
    found, _ = report()
    found["metadata"]["version"] = 1
    assert read("guidellm", "0.8.1", primary=found).problem.code == "schema_unknown"


def test_a_revision_label_must_be_the_one_measured(read, report):
    found, _ = report()
    found["config"]["metadata"]["labels"]["revision"] = "sha256:" + "0" * 64
    assert read("guidellm", "0.8.1", primary=found).problem.code == "binding_conflict"


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ({"type_": "poisson", "rate": 4.0}, ("open", 4.0, None)),
        ({"type_": "concurrent", "streams": 8}, ("closed", None, 8)),
        ({"type_": "throughput", "max_concurrency": 512}, ("closed", None, 512)),
        ({"type_": "synchronous"}, ("closed", None, 1)),
        ({"type_": "sweep"}, "schema_unknown"),
    ],
)
def test_the_load_model_follows_from_the_strategy(read, report, strategy, expected):
    found, benchmark = report()
    benchmark["config"]["strategy"] = strategy
    item = read("guidellm", "0.8.1", primary=found)
    load = (item.record.load_model, item.record.rate, item.record.concurrency) if item.record else item.problem.code
    assert load == expected


def test_requests_that_left_late_make_the_client_the_pace(read, report):
    found, benchmark = report()
    for one in benchmark["requests"]["successful"]:
        one["info"]["timings"]["targeted_start"] -= 1.0
    assert "late" in read("guidellm", "0.8.1", primary=found).record.saturation
    assert read("guidellm", "0.8.1", primary="0.8.1_fail15pct.json").record.saturation == ""


def test_an_impossible_time_to_first_token_is_refused(read, report):
    """vllm-project/guidellm#216: -1.7e12 ms."""
    found, benchmark = report()
    benchmark["metrics"]["time_to_first_token_ms"]["successful"] |= {"mean": -1.7e12, "total_sum": -1.7e12 * 82}
    assert read("guidellm", "0.8.1", primary=found).problem.code == "bad_value"
    found, benchmark = report()
    benchmark["requests"]["successful"][3]["info"]["timings"]["first_token_iteration"] = 0.5
    assert read("guidellm", "0.8.1", primary=found).problem.code == "bad_value"


@pytest.mark.parametrize(
    ("key", "value", "code"),
    [("mean", 60.0, "inconsistent"), ("total_sum", "4615", "bad_value"), ("percentiles", {}, "bad_value")],
)
def test_a_distribution_that_contradicts_itself_is_refused(read, report, key, value, code):
    found, benchmark = report()
    benchmark["metrics"]["time_to_first_token_ms"]["successful"][key] = value
    assert read("guidellm", "0.8.1", primary=found).problem.code == code


def test_what_the_file_knows_of_its_own_measurement(samples):
    primary = (samples / "guidellm/0.8.1_fail15pct.json").read_bytes()
    assert stated({"primary": primary}) == Stated("0.8.1", "2026-11-30T04:00:42Z", "2026-11-30T04:00:54Z")
    assert stated({"primary": b"[]"}) == Stated()
