"""Quality is paired by item, against a margin; no test that failed to find a difference counts as equality."""

from dataclasses import replace

import pytest

from pulumi_infercrane.guard.evidence import revision_digest
from tests.guard.rules.answering import both, changed, judged, mean_of, scores, unpaired


@pytest.mark.parametrize(
    ("n", "lost", "margin", "outcome", "code"),
    [
        (60, 0, 0.05, "pass", "within_margin"),
        (60, 0, 0.02, "unknown", "interval_straddles"),
        (300, 2, 0.02, "pass", "within_margin"),
        (300, 3, 0.02, "unknown", "interval_straddles"),
        (60, 12, 0.02, "fail", "margin_exceeded"),
        (60, 40, 0.05, "fail", "margin_exceeded"),
    ],
)
def test_lost_answers_against_a_margin(folder, n, lost, margin, outcome, code):
    both(folder, scores(n, lost), n)
    record = judged(folder, f"id: quality.basics, margin: {margin}, min_pass: 60")
    assert (record["outcome"], record["reasons"], record["n"]) == (outcome, [code], [n])


def test_a_fail_is_told_with_figures(folder):
    both(folder, scores(60, 40))
    record = judged(folder, "id: quality.basics, margin: 0.05")
    assert record["detail"] == "difference -0.645 [-0.749, -0.542] against -0.05, 40 lost / 0 gained of 60"
    assert record["notes"] == ["mcnemar_p 1.82e-12"]


def test_too_few_pairs_say_how_many_are_missing(folder):
    both(folder, scores(60, 0))
    record = judged(folder, "id: quality.basics, margin: 0.05")
    assert (record["outcome"], record["reasons"]) == ("unknown", ["insufficient_n"])
    assert record["detail"] == "60 of 300 pairs, difference 0 [-0.0265, 0.0265] against -0.05"
    assert record["needs"] == "about 240 more pairs needed"


def test_pairs_needed_come_from_the_observed_discordance(folder):
    mixed = [0.0] * 3 + [1.0] * 57
    both(folder, mixed, baseline=[1.0] * 58 + [0.0] * 2)
    record = judged(folder, "id: quality.basics, margin: 0.05, min_pass: 60")
    assert record["detail"].endswith("3 lost / 2 gained of 60")
    assert record["needs"] == "about 178 more pairs needed"  # 238 at the discordance of 5 in 60


def test_below_thirty_pairs_not_even_a_fail_is_possible(folder):
    both(folder, scores(29, 29), 29)
    record = judged(folder, "id: quality.basics")
    assert (record["outcome"], record["reasons"]) == ("unknown", ["insufficient_n"])
    assert "lo" not in record


def test_a_fail_also_needs_significant_losses(folder):
    both(folder, scores(32, 4), 32)
    record = judged(folder, "id: quality.basics, margin: 0.0")
    assert record["hi"] < 0  # the interval alone would fail it
    assert record["outcome"] == "unknown"
    both(folder, scores(32, 5), 32)
    assert judged(folder, "id: quality.basics, margin: 0.0")["outcome"] == "fail"


def test_a_better_candidate_passes(folder):
    both(folder, [1.0] * 60, baseline=scores(60, 20))
    assert judged(folder, "id: quality.basics, margin: 0.0, min_pass: 60")["outcome"] == "pass"


def test_graded_scores_are_paired_as_they_are(folder):
    both(folder, [0.8] * 60, baseline=[0.8] * 60)
    assert judged(folder, "id: quality.basics, margin: 0.05, min_pass: 60")["outcome"] == "pass"
    both(folder, [0.5] * 60, baseline=[0.8] * 60)
    assert judged(folder, "id: quality.basics, margin: 0.05, min_pass: 60")["outcome"] == "fail"


def test_the_order_of_lines_does_not_matter(folder):
    both(folder, scores(60, 3))
    before = judged(folder, "id: quality.basics")
    both(folder, scores(60, 3), lines=lambda lines: lines.reverse())
    after = judged(folder, "id: quality.basics")
    assert {**before, "evidence": 0} == {**after, "evidence": 0}


def test_an_item_the_candidate_left_out_counts_as_wrong(folder):
    both(folder, [1.0] * 60, lines=lambda lines: lines.pop())
    assert judged(folder, "id: quality.basics")["detail"].startswith("60 of 300 pairs, difference -0.0161")


def test_a_failed_request_counts_as_wrong(folder):
    failed = {"score": 0, "outcome": "truncated"}
    both(folder, [1.0] * 60, lines=lambda lines: [line.update(failed) for line in lines[:40]])
    assert judged(folder, "id: quality.basics")["outcome"] == "fail"


# --- shares -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "line"),
    [
        ("invalid", {"empty": True}),
        ("invalid", {"score": 0, "outcome": "error_event"}),
        ("truncated", {"finish_reason": "length"}),
    ],
)
def test_more_bad_answers_than_the_baseline_fail(folder, part, line):
    both(folder, [1.0] * 60, lines=lambda lines: [one.update(line) for one in lines[:17]])
    record = judged(folder, f"id: quality.basics.{part}")
    assert (record["outcome"], record["limit"]) == ("fail", 0.01)
    assert record["detail"].endswith("against 0.01, 17 more / 0 fewer of 60")


@pytest.mark.parametrize("part", ["invalid", "truncated"])
def test_as_many_bad_answers_as_the_baseline_pass(folder, part):
    bad = {"empty": True, "finish_reason": "length"}
    for role in ("baseline", "candidate"):
        folder.quality(role, [1.0] * 300, lines=lambda lines: [one.update(bad) for one in lines[:20]])
    assert judged(folder, f"id: quality.basics.{part}")["outcome"] == "pass"


# --- what proves nothing ----------------------------------------------------------------------------------------


def test_a_task_neither_side_can_do_is_degenerate(folder):
    both(folder, [0.0] * 300, baseline=[0.0] * 300)
    assert judged(folder, "id: quality.basics")["reasons"] == ["degenerate"]


def test_a_task_both_sides_master_is_saturated_and_passes(folder):
    both(folder, [1.0] * 300, 300)
    record = judged(folder, "id: quality.basics")
    assert record["outcome"] == "pass"
    assert "saturated" in record["notes"]


def test_one_text_for_every_item_cannot_pass(folder):
    both(folder, [1.0] * 300, 300, lines=lambda lines: [line.update(text_sha256="a" * 64) for line in lines])
    record = judged(folder, "id: quality.basics")
    assert (record["outcome"], record["reasons"]) == ("unknown", ["degenerate"])


def test_one_text_for_every_item_can_still_fail(folder):
    both(folder, [0.0] * 300, 300, lines=lambda lines: [line.update(text_sha256="a" * 64) for line in lines])
    assert judged(folder, "id: quality.basics")["outcome"] == "fail"


# --- comparability ----------------------------------------------------------------------------------------------


def test_another_task_file_is_not_comparable(folder):
    both(folder, [1.0] * 60, header={"tasks_digest": "sha256:" + "e" * 64})
    assert judged(folder, "id: quality.basics")["detail"] == "the two sides answered different task files"


def test_another_metric_is_not_comparable(folder):
    both(folder, [1.0] * 60, header={"metric": "exact_match"})
    assert judged(folder, "id: quality.basics")["detail"] == "scored by contains and exact_match"


def test_a_rule_may_name_its_metric(folder):
    both(folder, [1.0] * 60)
    assert judged(folder, "id: quality.basics.contains, margin: 0.05, min_pass: 60")["outcome"] == "pass"
    record = judged(folder, "id: quality.basics.exact_match")
    assert record["detail"] == "scored by contains, the rule judges exact_match"


def test_a_task_nobody_measured_is_no_evidence(folder):
    both(folder, [1.0] * 60)
    record = judged(folder, "id: quality.gsm8k")
    assert (record["reasons"], record["detail"]) == (
        ["no_evidence"],
        "no admissible candidate evidence for task 'gsm8k'",
    )


def test_a_task_only_the_candidate_answered_is_no_evidence(folder):
    folder.quality("candidate")
    folder.quality("baseline", header={"task": "other"})
    assert judged(folder, "id: quality.basics")["detail"] == "no admissible baseline evidence for task 'basics'"
    (folder.root / "quality-baseline.evidence.json").unlink()
    assert judged(folder, "id: quality.basics")["detail"] == "no admissible baseline measurement"


def test_several_passes_are_averaged_per_item_not_added(folder):
    folder.quality("baseline")
    for name in ("one", "two"):
        folder.quality("candidate", name=name, lines=lambda lines: None, header={"pass": name})
    record = judged(folder, "id: quality.basics")
    assert record["n"] == [60]
    assert len(record["evidence"]) == 3


def test_passes_that_differ_by_more_than_noise_are_in_conflict(folder):
    folder.quality("baseline")
    folder.quality("candidate", scores(60, 30), name="one")
    folder.quality("candidate", scores(60, 0), name="two")
    record = judged(folder, "id: quality.basics")
    assert (record["outcome"], record["reasons"]) == ("unknown", ["conflict"])


@pytest.mark.parametrize(("left_out", "expected"), [(0, "pass"), (1, "pass"), (15, "unknown")])
def test_items_the_baseline_left_out_may_not_hide_a_loss(folder, left_out, expected):
    """A bound on time, or a hand, may have left out exactly those that the candidate got wrong."""
    folder.quality("baseline", [1.0] * 400, lines=lambda lines: lines.__delitem__(slice(400 - left_out, None)))
    folder.quality("candidate", [1.0] * (400 - left_out) + [0.0] * left_out)
    record = judged(folder, "id: quality.basics, margin: 0.02")
    assert record["outcome"] == expected
    assert record["reasons"] == (["truncated"] if expected == "unknown" else ["within_margin"])


def test_a_loss_stays_one_whatever_was_left_out(folder):
    folder.quality("baseline", [1.0] * 400, lines=lambda lines: lines.__delitem__(slice(385, None)))
    folder.quality("candidate", [1.0] * 300 + [0.0] * 100)
    assert judged(folder, "id: quality.basics, margin: 0.02")["outcome"] == "fail"


# --- without items ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("baseline", "candidate", "outcome", "code"),
    [
        ((0.8, 0.004, 10_000), (0.8, 0.004, 10_000), "pass", "within_margin"),
        ((0.8, 0.004, 10_000), (0.7, 0.0046, 10_000), "fail", "margin_exceeded"),
        ((0.8, 0.0126, 1000), (0.8, 0.0126, 1000), "unknown", "interval_straddles"),
        ((0.4121, 0.01438, None), (0.4121, 0.01438, None), "unknown", "interval_straddles"),
    ],
)
def test_two_means_are_compared_with_their_standard_errors(folder, monkeypatch, baseline, candidate, outcome, code):
    record = unpaired(folder, monkeypatch, baseline, candidate)
    assert (record["outcome"], record["reasons"], record["method"]) == (outcome, [code], "unpaired")


def test_the_bounds_are_those_of_the_formula(folder, monkeypatch):
    record = unpaired(folder, monkeypatch, (0.8, 0.0126, 1000), (0.79, 0.0128, 1000))
    half = 1.6448536269514722 * (0.0126**2 + 0.0128**2) ** 0.5
    assert (record["lo"], record["hi"]) == pytest.approx((-0.01 - half, -0.01 + half), rel=1e-8)
    assert record["needs"].startswith("the items of both sides would settle it with fewer of them")


def test_where_a_file_does_not_say_how_many_the_standard_error_does(folder, monkeypatch):
    record = unpaired(folder, monkeypatch, (0.4121160409556314, 0.014383915302225398, None), (0.4, 0.0143, 1172))
    assert record["n"] == [1172, 1172]  # arc_challenge has 1,172 questions


@pytest.mark.parametrize("stderr", [None, 0.0])
def test_a_mean_without_a_standard_error_proves_nothing(folder, monkeypatch, stderr):
    record = unpaired(folder, monkeypatch, (0.8, stderr, 1000), (0.8, 0.01, 1000))
    assert (record["outcome"], record["reasons"]) == ("unknown", ["summary_only"])


def test_a_few_items_form_no_interval(folder, monkeypatch):
    assert unpaired(folder, monkeypatch, (0.8, 0.1, 29), (0.2, 0.01, 900))["reasons"] == ["insufficient_n"]


@pytest.mark.parametrize("part", ["invalid", "truncated"])
def test_without_items_there_is_no_share_of_them(folder, monkeypatch, part):
    record = unpaired(folder, monkeypatch, (0.8, 0.01, 900), (0.8, 0.01, 900), f"id: quality.basics.{part}")
    assert (record["outcome"], record["reasons"]) == ("unknown", ["summary_only"])


# --- mean over tasks --------------------------------------------------------------------------------------------


def test_the_mean_over_tasks_has_a_margin_of_its_own(folder):
    record = mean_of(folder, a=0, b=0)
    assert (record["outcome"], record["limit"], record["n"]) == ("pass", -0.01, [600])
    assert record["detail"].endswith("mean over 2 tasks")
    assert record["lo"] == pytest.approx(-0.0054465 / 2**0.5, abs=1e-6)


def test_tasks_weigh_the_same(folder):
    record = mean_of(folder, a=30, b=0)
    assert record["estimate"] == pytest.approx(-30 / 302 / 2)
    assert (record["outcome"], len(record["evidence"])) == ("fail", 4)


def test_a_task_that_was_left_out_keeps_the_mean_from_being_formed(folder):
    record = mean_of(folder, a=0)
    assert (record["outcome"], record["reasons"]) == ("unknown", ["no_evidence"])
    assert record["detail"] == "b: no admissible candidate evidence for task 'b'"


def test_a_task_that_proves_nothing_keeps_it_too(folder):
    folder.quality("baseline", [0.0] * 300, name="b-baseline", header={"task": "b"})
    folder.quality("candidate", [0.0] * 300, name="b-candidate", header={"task": "b"})
    assert mean_of(folder, a=0)["reasons"] == ["degenerate"]


def test_few_items_in_all_form_no_mean(folder):
    for role in ("baseline", "candidate"):
        folder.quality(role, [1.0] * 60)
    record = mean_of(folder, "{id: quality.basics}, {id: quality.mean}")
    assert (record["reasons"], record["needs"]) == (["insufficient_n"], "about 240 more items needed")


def test_a_mean_needs_tasks_with_rules_of_their_own(folder):
    folder.quality("candidate")
    folder.quality("baseline")
    assert "add one like quality.<task>" in mean_of(folder, "{id: quality.mean}")["detail"]


# --- what a tool tells of its items ------------------------------------------------------------------------------


@pytest.mark.parametrize(("part", "flag"), [("invalid", "empty"), ("truncated", "cut")])
def test_a_share_of_what_no_tool_counted_is_unknown_not_zero(folder, monkeypatch, part, flag):
    def untold(record):
        answers = {item: replace(answer, **{flag: None}) for item, answer in record.answers.items()}
        return replace(record, answers=answers)

    changed(monkeypatch, untold)
    both(folder, [1.0] * 300, 300)
    record = judged(folder, f"id: quality.basics.{part}")
    assert (record["outcome"], record["reasons"]) == ("unknown", ["no_evidence"])


def test_scores_that_tell_nothing_cannot_pass_but_can_fail(folder, monkeypatch):
    changed(monkeypatch, lambda record: replace(record, constant="all choices tie"))
    both(folder, [1.0] * 300, 300)
    record = judged(folder, "id: quality.basics")
    assert (record["reasons"], record["detail"]) == (["degenerate"], "candidate: all choices tie")
    both(folder, [0.0] * 300, 300)
    assert judged(folder, "id: quality.basics")["outcome"] == "fail"


def test_a_run_that_left_items_out_is_truncated(folder, monkeypatch):
    changed(monkeypatch, lambda record: replace(record, planned=61))
    both(folder, [1.0] * 60)
    record = judged(folder, "id: quality.basics")
    assert record["reasons"] == ["truncated"]
    assert record["detail"] == "60 of the task's 61 items were asked; run it without a limit"


def test_other_prompts_are_compared_only_when_the_template_is_the_change(folder, monkeypatch):
    seen = iter("abab")
    changed(monkeypatch, lambda record: replace(record, prompts_digest=next(seen)))
    both(folder, [1.0] * 300, 300)
    assert judged(folder, "id: quality.basics")["reasons"] == ["not_comparable"]
    folder.subjects["candidate"] |= {"chat_template_sha": "sha256:" + "e" * 64}
    folder.subjects["candidate"]["revision_digest"] = revision_digest(folder.subjects["candidate"])
    both(folder, [1.0] * 300, 300)
    assert judged(folder, "id: quality.basics")["outcome"] == "pass"


def test_notes_of_the_reader_stand_in_the_decision(folder, monkeypatch):
    changed(monkeypatch, lambda record: replace(record, notes=("dirty_revision",)))
    both(folder, [1.0] * 300, 300)
    assert "dirty_revision" in judged(folder, "id: quality.basics")["notes"]


def test_notes_are_sorted(folder, monkeypatch):
    notes = tuple(f"note {letter}" for letter in "gcafbedh")
    changed(monkeypatch, lambda record: replace(record, notes=notes))
    both(folder, [1.0] * 300, 300)
    assert judged(folder, "id: quality.basics")["notes"][-8:] == sorted(notes)
