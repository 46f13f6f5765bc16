"""Benchmark Report 0.2: the same run as the tool's own file, every figure by its unit."""

import pytest

from tests.guard.evidence.readers.offering import SAMPLES, decision, judged, offer

REPORT = "ip0.7.0_benchmark_report_v0.2.1_stage_1.yaml"
WINDOW = {"window": {"started_at": "2026-11-30T03:56:00Z", "ended_at": "2026-11-30T03:58:00Z"}}


def read(folder, primary=REPORT, kind="benchmark", **more):
    return offer(folder, "llm-d", kind, {"primary": primary}, tool_version="0.2.1", envelope=WINDOW, **more)


def edited(*replacements):
    text = (SAMPLES / "llm-d" / REPORT).read_text()
    for old, new in replacements:
        assert old in text
        text = text.replace(old, new)
    return text.encode()


def test_report_and_lifecycle_of_one_run_agree(folder):
    report = read(folder).record
    stage = offer(
        folder, "inference-perf", "benchmark", {"primary": "ip0.7.0_stage_1_lifecycle_metrics.json"}, role="baseline"
    ).record
    assert (report.attempted, report.failed) == (stage.attempted, stage.failed) == (96, 14)
    assert report.latencies == stage.latencies
    assert (report.in_tokens, report.out_tokens) == (stage.in_tokens, stage.out_tokens)
    assert report.out_tokens_per_s == stage.out_tokens_per_s


def test_the_load_model_is_not_in_the_report(folder):
    record = read(folder).record
    assert (record.load_model, record.rate, record.concurrency) == ("", None, None)


def test_14_of_96_failures_are_rejected(folder):
    read(folder)
    found = decision(folder, "id: benchmark.error_fraction, limit: 0.01")
    assert found.verdict == "reject"
    assert judged(found, "benchmark.error_fraction")[0] == "fail"


def test_a_run_that_failed_throughout_is_rejected(folder):
    record = read(folder, edited(("failures: 14", "failures: 96"))).record
    assert (record.attempted, record.failed, record.latencies) == (96, 96, {})
    assert decision(folder, "id: benchmark.error_fraction, limit: 0.9").verdict == "reject"


def test_milliseconds_are_read_by_their_unit(folder):
    block = "units: s\n          mean: 0.053315007573168836\n"
    record = read(folder, edited((block, "units: ms\n          mean: 53.315007573168836\n"))).record
    assert record.latencies["ttft_s"].mean == pytest.approx(0.053315007573168836)
    assert record.latencies["ttft_s"].quantiles[0.5] == 0.05202920799990807 / 1000


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("version: 0.2.1", "version: 0.3.0", "version_unknown"),
        ("version: 0.2.1", "version: 2", "version_unknown"),
        ("units: s\n", "units: us\n", "unit_suspect"),
        ("units: count", "units: words", "unit_suspect"),
        ("units: tokens/s", "units: tokens/min", "unit_suspect"),
        ("results:", "outcome:", "schema_unknown"),
        ("failures: 14", "failures: 97", "counters_disagree"),
        ("failures: 14", "failures: .nan", "non_finite"),
        ("failures: 14", "failures: 0o16", "bad_value"),
        ("failures: 14", "failures: 14\n        failures: 0", "duplicate_key"),
        ("failures: 14", "failures: !!python/object/apply:os.system [id]", "not_json"),
        ("failures: 14", "failures: &a 14", "bomb"),
        ("03:56:37.818902Z", "03:56:37.818902", "clock"),
        ("2026-11-30T03:56:37.818902Z", "2026-11-29T03:56:37Z", "inconsistent"),
    ],
)
def test_what_is_not_known_by_name_is_refused(folder, old, new, code):
    assert read(folder, edited((old, new))).problem.code == code


def test_the_envelope_s_version_must_be_known_too(folder):
    piece = offer(folder, "llm-d", "benchmark", {"primary": REPORT}, tool_version="0.3.0", envelope=WINDOW)
    assert piece.problem.code == "version_unknown"


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_half_a_report_is_still_yaml_and_is_refused(folder, share):
    data = (SAMPLES / "llm-d" / REPORT).read_bytes()
    cut = data[: int(share * len(data))]
    assert read(folder, cut).problem is not None
    assert read(folder, cut[: cut.rindex(b"\n") + 1]).problem is not None
