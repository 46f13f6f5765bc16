"""Quality at its edges: several metrics, nothing bad at all, means of tasks without items, and what would settle it."""

from dataclasses import replace

import pytest

from pulumi_infercrane.guard import statistics
from pulumi_infercrane.guard.evidence.readers.infercrane import quality as quality_reader
from pulumi_infercrane.guard.evidence.records import Score
from pulumi_infercrane.guard.judging.rule import Rule
from pulumi_infercrane.guard.rules.quality import KIND, _from_difference
from tests.guard.rules.answering import MEAN, both, changed, judged, mean_of, scores, unpaired


@pytest.mark.parametrize(
    ("rule", "known"),
    [
        ("quality.basics", True),
        ("quality.basics.mean", True),
        ("quality.mean", True),
        ("quality.mean.exact", False),
        ("quality.a.b.c", False),
        ("quality.", False),
    ],
)
def test_a_rule_names_a_task_and_perhaps_a_metric(rule, known):
    assert (KIND.form(rule) is not None) == known


def test_a_rule_picks_its_metric_where_a_task_was_scored_by_several(folder):
    for metric, candidate in (("exact", [1.0] * 300), ("contains", scores(300, 60))):
        for role, values in (("baseline", [1.0] * 300), ("candidate", candidate)):
            folder.quality(role, values, name=f"{role}-{metric}", header={"metric": metric})
    assert judged(folder, "id: quality.basics.exact")["outcome"] == "pass"
    assert judged(folder, "id: quality.basics.contains")["outcome"] == "fail"
    assert judged(folder, "id: quality.basics")["reasons"] == ["not_comparable"]


@pytest.mark.parametrize("part", ["invalid", "truncated"])
def test_nothing_bad_on_either_side_passes(folder, part):
    both(folder, [1.0] * 300, 300)
    record = judged(folder, f"id: quality.basics.{part}")
    assert (record["outcome"], record["n"]) == ("pass", [300])


def test_everything_bad_on_both_sides_is_not_called_saturated(folder):
    def cut(lines):
        for line in lines:
            line.update(finish_reason="length")

    for role in ("baseline", "candidate"):
        folder.quality(role, [1.0] * 300, lines=cut)
    record = judged(folder, "id: quality.basics.truncated")
    assert (record["outcome"], "saturated" in record["notes"]) == ("pass", False)


def test_what_proves_nothing_asks_for_another_task(folder):
    both(folder, [0.0] * 60, baseline=[0.0] * 60)
    record = judged(folder, "id: quality.basics, min_pass: 300")
    assert (record["reasons"], record.get("needs")) == (["degenerate"], "a task that tells these revisions apart")


def test_a_task_of_known_size_of_which_the_number_asked_is_not_known(folder, monkeypatch):
    changed(monkeypatch, lambda record: replace(record, planned=900, answers={}, summary=Score(0.8, 0.004, None)))
    both(folder, [1.0], 1)
    assert judged(folder, "id: quality.basics")["reasons"] == ["within_margin"]


def test_as_many_items_as_an_interval_takes(folder, monkeypatch):
    record = unpaired(folder, monkeypatch, (0.8, 0.01, 30), (0.2, 0.01, 900))
    assert (record["outcome"], record["n"]) == ("fail", [30, 900])


@pytest.mark.parametrize("told", [("", "all choices tie"), ("all choices tie", "")])
def test_means_that_tell_nothing_on_one_side_cannot_pass(folder, monkeypatch, told):
    constants = iter(told)
    good = Score(0.8, 0.004, 10_000)
    changed(monkeypatch, lambda record: replace(record, answers={}, summary=good, constant=next(constants)))
    both(folder, [1.0], 1)
    record = judged(folder, "id: quality.basics")
    assert (record["outcome"], record["reasons"], record["detail"]) == ("unknown", ["degenerate"], "all choices tie")


def test_means_that_tell_nothing_can_fail(folder, monkeypatch):
    read = quality_reader.read

    def summary(header, lines):
        value = {folder.baseline: 0.8, folder.candidate: 0.6}[header["revision_digest"]]
        return replace(read(header, lines), answers={}, summary=Score(value, 0.004, 10_000), constant="all tie")

    monkeypatch.setattr(quality_reader, "read", summary)
    both(folder, [1.0], 1)
    record = judged(folder, "id: quality.basics")
    assert (record["outcome"], record.get("needs")) == ("fail", None)


def test_a_mean_is_of_quality_and_of_scores_alone(folder):
    rules = MEAN + ", {id: quality.a.invalid}, {id: benchmark.error_fraction}"
    record = mean_of(folder, rules, a=0, b=0)
    assert (record["outcome"], record["method"], record["n"]) == ("pass", "mean_over_tasks", [600])
    assert record["evidence"] == sorted(set(record["evidence"]))
    assert len(record["evidence"]) == 4


def test_the_first_task_by_name_that_keeps_a_mean_from_being_formed_is_told(folder):
    rules = "{id: quality.mean}, {id: quality.z}, {id: quality.y}, {id: quality.x}, {id: quality.a}"
    assert mean_of(folder, rules, a=0)["detail"].startswith("x: ")


def test_as_many_items_in_all_as_a_mean_takes(folder):
    record = mean_of(folder, a=0, b=0)
    assert record["n"] == [600]
    assert mean_of(folder, MEAN.replace("quality.mean", "quality.mean, min_compute: 600"))["reasons"] == [
        "within_margin"
    ]
    few = mean_of(folder, MEAN.replace("quality.mean", "quality.mean, min_compute: 601"))
    assert few["reasons"] == ["insufficient_n"]


def test_a_mean_may_be_over_tasks_without_items(folder, monkeypatch):
    """Each counts with the smaller number of its two sides."""
    read = quality_reader.read

    def summary(header, lines):
        n = 4000 if header["revision_digest"] == folder.baseline else 3000
        return replace(read(header, lines), answers={}, summary=Score(0.8, 0.002, n))

    monkeypatch.setattr(quality_reader, "read", summary)
    record = mean_of(folder, a=0, b=0)
    assert (record["outcome"], record["n"]) == ("pass", [6000])


def test_two_means_say_how_many_more_items_would_settle_it():
    """The standard error shrinks with the root of their number."""

    def finding(n, value=0.795):
        error = 0.4 / n**0.5
        rule = Rule("quality.basics", "quality", True, True, 0.02, min_pass=300, min_compute=30)
        difference = statistics.unpaired_scores(0.8, error, value, error)
        return _from_difference(rule, difference, (2 * n, n), "unpaired", "two means", "items on each side", 0.05)

    few = finding(1000)
    total = 1000 + int(few.needs.split()[1])
    assert few.detail.startswith("difference -0.005 [")
    assert (finding(round(0.9 * total)).outcome, finding(round(1.1 * total)).outcome) == ("unknown", "pass")


@pytest.mark.parametrize("part", ["invalid", "truncated"])
def test_an_item_the_candidate_did_not_answer_is_the_worst_answer_and_no_worse(folder, part):
    """Six of 60, among which the interval counts two pairs more."""
    folder.quality("baseline", [1.0] * 60)
    folder.quality("candidate", [1.0] * 54)
    assert judged(folder, f"id: quality.basics.{part}")["estimate"] == pytest.approx(6 / 62)
