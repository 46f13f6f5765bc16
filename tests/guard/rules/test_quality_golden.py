"""Golden cases 23 to 31: real files of real tools, through envelope, admission and rule, to their known figures."""

import json

import pytest

from pulumi_infercrane.guard import statistics

POLICY = "schema: infercrane.policy/v1\nrequired_kinds: [quality]\nrules:\n  - {id: RULE, min_pass: 30}\n"


@pytest.fixture
def case(folder, samples):
    """`case(tool, version, rule, base, cand, **envelope)`: the record of one rule; files are named below `samples`."""

    def judge(tool, version, rule, base, cand, edit=None, **envelope):
        for role, parts in (("baseline", base), ("candidate", cand)):
            raw = {part: (samples / tool / name).read_bytes() for part, name in parts.items()}
            if edit:
                raw["primary"] = json.dumps(edit(json.loads(raw["primary"]))).encode()
            select = envelope.get("select")
            given = envelope | {"select": select(role) if callable(select) else select}
            folder.measured(role, tool, version, raw, **({"kind": "quality"} | given))
        (record,) = folder.decide(policy=POLICY.replace("RULE", rule)).record["rules"]
        return record

    return judge


def gen(side):
    return {"primary": f"{side}_results.json", "samples": f"{side}_samples_gen.jsonl"}


# Public pairs of one model on one accelerator: items lost and gained, n, and the exact McNemar p their authors print.
PAIRS = [
    ("gsm8k", 1209, 2, 10, 0.03857421875, 0.17),
    ("gsm8k", 1209, 4, 4, 1.0, -0.41),
    ("gsm8k", 1209, 4, 9, 0.266845703125, -0.10),
    ("gsm8k", 1209, 3, 5, 0.7265625, -0.24),
    ("ifeval", 541, 6, 11, 0.332305908203125, -0.36),
    ("ifeval", 541, 11, 12, 1.0, -1.30),
    ("ifeval", 541, 11, 15, 0.557197093963623, -0.84),
    ("ifeval", 541, 1, 0, 1.0, -0.61),
]


@pytest.mark.parametrize(("task", "n", "lost", "gained", "mcnemar_p", "lower_pp"), PAIRS)
def test_23_eight_public_pairs_pass(folder, task, n, lost, gained, mcnemar_p, lower_pp):
    base = [1.0] * (n - gained) + [0.0] * gained
    folder.quality("baseline", base)
    folder.quality("candidate", [0.0] * lost + [1.0] * (n - lost))
    margin = {"gsm8k": 0.01, "ifeval": 0.02}[task]
    policy = POLICY.replace("RULE, min_pass: 30", f"quality.basics, margin: {margin}")
    (record,) = folder.decide(policy=policy).record["rules"]
    assert (record["outcome"], record["n"]) == ("pass", [n])
    assert 100 * record["lo"] == pytest.approx(lower_pp, abs=0.0051)
    assert statistics.paired_difference([-1.0] * lost + [1.0] * gained + [0.0] * (n - lost - gained)).mcnemar_p == (
        pytest.approx(mcnemar_p, abs=1e-12)
    )


def test_24_twelve_lost_of_sixty_fail(case):
    record = case("lm-eval", "0.4.13", "quality.guard_gen", gen("base"), gen("cand"), select={"task": "guard_gen"})
    assert (record["outcome"], record["reasons"]) == ("fail", ["margin_exceeded"])
    assert record["detail"].endswith("12 lost / 0 gained of 60")
    figures = [round(100 * record[name], 2) for name in ("estimate", "lo", "hi")]
    assert figures == [-19.35, -28.02, -10.69]


def test_24_the_share_of_invalid_answers_fails_too(case):
    record = case(
        "lm-eval", "0.4.13", "quality.guard_gen.invalid", gen("base"), gen("cand"), select={"task": "guard_gen"}
    )
    assert record["outcome"] == "fail"
    assert record["detail"].endswith("17 more / 0 fewer of 60")


def test_25_log_probabilities_that_all_tie_prove_nothing(case):
    parts = {side: {"primary": f"{side}_results.json", "samples": "both_samples_mc.jsonl"} for side in ("base", "cand")}
    select = {"task": "guard_mc", "metric": "acc"}
    record = case("lm-eval", "0.4.13", "quality.guard_mc", parts["base"], parts["cand"], select=select)
    assert (record["outcome"], record["reasons"]) == ("unknown", ["degenerate"])
    assert (record["estimate"], record["n"]) == (0.0, [120])  # it would have been a false pass


def test_26_a_run_limited_to_one_item_is_truncated(case):
    limited = {"primary": "limit1_results.json"}
    record = case("lm-eval", "0.4.13", "quality.guard_gen", limited, limited)
    assert (record["outcome"], record["reasons"]) == ("unknown", ["truncated"])
    assert record["detail"] == "1 of the task's 60 items were asked; run it without a limit"


def test_27_the_layout_of_2022_is_compared_unpaired_and_stays_unknown(folder):
    for role, value, stderr in (
        ("baseline", 0.4121160409556314, 0.014383915302225398),
        ("candidate", 0.4104095563139932, 0.014374922192642663),
    ):
        figures = {"acc": value, "acc_stderr": stderr}
        document = {"results": {"arc_challenge": {"2022-07-07-20-49-53": figures}}, "versions": {"arc_challenge": 0}}
        folder.measured(role, "lm-eval", "0.2.0", {"primary": json.dumps(document).encode()}, kind="quality")
    (record,) = folder.decide(policy=POLICY.replace("RULE, min_pass: 30", "quality.arc_challenge")).record["rules"]
    assert (record["outcome"], record["reasons"], record["method"]) == ("unknown", ["interval_straddles"], "unpaired")
    assert record["n"] == [1172, 1172]


def test_28_seven_lost_of_forty_fail(case):
    base, cand = {"primary": "base.eval"}, {"primary": "cand.eval"}
    record = case("inspect-ai", "0.3.285", "quality.guard", base, cand)
    assert (record["outcome"], record["reasons"]) == ("fail", ["margin_exceeded"])
    assert record["detail"].endswith("7 lost / 0 gained of 40")
    assert [round(100 * record[name], 2) for name in ("estimate", "lo", "hi")] == [-16.67, -26.90, -6.43]


def test_28_the_dump_is_judged_like_the_archive(case):
    archive = case("inspect-ai", "0.3.285", "quality.guard", {"primary": "base.eval"}, {"primary": "cand.eval"})
    dump = case("inspect-ai", "0.3.285", "quality.guard", {"primary": "base.eval"}, {"primary": "cand_dump.json"})
    assert {**archive, "evidence": 0} == {**dump, "evidence": 0}


def test_29_a_cancelled_run_is_truncated(case):
    dump = {"primary": "cand_dump.json"}
    record = case("inspect-ai", "0.3.285", "quality.guard", dump, dump, edit=lambda log: log | {"status": "cancelled"})
    assert (record["outcome"], record["reasons"]) == ("unknown", ["truncated"])


def test_30_success_without_scores_has_no_scores(case):
    dump = {"primary": "cand_dump.json"}
    record = case(
        "inspect-ai", "0.3.285", "quality.guard", dump, dump, edit=lambda log: log | {"results": {"scores": []}}
    )
    assert (record["outcome"], record["reasons"]) == ("unknown", ["no_scores"])


def test_31_six_pairs_without_a_difference_are_too_few(case):
    both = {"primary": "out.json"}
    record = case(
        "promptfoo",
        "0.123.1",
        "quality.suite",
        both,
        both,
        select=lambda role: {"provider": role},
        scenario={"id": "suite"},
    )
    assert (record["outcome"], record["reasons"]) == ("unknown", ["insufficient_n"])
    assert record["detail"] == "6 of 30 pairs, no interval is formed below 30"
