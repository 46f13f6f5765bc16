"""What holds for every format: it is found by its name, a pure function of the record, and leaves no figure out."""

import html
import json
import re

import pytest

from pulumi_infercrane.guard.canonical import digest
from pulumi_infercrane.guard.report import RECORD_ALONE, find_report, known_reports

DECISIONS = ["promoted", "rejected", "unmeasured", "first", "rolled_back", "overridden", "hostile"]
FOR_PEOPLE = ["text", "markdown", "junit", "sarif", "github", "html"]


def test_each_module_is_a_format():
    assert known_reports() == ("github", "gitlab", "html", "json", "junit", "markdown", "openmetrics", "sarif", "text")


@pytest.mark.parametrize("name", ["", "_common", "plots", "../text", "os"])
def test_nothing_else_is(name):
    with pytest.raises(KeyError):
        find_report(name)


@pytest.mark.parametrize("decision", DECISIONS[:-1])
@pytest.mark.parametrize("name", known_reports())
def test_every_format_shows_every_decision_with_and_without_context(name, decision, request):
    decided = request.getfixturevalue(decision)
    report = find_report(name)
    for render in (report.render, *report.files.values()):
        assert render(decided.record, decided.context) == render(decided.record, decided.context)
        assert isinstance(render(decided.record, RECORD_ALONE), str)


@pytest.mark.parametrize("name", FOR_PEOPLE)
def test_figures_reason_and_what_would_settle_it_are_on_every_surface(name, rejected):
    shown = html.unescape(rejected.report(name))
    for figure in ("-0.645", "[-0.749, -0.542]", "-0.05", "60", "margin_exceeded", "40 lost / 0 gained of 60"):
        assert figure in shown
    assert "insufficient_n" in shown
    assert "about 190 more requests on each side needed" in shown


@pytest.mark.parametrize("name", ["text", "markdown", "github", "gitlab", "openmetrics"])
def test_nothing_from_evidence_begins_a_line_or_hides_itself(name, hostile):
    report = find_report(name)
    for render in (report.render, *report.files.values()):
        shown = render(hostile.record, hostile.context)
        assert "\n::error::x" not in shown
        assert "\r" not in shown
        assert all(line.isprintable() for line in shown.split("\n"))
        shown.encode()


def test_json_is_the_sealed_record(rejected):
    record = json.loads(rejected.report("json"))
    assert record == rejected.record
    assert record.pop("decision_id") == digest(record)


def test_gitlab_gets_variables(rejected):
    lines = rejected.report("gitlab").splitlines()
    assert lines == ["INFERCRANE_VERDICT=reject", f"INFERCRANE_DECISION={rejected.record['decision_id']}"]


def test_metrics_are_numbers_by_rule(rejected):
    lines = rejected.report("openmetrics").splitlines()
    assert 'infercrane_rule_limit{rule="quality.basics"} -0.05' in lines
    assert lines[-1] == "# EOF"
    assert all(re.fullmatch(r'# .*|infercrane_rule_\w+\{rule="[\w.]+"\} \S+', line) for line in lines)


def test_an_endless_figure_is_a_number_too(folder, decided):
    folder.both().benchmark("candidate", folder.seconds(150), failed=60)
    assert 'infercrane_rule_estimate{rule="benchmark.ttft_p95"} Inf' in decided().report("openmetrics").splitlines()


def test_only_what_a_rule_needs_is_shown_as_settling_it(overridden, rejected):
    assert "→" not in overridden.report("text")
    assert "see the incident" in overridden.report("html")
    detail = "runs differ; pooled: ratio 1.2"
    rule = {**rejected.record["rules"][0], "outcome": "unknown", "detail": detail, "needs": "measure again"}
    record = {**rejected.record, "rules": [rule], "reasons": [f"benchmark: conflict: {detail}; measure again"]}
    lines = find_report("text").render(record, RECORD_ALONE).splitlines()
    assert lines[4:7] == ["because", f"  benchmark: conflict: {detail}", "      → measure again"]


@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_every_unknown_has_its_way_out(unmeasured, form):
    """Also where only the reason code knows one, which the line of the reason does not repeat."""
    needs = {rule["needs"] for rule in unmeasured.record["rules"] if rule["outcome"] == "unknown"}
    assert "a measurement that holds it" in needs
    assert all(f"→ {one}" in unmeasured.report(form).replace("<code>", "") for one in needs)


def test_what_was_changed_afterwards_has_its_way_out(folder, decided):
    (path,) = folder.both().root.glob("quality-candidate*.jsonl*")
    path.write_bytes(path.read_bytes() + b"\n")
    lines = decided().report("text").splitlines()
    place = next(index for index, line in enumerate(lines) if line.startswith("  quality: tampered: "))
    assert lines[place + 1] == "      → the file as it was measured, or a new measurement"


@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_only_a_promotion_says_until_when_a_flip_is_possible(promoted, rejected, unmeasured, form):
    assert "a flip is refused after" in promoted.report(form)
    assert all("expires_at" in one.record for one in (rejected, unmeasured))
    assert not any("a flip is refused after" in one.report(form) for one in (rejected, unmeasured))


@pytest.mark.parametrize("form", ["text", "html"])
def test_evidence_is_named_by_its_file_where_that_is_known(rejected, form):
    assert "quality-candidate.evidence.json" in rejected.report(form)
    assert "quality-candidate.evidence.json" not in find_report(form).render(rejected.record, RECORD_ALONE)
