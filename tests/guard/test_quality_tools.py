"""Files of every quality tool drive whole decisions: through envelope, folder, admission, rules and record."""

import copy
import json

import pytest

POLICY = """\
schema: infercrane.policy/v1
required_kinds: [KIND]
min_duration_s: 0
rules:
  - {id: RULE}
"""


@pytest.fixture
def decision(folder):
    """`decision(tool, version, rule, base, cand, **envelope)` on the bytes or documents of both sides."""

    def decide(tool, version, rule, base, cand, **envelope):
        for role, parts in (("baseline", base), ("candidate", cand)):
            raw = {part: data if isinstance(data, bytes) else json.dumps(data).encode() for part, data in parts.items()}
            select = envelope.get("select")
            given = {"kind": "quality"} | envelope | {"select": select(role) if callable(select) else select}
            folder.measured(role, tool, version, raw, **given)
        kind = rule.partition(".")[0]
        return folder.decide(policy=POLICY.replace("RULE", rule).replace("KIND", kind))

    return decide


def lm_eval(samples, side):
    folder = samples / "lm-eval"
    return {
        "primary": (folder / f"{side}_results.json").read_bytes(),
        "samples": (folder / f"{side}_samples_gen.jsonl").read_bytes(),
    }


def test_lm_eval_rejects_a_candidate_that_garbles(decision, samples):
    made = decision(
        "lm-eval",
        "0.4.13",
        "quality.guard_gen",
        lm_eval(samples, "base"),
        lm_eval(samples, "cand"),
        select={"task": "guard_gen"},
    )
    assert (made.verdict, made.action) == ("reject", "keep")
    assert made.reasons[0].startswith("quality.guard_gen: margin_exceeded: difference -0.194 [-0.28, -0.107]")


def test_lm_eval_asks_for_more_pairs_of_an_equal_candidate(decision, samples):
    base = lm_eval(samples, "base")
    lines = [json.loads(line) for line in base["samples"].splitlines()]
    worded = [line | {"resps": [[f"{line['resps'][0][0]} {line['doc_id']}"]]} for line in lines]
    base["samples"] = "".join(json.dumps(line) + "\n" for line in worded).encode()
    again = base | {"primary": base["primary"] + b"\n"}
    made = decision("lm-eval", "0.4.13", "quality.guard_gen", base, again, select={"task": "guard_gen"})
    assert made.verdict == "insufficient_evidence"
    assert "about 323 more pairs needed" in made.reasons[0]  # as if one of 60 had changed


def test_lm_eval_two_tasks_of_one_results_file_are_both_judged(folder, samples):
    primary = {side: (samples / "lm-eval" / f"{side}_results.json").read_bytes() for side in ("base", "cand")}
    for role, side in (("baseline", "base"), ("candidate", "cand")):
        for task, metric in (("guard_gen", "exact_match"), ("guard_mc", "acc")):
            select = {"task": task, "metric": metric}
            folder.measured(
                role, "lm-eval", "0.4.13", {"primary": primary[side]}, "quality", select=select, name=f"{role}-{task}"
            )
    rules = "rules: [{id: quality.guard_gen}, {id: quality.guard_mc}, {id: quality.mean}]"
    made = folder.decide(policy=POLICY.replace("KIND", "quality").replace("rules:\n  - {id: RULE}", rules))
    assert all(piece["used"] for piece in made.record["evidence"])
    assert {record["rule"]: record["outcome"] for record in made.record["rules"]} == {
        "quality.guard_gen": "fail",  # 0.67 against 0.47 is enough even without pairs
        "quality.guard_mc": "unknown",
        "quality.mean": "unknown",
    }


def test_one_task_offered_for_two_revisions_counts_for_neither(folder, samples):
    primary = {"primary": (samples / "lm-eval" / "base_results.json").read_bytes()}
    for role in ("baseline", "candidate"):
        folder.measured(role, "lm-eval", "0.4.13", primary, "quality", select={"task": "guard_gen"})
    made = folder.decide(policy=POLICY.replace("KIND", "quality").replace("RULE", "quality.guard_gen"))
    assert "binding_conflict: the same file is offered for two revisions" in made.reasons[0]


def test_one_task_wrapped_twice_counts_once(folder, samples):
    primary = {"primary": (samples / "lm-eval" / "cand_results.json").read_bytes()}
    for name, select in (("one", {"task": "guard_gen"}), ("two", {"task": "guard_gen", "filter": "strict"})):
        folder.measured("candidate", "lm-eval", "0.4.13", primary, "quality", select=select, name=name)
    made = folder.decide(policy=POLICY.replace("KIND", "quality").replace("RULE", "quality.guard_gen"))
    assert sorted(piece["used"] for piece in made.record["evidence"]) == [False, True]


def test_inspect_rejects_from_archives(decision, samples):
    parts = {side: {"primary": (samples / "inspect-ai" / f"{side}.eval").read_bytes()} for side in ("base", "cand")}
    made = decision("inspect-ai", "0.3.285", "quality.guard.includes", parts["base"], parts["cand"])
    assert made.verdict == "reject"
    assert made.reasons[0].endswith("7 lost / 0 gained of 40")


def widened(samples, tests):
    """The promptfoo sample with every test repeated under new numbers, as a suite of that many."""
    document = json.loads((samples / "promptfoo" / "out.json").read_bytes())
    results = document["results"]
    rows = results["results"]
    times = tests // 6
    results["results"] = [
        row | {"testIdx": row["testIdx"] + 6 * turn} for turn in range(times) for row in copy.deepcopy(rows)
    ]
    results["stats"].update(successes=10 * times, failures=2 * times)
    for column in results["prompts"]:
        column["metrics"].update(testPassCount=5 * times, testFailCount=times)
    return document


def test_promptfoo_promotes_from_one_file_with_both_columns(decision, samples):
    document = widened(samples, 300)
    for index, row in enumerate(document["results"]["results"]):
        row["response"]["output"] += f" {index}"
    both = {"primary": document}
    made = decision(
        "promptfoo",
        "0.123.1",
        "quality.suite.pass",
        both,
        both,
        select=lambda role: {"provider": role},
        scenario={"id": "suite"},
    )
    assert (made.verdict, made.action) == ("promote", "flip")


def go(samples, name, edit=None):
    document = json.loads((samples / "infercrane-go" / f"{name}.json").read_bytes())
    if edit:
        edit(document)
    return {"primary": document}


def imported(name):
    declared = {"source": f"infercrane-go/{name}", "binding": "declared_by_importer"}
    return lambda envelope: envelope.update(declared)


def test_a_go_evaluator_result_rejects(decision, samples):
    def worse(document):
        document["score"] = 0.5
        document["distribution"]["scores"] = [1.0] * 30 + [0.0] * 30

    made = decision(
        "infercrane-go",
        "1.4.0",
        "quality.support-answers",
        go(samples, "evaluator-result"),
        go(samples, "evaluator-result", worse),
        change=imported("evaluator-result"),
    )
    assert made.verdict == "reject"
    assert made.reasons[0].endswith("24 lost / 0 gained of 60")


def test_a_go_result_of_three_items_is_insufficient(decision, samples):
    def three(document):
        document["sample_count"] = 3
        document["distribution"]["scores"] = [1.0, 0.5, 1.0]

    sides = [go(samples, "evaluator-result", three) for _ in range(2)]
    sides[1]["primary"]["passed"] = False
    made = decision("infercrane-go", "1.4.0", "quality.support-answers", *sides, change=imported("evaluator-result"))
    assert made.verdict == "insufficient_evidence"
    assert "insufficient_n: 3 of 300 pairs" in made.reasons[0]


def test_go_results_with_other_pairings_are_not_paired(decision, samples):
    def others(document):
        document["distribution"]["pairing_digest"] = "sha256:" + "e" * 64

    made = decision(
        "infercrane-go",
        "1.4.0",
        "quality.support-answers",
        go(samples, "evaluator-result"),
        go(samples, "evaluator-result", others),
        change=imported("evaluator-result"),
    )
    assert "not_comparable" in made.reasons[0]


@pytest.mark.parametrize("name", ["aiperf-row", "passport"])
def test_a_go_row_rejects_by_its_failures(folder, samples, name):
    def failing(document):
        text = json.loads(json.dumps(document))
        row = text if name == "aiperf-row" else json.loads(text["payload"])["benchmarks"][0]
        row.update(succeeded=80, failed=20)
        document.clear()
        document.update(row)

    folder.measured(
        "candidate",
        "infercrane-go",
        "0.11.0",
        {"primary": json.dumps(go(samples, name, failing)["primary"]).encode()},
        change=imported("aiperf-row"),
    )
    made = folder.decide(policy=POLICY.replace("KIND", "benchmark").replace("RULE", "benchmark.error_fraction"))
    assert made.verdict == "reject"
    assert made.reasons[0].endswith("20 of 100 requests; by code: unnamed (20)")
