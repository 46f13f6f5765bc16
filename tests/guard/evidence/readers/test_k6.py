"""k6: a rate whose passes are failures, thresholds that mean the opposite in two layouts."""

import pytest

from pulumi_infercrane.guard.evidence.readers.k6 import thresholds_held
from tests.guard.evidence.readers.offering import changed, decision, judged, offer, sample

SUMMARY, EXPORT = "k6_1.1.0_handleSummary.json", "k6_1.1.0_summary_export_legacy.json"


def read(folder, primary=SUMMARY, kind="benchmark"):
    return offer(folder, "k6", kind, {"primary": primary})


@pytest.mark.parametrize("name", [SUMMARY, EXPORT])
def test_k1_thresholds_read_the_same_in_both_layouts(name):
    metrics = sample("k6", name)["metrics"]
    assert thresholds_held(metrics["http_req_duration"]) == {"p(95)<500": True, "p(99)<50": False}


def test_k1_an_export_says_true_for_a_crossed_threshold():
    excerpt = {"avg": 355.2, "p(90)": 595, "p(95)": 654.3, "thresholds": {"p(90)<450": True, "p(95)<600": True}}
    assert thresholds_held(excerpt) == {"p(90)<450": False, "p(95)<600": False}


@pytest.mark.parametrize(("name", "value"), [(EXPORT, True), (SUMMARY, {"ok": False})], ids=["export", "handleSummary"])
def test_k1_a_threshold_that_contradicts_its_metric_is_inconsistent(folder, name, value):
    upside_down = changed(
        "k6", name, lambda d: d["metrics"]["http_req_duration"]["thresholds"].update({"p(95)<500": value})
    )
    assert read(folder, upside_down).problem.code == "inconsistent"


@pytest.mark.parametrize(("name", "failed", "attempted"), [(EXPORT, 54, 387), (SUMMARY, 51, 340)])
def test_k2_passes_of_the_failure_rate_are_failures(folder, name, failed, attempted):
    record = read(folder, name).record
    assert (record.failed, record.attempted) == (failed, attempted)
    found = decision(folder, "id: benchmark.error_fraction, limit: 0.01")
    assert (found.verdict, judged(found, "benchmark.error_fraction")[0]) == ("reject", "fail")


def test_k3_the_duration_of_an_export_is_requests_over_their_rate(folder):
    assert read(folder).record.duration_s == 12.041811799
    assert read(folder, EXPORT, "reliability").record.duration_s == pytest.approx(387 / 31.871011045875434)


@pytest.mark.parametrize(
    ("name", "mean", "mixed"), [(EXPORT, 84.96105751951951, 73.9), (SUMMARY, 87.63573222145331, 75.3)]
)
def test_k4_only_expected_responses_are_latencies(folder, name, mean, mixed):
    e2e = read(folder, name).record.latencies["e2e_s"]
    assert e2e.mean == mean / 1000 > mixed / 1000


def test_k4_without_the_tagged_metric_latency_is_unknown(folder):
    name = "http_req_duration{expected_response:true}"
    assert read(folder, changed("k6", SUMMARY, lambda d: d["metrics"].pop(name))).record.latencies == {}


@pytest.mark.parametrize(
    "document", [b'{"version": "2", "results": {}}', b'{"metrics": {}}', b'{"metrics": [1]}', b"[]"]
)
def test_k5_a_layout_that_is_not_known_is_refused(folder, document):
    assert read(folder, document).problem.code == "schema_unknown"


def test_reliability_is_what_failed_and_how_long(folder):
    record = read(folder, kind="reliability").record
    assert (record.attempted, record.failed, record.duration_s, record.crashes) == (340, 51, 12.041811799, None)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda m: m["http_req_failed"]["values"].update(passes=50), "counters_disagree"),
        (lambda m: m["http_req_failed"]["values"].update(passes=-1), "bad_value"),
        (lambda m: m["http_req_duration{expected_response:true}"]["values"].update(med=0), "bad_value"),
        (lambda m: m["http_req_duration{expected_response:true}"]["values"].update({"p(99)": 120309}), "unit_suspect"),
        (lambda m: m["http_req_failed"].pop("values"), "schema_unknown"),
        (lambda m: m["http_req_failed"].update(thresholds=[1]), "bad_value"),
        (lambda m: m["http_req_failed"].update(thresholds={"rate<0.01": 1}), "bad_value"),
    ],
)
def test_what_does_not_add_up_is_refused(folder, change, code):
    assert read(folder, changed("k6", SUMMARY, lambda d: change(d["metrics"]))).problem.code == code


def test_it_counts_no_tokens(folder):
    assert read(folder, kind="cost").problem.code == "tool_unknown"
