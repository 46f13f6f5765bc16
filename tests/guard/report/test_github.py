"""GitHub Actions: annotations that cannot be broken out of, a summary that is not dropped, outputs for later steps."""

import re

from pulumi_infercrane.guard.report.github import FILES, MOST_SUMMARY_BYTES


def test_annotations_stand_at_the_policy_line_worst_first(rejected):
    first, second = rejected.report("github").splitlines()
    assert first.startswith(
        "::error file=policy.yaml,line=6,title=quality.basics fail::quality.basics: margin_exceeded"
    )
    assert second.startswith("::warning file=policy.yaml,line=5,title=benchmark.ttft_p95 unknown::")


def test_a_promotion_annotates_nothing(promoted):
    assert promoted.report("github") == ""


def test_at_most_ten_are_written(crowded):
    lines = crowded.report("github").splitlines()
    assert len(lines) == 10
    assert lines[0].startswith("::error file=policy.yaml,line=6,title=quality.basics fail::")


def test_a_name_cannot_end_its_property_nor_a_reason_its_line(hostile):
    lines = hostile.report("github").split("\n")
    assert len(lines) == 2
    for line in lines:
        properties, _, message = line.partition(" ")[2].partition("::")
        assert [part.partition("=")[0] for part in properties.split(",")] == ["file", "line", "title"]
        assert ":" not in properties
        assert set(re.findall(r"%(..)", properties)) <= {"25", "3A", "2C"}
        assert "%250A" in message


def test_outputs(rejected):
    text = FILES["GITHUB_OUTPUT"](rejected.record, rejected.context)
    assert text.splitlines() == ["verdict=reject", f"decision={rejected.record['decision_id']}"]


def test_the_summary_is_cut_before_github_drops_it(crowded):
    summary = FILES["GITHUB_STEP_SUMMARY"](crowded.record, crowded.context)
    assert 512 * 1024 < len(summary.encode()) <= MOST_SUMMARY_BYTES < 1024 * 1024
    assert "more: see the decision record" in summary
