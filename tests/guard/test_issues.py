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


def test_a_wider_spread_around_the_same_median_is_a_regression(folder):
    """spinnaker/kayenta#780: a rise of the variance passes."""
    steady = folder.seconds(1000, seed=1)
    middle = sorted(steady)[500]
    folder.benchmark("baseline", steady)
    folder.benchmark("candidate", [middle * (one / middle) ** 2 for one in folder.seconds(1000, seed=2)])
    assert folder.decide(policy=LATENCY).verdict == "reject"


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


def policy_of(*rules, required="[reliability]"):
    lines = "".join(f"  - {{id: {rule}}}\n" for rule in rules)
    return f"schema: infercrane.policy/v1\nrequired_kinds: {required}\nrules:\n{lines}"


def test_a_tool_that_says_it_succeeded_is_judged_by_what_it_measured(folder):
    """argoproj/argo-rollouts#4393: the job failed, the run succeeded; NVIDIA/TensorRT-LLM#17427: exit 0 on 500s."""
    folder.reliability(lines=lambda lines: [line.update(outcome="http_error") for line in lines[:60]])
    assert folder.decide(policy=policy_of("reliability.error_fraction")).verdict == "reject"


@pytest.mark.parametrize(("failed", "code", "verdict"), [(60, 0, "reject"), (0, 1, "promote"), (0, 0, "promote")])
def test_what_a_tool_ended_with_is_recorded_and_decides_nothing(folder, failed, code, verdict):
    """argoproj/argo-rollouts#4393 again: neither is a failed run made good by it, nor a good one spoilt."""
    folder.reliability(failed=failed, change=lambda envelope: envelope["files"][0].update(exit_code=code))
    decision = folder.decide(policy=policy_of("reliability.error_fraction"))
    assert (decision.verdict, decision.record["evidence"][0]["exit_code"]) == (verdict, code)


def test_a_soak_that_was_killed_is_not_a_calm_one(folder):
    """argoproj/argo-rollouts#1329: a killed run counts as Successful."""
    folder.reliability(lines=lambda lines: lines.__delitem__(slice(300, None)))
    decision = folder.decide(policy=policy_of("reliability.crashes"))
    assert decision.reasons == ("reliability: truncated: 300 of 600 planned requests are in the file",)


def test_failures_that_are_not_consecutive_count(folder):
    """argoproj/argo-rollouts: errors that are not consecutive never fail."""
    folder.reliability(n=2000, lines=lambda lines: [line.update(outcome="http_error") for line in lines[::100]])
    assert folder.decide(policy=policy_of("reliability.error_fraction")).verdict == "reject"


def test_a_metric_nobody_measured_is_no_zero(folder):
    """fluxcd/flagger#1098, spinnaker/kayenta: no data is 0, or passes."""
    folder.reliability(header={"ghost_replicas": None, "cold_starts_s": None, "rollback_drill_s": None, "drain": None})
    names = ("ghost_replicas", "cold_start_p95, limit: 60", "rollback_drill", "cut_streams")
    decision = folder.decide(policy=policy_of(*(f"reliability.{name}" for name in names)))
    assert decision.verdict == "insufficient_evidence"
    assert {tuple(rule["reasons"]) for rule in decision.record["rules"]} == {("no_evidence",)}


def test_a_cheaper_run_of_failures_is_not_cheaper(folder):
    """promptfoo: cost 0 for what was not priced; LiteLLM: failures cost nothing."""
    folder.cost("baseline")
    folder.cost("candidate", price=0)
    rule = policy_of("cost.per_million_output_tokens", required="[cost]")
    assert folder.decide(policy=rule).record["first_reason"] == "cost: cost_incomplete"
    folder.cost("candidate", price=1.5, lines=lambda lines: [line.update(outcome="http_error") for line in lines[:75]])
    assert folder.decide(policy=rule).verdict == "reject"


def test_more_throughput_at_another_load_is_not_cheaper(folder):
    """ai-dynamo/aiperf: 2.5 times the throughput at 48 times the concurrency, with 96 % of the objectives missed."""
    folder.cost("baseline")
    folder.cost("candidate", price=0.8, change=lambda e: e["scenario"].update(concurrency=96))
    decision = folder.decide(policy=policy_of("cost.per_million_output_tokens", required="[cost]"))
    assert decision.record["first_reason"] == "cost.per_million_output_tokens: not_comparable"


def test_switching_the_runtime_is_a_change_not_an_obstacle(folder, subject_of):
    """infercrane: a change of runtime or its version was rejected as incompatible."""
    engine = {"name": "sglang", "version": "0.5", "args_digest": "sha256:" + "7" * 64}
    folder.subjects["candidate"] = subject_of("r1", engine=engine)
    rules = ("benchmark.error_fraction, limit: 0.05", "quality.basics, margin: 0.05, min_pass: 60")
    others = ("reliability.crashes", "replay.new_error_fraction", "cost.per_good_request")
    decision = folder.every_kind().decide(policy=policy_of(*rules, *others, required="by_change"))
    assert (decision.verdict, decision.record["change_classes"]) == ("promote", ["runtime"])


def test_the_best_of_several_tries_is_not_the_result(folder):
    """Latest wins: five tries at 5 % each promote wrongly 22.6 % of the time."""
    for number, failed in enumerate((12, 0, 0), start=1):
        folder.reliability(
            name=f"try-{number}", failed=failed, lines=lambda lines, number=number: lines[0].update(e2e_s=number)
        )
    assert folder.decide(policy=policy_of("reliability.error_fraction")).verdict == "reject"


def test_all_evidence_inadmissible_names_every_kind(folder):
    """argoproj/argo-rollouts#4479, for five kinds at once."""
    folder.every_kind()
    for path in folder.root.glob("*.jsonl"):
        path.write_text("")
    rules = (
        "benchmark.error_fraction",
        "quality.basics",
        "reliability.crashes",
        "replay.refused",
        "cost.per_good_request",
    )
    decision = folder.decide(policy=policy_of(*rules, required="by_change"))
    assert decision.verdict == "insufficient_evidence"
    assert [line.split(": ")[1] for line in decision.reasons] == ["tampered"] * 5
