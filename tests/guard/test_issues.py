"""Faults that users of other release gates reported; each is a thing this guard must not do."""

import pytest

ERRORS = "schema: infercrane.policy/v1\nrequired_kinds: [benchmark]\nrules: [{id: benchmark.error_fraction}]\n"
LATENCY = "schema: infercrane.policy/v1\nrequired_kinds: [benchmark]\nrules: [{id: benchmark.ttft_p95}]\n"


def test_all_measurements_erroneous_is_not_success(folder):
    """argoproj/argo-rollouts#4479: run Successful although every measurement is Error."""
    folder.benchmark("candidate", lines=lambda lines: [line.update(ttft_s="N/A") for line in lines])
    folder.quality("candidate", lines=lambda lines: [line.update(score=None) for line in lines])
    decision = folder.decide()
    assert decision.verdict == "insufficient_evidence"
    assert [line.split(": ")[:2] for line in decision.reasons] == [["benchmark", "bad_value"], ["quality", "bad_value"]]


def test_all_requests_failed_is_a_rejection(folder):
    """argoproj/argo-rollouts#2026: all failed, run Successful."""
    folder.benchmark("candidate", folder.seconds(60), failed=60)
    assert folder.decide(policy=ERRORS).verdict == "reject"


def test_a_run_terminated_before_its_first_measurement_is_not_success(folder):
    """argoproj/argo-rollouts#1329: a terminated metric counts as Successful."""
    folder.benchmark("candidate", folder.seconds(300), lines=lambda lines: lines.clear())
    decision = folder.decide(policy=ERRORS)
    assert decision.verdict == "insufficient_evidence"
    assert decision.reasons[0] == "benchmark: truncated: 0 of 300 planned requests are in the file"


@pytest.mark.parametrize("n", [5, 20])
def test_a_small_sample_with_a_large_shift_never_passes(folder, n):
    """spinnaker/kayenta#426: sparse or 70 % regressed data pass until the eighth point."""
    folder.benchmark("baseline", folder.seconds(n, seed=1))
    folder.benchmark("candidate", folder.seconds(n, seed=2, scale=1.7))
    assert folder.decide(policy=LATENCY).verdict == "insufficient_evidence"


def test_every_rule_says_why(folder):
    """spinnaker/kayenta#521: no way to explain why a metric failed."""
    folder.both().quality("candidate", [0.0] * 60)
    for rule in folder.decide().record["rules"]:
        assert {"estimate", "lo", "hi", "limit", "n", "outcome", "reasons", "detail"} <= rule.keys()


def test_an_impossible_latency_is_refused(folder):
    """vllm-project/guidellm#216: TTFT of -1.7e12 ms."""
    folder.benchmark("candidate", lines=lambda lines: lines[7].update(ttft_s=-1.7e9))
    assert folder.decide(policy=ERRORS).reasons[0].startswith("benchmark: bad_value: 1 of 150")


def test_failed_requests_do_not_improve_the_latency(folder):
    """vllm-project/guidellm#444: failed requests change TTFT."""
    slow_last = sorted(folder.seconds(400, seed=1))
    folder.benchmark("baseline", slow_last)
    folder.benchmark("candidate", slow_last, failed=40)
    policy = LATENCY.replace("ttft_p95", "ttft_p95, min_pass: 400")
    assert folder.decide(policy=policy).verdict == "reject"


def test_one_success_of_five_hundred_is_not_a_result(folder):
    """vllm-project/vllm#26478: one success of 500 looks like a result."""
    folder.benchmark("baseline", folder.seconds(500, seed=1))
    folder.benchmark("candidate", folder.seconds(500, seed=1), failed=499)
    assert folder.decide(policy=ERRORS).verdict == "reject"
    assert folder.decide(policy=LATENCY.replace("ttft_p95", "ttft_p50")).verdict == "reject"


def test_another_version_of_the_tool_is_not_compared(folder, monkeypatch):
    """vllm-project/guidellm#470: two tools disagree by 6 % about one server."""
    monkeypatch.setattr("pulumi_infercrane.guard.evidence.readers.infercrane.VERSIONS", ("0.1", "0.2"))
    folder.benchmark("baseline", folder.seconds(400))
    folder.benchmark("candidate", folder.seconds(400), change=lambda e: e["files"][0].update(tool_version="0.2"))
    folder.quality("baseline")
    folder.quality("candidate", change=lambda e: e["files"][0].update(tool_version="0.2.1"))
    policy = LATENCY.replace("[benchmark]", "[benchmark, quality]").replace("}]", "}, {id: quality.basics}]")
    assert [rule["reasons"] for rule in folder.decide(policy=policy).record["rules"]] == [["version_mismatch"]] * 2


def test_requests_left_out_of_the_file_are_missed(folder):
    """SemiAnalysisAI/InferenceX#1393, sgl-project/sglang#2805: success = total by dropping the errors."""
    folder.benchmark("candidate", folder.seconds(300), lines=lambda lines: lines.__delitem__(slice(0, 100)))
    assert folder.decide(policy=ERRORS).reasons[0].startswith("benchmark: truncated: 200 of 300")


def test_errors_do_not_vanish_from_the_pass_rate(folder):
    """promptfoo/promptfoo#335: errors vanish from the pass rate."""
    folder.both()
    folder.quality("candidate", lines=lambda lines: [line.update(score=0, outcome="http_error") for line in lines[:30]])
    assert folder.decide().verdict == "reject"


def test_readiness_alone_is_no_evidence(folder):
    """kserve/kserve#3085: promotion on readiness alone."""
    folder.root.mkdir()
    (folder.root / "ready.json").write_text('{"ready": true}')
    assert folder.decide().verdict == "insufficient_evidence"
