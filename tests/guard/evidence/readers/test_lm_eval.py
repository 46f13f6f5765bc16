"""lm-eval files: one task, metric and filter at a time, paired by document; nothing that only looks like a score."""

import json
from collections.abc import Callable
from typing import Any

import pytest

TOOL, VERSION = "lm-eval", "0.4.13"
GEN = {"task": "guard_gen"}
MC = {"task": "guard_mc", "metric": "acc"}


@pytest.fixture
def files(samples) -> Callable[..., dict[str, bytes]]:
    """Results of a side, changed by `edit`, and its samples, changed line by line by `lines`."""

    def read(side: str, samples_of: str = "", edit: Any = None, lines: Any = None) -> dict[str, bytes]:
        document = json.loads((samples / "lm-eval" / f"{side}_results.json").read_bytes())
        if edit:
            edit(document)
        parts = {"primary": json.dumps(document).encode()}
        if samples_of:
            kept = [json.loads(line) for line in (samples / "lm-eval" / samples_of).read_bytes().splitlines()]
            if lines:
                lines(kept)
            parts["samples"] = "".join(json.dumps(line) + "\n" for line in kept).encode()
        return parts

    return read


@pytest.fixture
def gen(files, loaded) -> Callable[..., Any]:
    """The candidate's generation task with its samples."""
    return lambda **changes: loaded(TOOL, VERSION, files("cand", "cand_samples_gen.jsonl", **changes), select=GEN)


def test_a_task_becomes_answers_by_document(gen):
    record = gen().record
    assert (record.task, record.metric, record.attempted, record.planned) == ("guard_gen", "exact_match", 60, 60)
    assert sum(answer.score for answer in record.answers.values()) == 28
    assert record.summary.value == pytest.approx(0.466667, abs=1e-6)
    assert record.summary.stderr == pytest.approx(0.0649498, abs=1e-6)


def test_h1_a_standard_error_of_one_sample_is_not_a_number(files, loaded):
    item = loaded(TOOL, VERSION, files("limit1"))
    assert item.problem is None
    assert (item.record.summary.stderr, item.record.summary.n) == (None, 1)


@pytest.mark.parametrize(
    ("task", "value", "stderr", "of"),
    [
        ("arc_challenge", 0.4121160409556314, 0.014383915302225398, {"2022-07-07-20-49-53"}),
        ("axb+GPT-3 style", 0.4682971014492754, 0.015024758238656833, {"2022-07-07-15-13-10"}),
        ("boolq", 0.8024464831804281, 0.006963746631628737, set()),
    ],
)
def test_h2_the_layout_of_2022_has_bare_metrics_and_perhaps_a_level_of_dates(loaded, task, value, stderr, of):
    figures = {"acc": value, "acc_stderr": stderr, "prompt_name": "GPT-3 style"}
    dated = dict.fromkeys(of, figures) or figures
    raw = json.dumps({"results": {task: dated}, "versions": {task: 0}}).encode()
    record = loaded(TOOL, "0.2.0", {"primary": raw}).record
    assert (record.summary.value, record.summary.stderr, record.summary.n, record.answers) == (value, stderr, None, {})
    assert record.task == task.replace("+", "-").replace(" ", "-")


def test_h2_several_dates_need_one_to_be_selected(loaded):
    task = {date: {"acc": 0.5, "acc_stderr": 0.01} for date in ("2022-07-07", "2022-07-08")}
    raw = json.dumps({"results": {"wic": task}, "versions": {"wic": 0}}).encode()
    assert loaded(TOOL, "0.2.0", {"primary": raw}).problem.code == "ambiguous_run"
    assert loaded(TOOL, "0.2.0", {"primary": raw}, select={"date": "2022-07-08"}).record.summary.value == 0.5


def test_h2_a_limited_run_of_2022_is_truncated(loaded):
    raw = json.dumps({"results": {"wic": {"acc": 1.0}}, "versions": {"wic": 0}, "config": {"limit": 10}}).encode()
    assert str(loaded(TOOL, "0.3.0", {"primary": raw}).problem) == (
        "truncated: config.limit is 10: the run left documents out"
    )


def test_h3_choices_that_all_tie_are_told(files, loaded):
    item = loaded(TOOL, VERSION, files("cand", "both_samples_mc.jsonl"), select=MC)
    assert item.record.summary.value == 0.25
    assert item.record.constant == "all choices have the same log-probability in 120 of 120 items"


def test_h3_choices_that_differ_are_not(files, loaded):
    def spread(lines):
        for line in lines:
            line["resps"] = [[[str(-index / 2), "False"]] for index in range(4)]

    assert loaded(TOOL, VERSION, files("cand", "both_samples_mc.jsonl", lines=spread), select=MC).record.constant == ""


def test_h4_a_limited_run_knows_what_was_planned(files, loaded):
    record = loaded(TOOL, VERSION, files("limit1")).record
    assert (record.attempted, record.planned) == (1, 60)


def test_a_run_that_answered_nothing_throughout_scores_nothing(gen):
    """The tool has no word for a failed request: what it got is an empty answer."""

    def nothing(lines):
        for line in lines:
            line.update(resps=[[""]], filtered_resps=["[invalid]"], exact_match=0.0)

    def in_sum(results):
        results["results"]["guard_gen"].update({"exact_match,strict": 0.0, "exact_match_stderr,strict": 0.0})

    answers = gen(lines=nothing, edit=in_sum).record.answers.values()
    assert {(answer.score, answer.empty) for answer in answers} == {(0.0, True)}


def test_h5_what_no_filter_could_use_is_empty(gen, files, loaded):
    assert sum(answer.empty for answer in gen().record.answers.values()) == 17
    base = loaded(TOOL, VERSION, files("base", "base_samples_gen.jsonl"), select=GEN).record
    assert sum(answer.empty for answer in base.answers.values()) == 0


def test_h6_the_same_documents_have_one_digest_whatever_the_scores(gen, files, loaded):
    candidate = gen().record
    base = loaded(TOOL, VERSION, files("base", "base_samples_gen.jsonl"), select=GEN).record
    assert candidate.tasks_digest == base.tasks_digest
    assert candidate.prompts_digest == base.prompts_digest
    assert candidate.answers.keys() == base.answers.keys()


@pytest.mark.parametrize(
    "change",
    [
        lambda document: document["n-shot"].update(guard_gen=5),
        lambda document: document["versions"].update(guard_gen=3.0),
    ],
)
def test_h6_other_shots_or_another_version_are_another_task(gen, change):
    assert gen(edit=change).record.tasks_digest != gen().record.tasks_digest


def test_h6_other_prompts_have_another_digest_of_their_own(gen):
    def retemplate(lines):
        for line in lines:
            line["prompt_hash"] = "0" * 64

    def unhashed(document):
        del document["task_hashes"]

    other, same = gen(lines=retemplate, edit=unhashed).record, gen().record
    assert other.tasks_digest == same.tasks_digest
    assert other.prompts_digest != same.prompts_digest


def test_h7_of_several_filters_one_must_be_selected(files, loaded):
    def flexible(document):
        document["results"]["guard_gen"]["exact_match,flexible"] = 0.9

    parts = files("cand", "cand_samples_gen.jsonl", edit=flexible)
    problem = loaded(TOOL, VERSION, parts, select=GEN).problem
    assert str(problem) == ("ambiguous_run: 2 filters in one file (flexible, strict): say which with select.filter")
    assert loaded(TOOL, VERSION, parts, select=GEN | {"filter": "strict"}).record.attempted == 60


@pytest.mark.parametrize(
    ("select", "expected"),
    [
        ({}, "ambiguous_run: 2 tasks in one file (guard_gen, guard_mc): say which with select.task"),
        ({"task": "guard_mc"}, "ambiguous_run: 2 metrics in one file (acc, acc_norm): say which with select.metric"),
        ({"task": "gsm8k"}, "bad_value: select.task: 'gsm8k' is not in the file, which has guard_gen, guard_mc"),
        (GEN | {"index": 0}, "bad_value: select.index: this tool's files are told apart by task, metric, filter, date"),
    ],
)
def test_one_run_of_several_is_named(files, loaded, select, expected):
    assert str(loaded(TOOL, VERSION, files("cand"), select=select).problem) == expected


def test_a_metric_that_should_fall_is_turned_round(gen):
    def falls(document):
        document["higher_is_better"]["guard_gen"]["exact_match"] = False

    record = gen(edit=falls).record
    assert record.summary.value == pytest.approx(1 - 28 / 60)
    assert sum(answer.score for answer in record.answers.values()) == 32


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (lambda lines: lines.pop(), "counters_disagree: 59 samples, the results are over 60"),
        (lambda lines: lines.append(lines[0]), "counters_disagree: a document occurs twice in the samples file"),
        (lambda lines: lines.reverse(), "counters_disagree: the samples are not those behind task_hashes.guard_gen"),
        (
            lambda lines: lines[0].update(exact_match=1.0),
            "counters_disagree: the samples' mean 0.483333 is not the exact_match of the results",
        ),
        (lambda lines: lines[0].update(exact_match="1"), "bad_value: doc_id 0: score '1' is not a number from 0 to 1"),
        (lambda lines: lines[0].update(exact_match=7), "bad_value: doc_id 0: score 7 is not a number from 0 to 1"),
        (lambda lines: lines[0].pop("exact_match"), "bad_value: doc_id 0: there is no exact_match"),
        (lambda lines: lines[3].pop("doc_hash"), "bad_value: line 4: doc_hash is missing or not a text"),
        (
            lambda lines: [line.update(filter="other") for line in lines],
            "no_scores: the samples file has no line with filter 'strict'",
        ),
    ],
)
def test_samples_must_be_those_behind_the_results(gen, lines, expected):
    assert str(gen(lines=lines).problem).startswith(expected)


@pytest.mark.parametrize(
    ("edit", "code"),
    [
        (lambda document: document.pop("versions"), "schema_unknown"),
        (lambda document: document.update(results=[]), "schema_unknown"),
        (lambda document: document.update(lm_eval_version="0.4.9"), "binding_conflict"),
        (lambda document: document["results"].update(guard_gen={}), "no_scores"),
        (lambda document: document["results"]["guard_gen"].update({"exact_match,strict": 46.7}), "bad_value"),
        (lambda document: document["n-samples"]["guard_gen"].update(original="60"), "bad_value"),
        (lambda document: document["n-samples"]["guard_gen"].update(effective=-60), "bad_value"),
    ],
)
def test_a_wrong_results_file_is_refused(gen, edit, code):
    assert gen(edit=edit).problem.code == code


@pytest.mark.parametrize(("change", "code"), [({"kind": "benchmark"}, "tool_unknown"), ({}, "version_unknown")])
def test_another_kind_or_version_is_refused(files, loaded, change, code):
    version = VERSION if change else "0.5.0"
    assert loaded(TOOL, version, files("cand"), select=GEN, **change).problem.code == code
