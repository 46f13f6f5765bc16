"""The merge comment: small enough, worst first, and nothing in it but text."""

import re

import pytest

from pulumi_infercrane.guard.report.markdown import MOST_BYTES, code, render


def test_verdict_the_one_reason_and_the_link_come_first_and_last(rejected):
    lines = rejected.report("markdown").splitlines()
    assert lines[0] == "### ❌ REJECT&#58; the active revision keeps serving"
    assert lines[4].startswith("**Because** <code>quality&#46;basics&#58; margin&#95;exceeded")
    assert lines[-1].startswith("Decision [<code>")
    assert "](https://ci.example/run/1) · policy" in lines[-1]


def test_a_promotion_says_so(promoted):
    assert "Every required rule passed." in promoted.report("markdown")


def test_a_required_kind_without_evidence_is_named(unmeasured):
    assert "No evidence of <code>quality</code> about the candidate." in unmeasured.report("markdown")


def test_a_link_that_is_no_web_address_is_left_out(rejected):
    from dataclasses import replace

    context = replace(rejected.context, link="javascript:alert(1)")
    assert "javascript" not in render(rejected.record, context)


def test_a_comment_that_would_be_refused_is_cut_from_the_end(crowded):
    comment = crowded.report("markdown")
    assert len(comment.encode()) <= MOST_BYTES
    assert "<code>quality&#46;basics</code> | ❌ fail" in comment
    assert re.search(r"… and \d+ more: see the decision record\n\nDecision ", comment)


@pytest.mark.parametrize(
    "mark_up", ["|", "`", "**b**", "_i_", "<b>", "[a](b)", "@all", "#1", "http://x", "&lt;", "\\|", "a|b"]
)
def test_no_mark_up_survives(mark_up):
    inner = code(mark_up).removeprefix("<code>").removesuffix("</code>")
    assert re.fullmatch(r"(?:[A-Za-z0-9]|&#\d+;)+", inner)


def test_figures_stay_readable():
    assert code("-0.645, 1.5") == "<code>-0.645, 1.5</code>"
    assert code("x" * 600).count("x") == 499


def test_a_row_stays_one_row(hostile):
    table = [line for line in hostile.report("markdown").split("\n") if line.startswith("|")]
    assert len(table) == 2 + len(hostile.record["rules"])
    assert {line.count("|") for line in table} == {9}
