"""Output tokens per second of an accelerator: more is better, and only a closed loop measures it."""

from dataclasses import replace

import pytest

from pulumi_infercrane.guard import load_evidence

POLICY = """\
schema: infercrane.policy/v1
required_kinds: [benchmark]
rules: [{id: benchmark.out_tokens_per_s}]
"""


@pytest.fixture
def judged(folder, summary_run):
    """`judged(0.9)`: the candidate makes 0.9 times as many tokens."""

    def judge(share=1.0, change=lambda run: run, name="", envelope=None):
        for role, factor in (("baseline", 1.0), ("candidate", share)):
            run = change(summary_run(scale=1 / factor))
            folder.summary(role, run, name=f"{role}{name}", change=envelope)
        return folder.decide(policy=POLICY).record["rules"][0]

    return judge


@pytest.mark.parametrize(
    ("share", "outcome", "reason"),
    [
        (1.3, "pass", "within_margin"),
        (0.951, "pass", "within_margin"),
        (0.94, "unknown", "summary_only"),
        (0.81, "unknown", "summary_only"),
        (0.79, "fail", "margin_exceeded"),
    ],
)
def test_half_the_margin_passes_and_twice_the_margin_fails(judged, share, outcome, reason):
    record = judged(share)
    assert (record["outcome"], record["reasons"], record["class"]) == (outcome, [reason], "S")
    assert (record["estimate"], record["limit"]) == (pytest.approx(share), 0.9)


def test_an_open_loop_measures_the_traffic(judged):
    record = judged(change=lambda run: run | {"request_rate": 15.0})
    assert (record["outcome"], record["reasons"]) == ("unknown", ["not_comparable"])


def test_it_is_of_one_accelerator(folder, judged):
    folder.subjects["candidate"]["accelerator"]["count"] = 2
    folder.reseal()
    assert judged(1.0)["outcome"] == "fail"


def test_three_runs_in_pairs_give_an_interval(folder, judged):
    for ordinal, share in enumerate((0.95, 0.96, 0.97), start=1):
        place = {"group": "g", "ordinal": ordinal, "of": 3}
        record = judged(
            share,
            name=str(ordinal),
            envelope=lambda envelope, place=place: envelope.update(run=place),
        )
    assert (record["outcome"], record["method"]) == ("pass", "repeated_runs")
    assert record["lo"] > 0.9


def test_tokens_in_doubt_are_not_judged(folder, samples):
    """S4: the tool counted 997 tokens again where the server had counted 597."""
    lines = (samples / "sglang-bench/two_runs_failing.jsonl").read_bytes().splitlines()
    for role, line in zip(("baseline", "candidate"), lines, strict=True):
        folder.measured(role, "sglang-bench", "0.5.23", {"primary": line}, planned=48)
    policy = POLICY.replace("rules:", "min_duration_s: 0\nrules:").replace("}]", "}, {id: benchmark.tpot_p50}]")
    rules = folder.decide(policy=policy).record["rules"]
    assert [rule["reasons"] for rule in rules] == [["counters_disagree"]] * 2


def test_a_file_without_it_is_no_evidence(judged):
    record = judged(change=lambda run: run | {"output_throughput": 0.0})
    assert (record["outcome"], record["reasons"]) == ("unknown", ["no_evidence"])


@pytest.fixture
def recorded(folder, summary_run):
    """`recorded(load_model="")`: the rule's record when the reader had found these figures on both sides."""

    def judge(declared="closed", **figures):
        for role, n in (("baseline", 2000), ("candidate", 2001)):
            folder.summary(role, summary_run(n), change=lambda e: e["scenario"].update(load_model=declared))
        found = load_evidence(folder.root)
        items = tuple(replace(item, record=replace(item.record, **figures)) for item in found.items)
        return folder.decide(policy=POLICY, evidence=replace(found, items=items)).record["rules"][0]

    return judge


def test_where_the_file_does_not_say_it_the_envelope_says_which_loop_it_was(recorded):
    assert recorded(load_model="")["outcome"] == "pass"


def test_the_file_knows_better_than_the_envelope(recorded):
    assert recorded(declared="closed", load_model="open")["reasons"] == ["not_comparable"]


def test_nothing_written_is_no_evidence(recorded):
    assert recorded(out_tokens_per_s=None)["reasons"] == ["no_evidence"]
