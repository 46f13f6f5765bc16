"""One task on both sides: what is paired, what is only a mean, and when equal scores prove nothing."""

from types import SimpleNamespace

import pytest

from pulumi_infercrane.guard.evidence.records import Answer, Score
from pulumi_infercrane.guard.judging import task_scores
from pulumi_infercrane.guard.judging.rule import Member, Sides
from pulumi_infercrane.guard.judging.task_scores import SCORE, Measure
from pulumi_infercrane.guard.reasons import Problem


def answer(score, text="", ok=True):
    return Answer(score, ok=ok, empty=False, cut=False, text_sha256=text)


def member(scores=(), task="basics", metric="contains", summary=None, constant="", answers=None):
    if answers is None:
        answers = {f"{index:03}": answer(score, f"{index} {score}") for index, score in enumerate(scores)}
    record = {"task": task, "metric": metric, "answers": answers, "summary": summary, "constant": constant}
    return Member(SimpleNamespace(evidence_id="id"), SimpleNamespace(**record))


def sides(candidate, baseline):
    candidate, baseline = ((one,) if isinstance(one, Member) else tuple(one) for one in (candidate, baseline))
    return Sides(candidate, baseline)


def degenerate(both):
    return task_scores.degenerate(task_scores.pairs(both, SCORE), both)


# --- which evidence ---------------------------------------------------------------------------------------------


def test_the_metric_of_a_rule_selects_where_it_is_there():
    exact, fuzzy, other = member(metric="exact"), member(metric="fuzzy"), member(task="other", metric="exact")
    both = sides([exact, fuzzy, other], [fuzzy, exact])
    assert task_scores.of_task("basics", "exact", both) == sides(exact, exact)
    assert task_scores.of_task("basics", "", both) == sides([exact, fuzzy], [fuzzy, exact])
    assert task_scores.of_task("basics", "rouge", both) == sides([exact, fuzzy], [fuzzy, exact])
    assert task_scores.of_task("basics", "exact", sides(exact, fuzzy)) == sides(exact, [])


def test_items_are_there_when_both_sides_have_them():
    assert task_scores.have_items(sides(member([1.0]), member([1.0])))
    assert not task_scores.have_items(sides(member([1.0]), member()))
    assert not task_scores.have_items(sides(member(), member([1.0])))


def test_passes_are_averaged_and_what_is_missing_counts_as_wrong():
    both = sides([member([1.0, 0.5]), member([0.0, 0.5])], member([1.0, 1.0, 1.0]))
    assert task_scores.pairs(both, SCORE) == [(1.0, 0.5), (1.0, 0.5), (1.0, 0.0)]


def test_what_only_the_candidate_answered_stands_against_the_best_there_is():
    both = sides(member([1.0, 0.5, 0.2]), member([1.0]))
    assert task_scores.unpaired_at_worst(both, SCORE) == [(1.0, 0.5), (1.0, 0.2)]
    cut = Measure(lambda answer: float(answer.cut), 1.0, higher_is_better=False, what="truncated share")
    assert task_scores.unpaired_at_worst(both, cut) == [(0.0, 0.0), (0.0, 0.0)]


# --- means ------------------------------------------------------------------------------------------------------

GOOD = Score(0.8, 0.01, 400)


def test_two_means_differ_by_the_root_of_both_errors():
    found = task_scores.means(sides(member(summary=Score(0.7, 0.03, 400)), member(summary=Score(0.8, 0.04, 400))), 0.05)
    assert (found.estimate, found.se) == (pytest.approx(-0.1), pytest.approx(0.05))


@pytest.mark.parametrize("summary", [None, Score(0.8, None, 400), Score(0.8, 0.0, 400)])
@pytest.mark.parametrize("side", ["candidate", "baseline"])
def test_a_mean_without_its_error_is_only_a_summary(summary, side):
    both = {"candidate": member(summary=GOOD), "baseline": member(summary=GOOD)} | {side: member(summary=summary)}
    detail = f"the {side} has neither items nor a mean with a standard error"
    assert task_scores.means(sides(**both), 0.05) == Problem("summary_only", detail)


@pytest.mark.parametrize("side", ["candidate", "baseline"])
def test_means_of_several_runs_are_not_averaged(side):
    both = {"candidate": member(summary=GOOD), "baseline": member(summary=GOOD)} | {side: [member(summary=GOOD)] * 2}
    detail = f"2 summaries of the {side}: means of runs are never averaged"
    assert task_scores.means(sides(**both), 0.05) == Problem("summary_only", detail)


def test_a_standard_error_says_how_many_items_there_were():
    assert task_scores.items_behind(member(summary=Score(0.8, 0.01, 400))) == 400
    assert task_scores.items_behind(member(summary=Score(0.5, 0.05, None))) == 101


# --- several passes ---------------------------------------------------------------------------------------------


def test_passes_of_either_side_may_disagree():
    good, bad, empty = member([1.0] * 100), member([0.0] * 100), member()
    assert task_scores.passes_disagree(sides([good, bad], good), SCORE, 0.05)
    assert task_scores.passes_disagree(sides(good, [good, bad]), SCORE, 0.05)
    assert not task_scores.passes_disagree(sides([good, good], [good, good]), SCORE, 0.05)
    assert not task_scores.passes_disagree(sides([good, empty], good), SCORE, 0.05)
    close = member([1.0] * 95 + [0.0] * 5)
    assert not task_scores.passes_disagree(sides([good, close], good), SCORE, 0.05)


# --- what proves nothing ----------------------------------------------------------------------------------------


def test_nothing_right_on_either_side_tells_nothing():
    assert degenerate(sides(member([0.0] * 3), member([0.0] * 3))).startswith("every answer of both sides scored 0")
    assert degenerate(sides(member([1.0, 0.0]), member([0.0, 0.0]))) == ""
    assert degenerate(sides(member([0.0, 0.0]), member([1.0, 0.0]))) == ""


@pytest.mark.parametrize("side", ["candidate", "baseline"])
def test_scores_a_tool_calls_constant_tell_nothing(side):
    both = {"candidate": member([1.0, 0.0]), "baseline": member([1.0, 0.0])}
    both[side] = [both[side], member([1.0, 0.0], constant="every choice was as likely")]
    assert degenerate(sides(**both)) == f"{side}: every choice was as likely"


@pytest.mark.parametrize("side", ["candidate", "baseline"])
def test_one_text_for_all_items_tells_nothing(side):
    both = {"candidate": member([1.0, 0.0]), "baseline": member([1.0, 0.0])}
    parrot = {"000": answer(1.0, "same"), "001": answer(0.0, "same"), "002": answer(0.0, "failed", ok=False)}
    assert (
        degenerate(sides(**(both | {side: member(answers=parrot)}))) == f"every answer of the {side} is the same text"
    )
    silent = {"000": answer(1.0, ""), "001": answer(0.0, "")}
    assert degenerate(sides(**(both | {side: member(answers=silent)}))) == ""
    partly = {"000": answer(1.0, "same"), "001": answer(0.0, ""), "002": answer(0.0, "same")}
    assert degenerate(sides(**(both | {side: member(answers=partly)}))) != ""


def test_one_item_has_one_text():
    assert degenerate(sides(member([1.0]), member([1.0]))) == ""
