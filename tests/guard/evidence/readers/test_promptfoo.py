"""promptfoo results: one prompt and provider at a time, every result counted, nothing taken from a cache."""

import json
from collections.abc import Callable
from typing import Any

import pytest

TOOL, VERSION = "promptfoo", "0.123.1"


@pytest.fixture
def read(samples, loaded) -> Callable[..., Any]:
    """The candidate's column of the sample, changed by `edit(results)`."""

    def load(edit: Any = None, **envelope: Any) -> Any:
        document = json.loads((samples / "promptfoo" / "out.json").read_bytes())
        if edit:
            edit(document["results"])
        given = {"select": {"provider": "candidate"}, "scenario": {"id": "guard suite"}} | envelope
        return loaded(TOOL, VERSION, {"primary": json.dumps(document).encode()}, **given)

    return load


def row(results: dict[str, Any], test: int) -> dict[str, Any]:
    found = results["results"]
    return next(one for one in found if (one["promptIdx"], one["testIdx"]) == (1, test))


def test_a_column_becomes_answers_by_test(read):
    record = read().record
    assert (record.task, record.metric, record.attempted) == ("guard-suite", "pass", 6)
    assert [answer.score for answer in record.answers.values()] == [1, 1, 0, 1, 1, 1]
    assert all(answer.cut for answer in record.answers.values())


def test_f1_results_in_another_order_are_the_same(read):
    assert read(lambda results: results["results"].reverse()).record == read().record


def test_f1_both_columns_pair_by_test(read):
    base = read(select={"provider": "baseline"}).record
    assert list(base.answers) == list(read().record.answers) == ["0", "1", "2", "3", "4", "5"]
    assert base.tasks_digest == read().record.tasks_digest


def test_f2_a_cost_of_0_is_no_evidence_of_cost(read):
    assert str(read(kind="cost").problem).startswith("tool_unknown: promptfoo measures quality")


def test_f3_errors_stay_in_the_denominator(read):
    def times_out(results):
        row(results, 0).update(success=False, score=0, failureReason=2, error="503", response={})
        results["stats"].update(successes=9, errors=1)
        results["prompts"][1]["metrics"].update(testPassCount=4, testErrorCount=1)

    record = read(times_out).record
    assert record.attempted == 6
    assert (record.answers["0"].score, record.answers["0"].ok, record.answers["0"].empty) == (0.0, False, True)
    assert sum(answer.score for answer in record.answers.values()) == 4


@pytest.mark.parametrize(
    "edit",
    [
        lambda results: row(results, 3)["response"].update(cached=True),
        lambda results: results["prompts"][1]["metrics"]["tokenUsage"].update(cached=13),
    ],
)
def test_f4_answers_from_a_cache_are_refused(read, edit):
    assert read(edit).problem.code == "cache_bias"


def test_f5_a_test_both_sides_fail_is_no_difference(read):
    base = read(select={"provider": "baseline"}).record
    assert [base.answers[item].score - answer.score for item, answer in read().record.answers.items()] == [0] * 6


def test_another_question_is_another_task(read):
    changed = read(lambda results: row(results, 3)["testCase"]["assert"].clear()).record
    assert changed.tasks_digest != read().record.tasks_digest


@pytest.mark.parametrize(
    ("select", "expected"),
    [
        (None, "ambiguous_run: 2 prompts in one file (0, 1): say which with select.prompt"),
        ({"prompt": 2}, "bad_value: select.prompt: '2' is not in the file, which has 0, 1"),
        ({"provider": "gamma"}, "bad_value: select.provider: 'gamma' is not among baseline, candidate"),
        ({"index": 1}, "bad_value: select.index: this tool's files are told apart by prompt, provider"),
    ],
)
def test_one_column_of_several_is_named(read, select, expected):
    assert str(read(select=select).problem) == expected


def test_a_column_may_be_named_by_number(read):
    assert read(select={"prompt": 1}).record == read().record


@pytest.mark.parametrize(
    ("edit", "code"),
    [
        (lambda results: results.update(version=4), "version_unknown"),
        (lambda results: results.pop("stats"), "schema_unknown"),
        (lambda results: results["results"].pop(), "counters_disagree"),
        (lambda results: results["prompts"][1]["metrics"].update(testPassCount=6), "counters_disagree"),
        (lambda results: row(results, 0).update(testIdx=1), "counters_disagree"),
        (lambda results: row(results, 0).update(failureReason=3), "bad_value"),
        (lambda results: row(results, 0).update(failureReason=1), "inconsistent"),
        (lambda results: row(results, 0).update(success="yes"), "bad_value"),
        (lambda results: [one.update(promptIdx=0) for one in results["results"]], "no_scores"),
    ],
)
def test_a_wrong_result_is_refused(read, edit, code):
    assert read(edit).problem.code == code


def test_a_result_without_prompts_is_refused_whatever_was_selected(read):
    empty = {"edit": lambda results: results.update(prompts=[], results=[])}
    for select in ({}, {"provider": "candidate"}, {"prompt": 0}):
        assert read(**empty, select=select).problem.code == "no_scores"


def test_an_answer_that_is_no_text_is_told_apart_by_its_json(read):
    structured = read(lambda results: row(results, 0)["response"].update(output={"city": "Bern"})).record
    assert not structured.answers["0"].empty
    assert structured.answers["0"].text_sha256 != read().record.answers["0"].text_sha256
