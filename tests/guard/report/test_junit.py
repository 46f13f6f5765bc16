"""JUnit XML: what a dashboard counts. Checked against the schema its readers have in common."""

import xml.etree.ElementTree as ET

COUNTS = {"tests", "failures", "errors", "time"}
SCHEMA = {
    "testsuites": ({"name"} | COUNTS, {"testsuite"}),
    "testsuite": ({"name", "timestamp", "skipped"} | COUNTS, {"properties", "testcase"}),
    "properties": (set(), {"property"}),
    "property": ({"name", "value"}, set()),
    "testcase": ({"classname", "name", "time"}, {"failure", "error", "system-out"}),
    "failure": ({"type", "message"}, set()),
    "error": ({"type", "message"}, set()),
    "system-out": (set(), set()),
}


def valid(document):
    root = ET.fromstring(document.encode())
    for element in root.iter():
        attributes, children = SCHEMA[element.tag]
        assert set(element.attrib) == attributes
        assert {child.tag for child in element} <= children
    for counted in [root, *root.iter("testsuite")]:
        cases = list(counted.iter("testcase"))
        assert int(counted.get("tests")) == len(cases) > 0
        assert int(counted.get("failures")) == sum(case.find("failure") is not None for case in cases)
        assert int(counted.get("errors")) == sum(case.find("error") is not None for case in cases)
    return root


def cases(root, tag):
    return {case.get("name"): case.find(tag) for case in root.iter("testcase") if case.find(tag) is not None}


def test_every_decision_is_valid_and_nothing_is_skipped(any_decision):
    document = any_decision.report("junit")
    valid(document)
    assert "<skipped" not in document


def test_one_suite_per_kind_and_one_case_per_rule(rejected):
    root = valid(rejected.report("junit"))
    assert [suite.get("name") for suite in root] == ["benchmark", "quality"]
    assert [case.get("name") for case in root.iter("testcase")] == [rule["rule"] for rule in rejected.record["rules"]]


def test_a_reject_is_a_failure_and_an_unknown_an_error_of_its_reason(rejected):
    root = valid(rejected.report("junit"))
    assert {name: one.get("type") for name, one in cases(root, "failure").items()} == {
        "quality.basics": "margin_exceeded"
    }
    errors = cases(root, "error")
    assert {name: one.get("type") for name, one in errors.items()} == {"benchmark.ttft_p95": "insufficient_n"}
    assert "what would settle it: about 190 more requests" in errors["benchmark.ttft_p95"].text


def test_a_case_names_its_policy_line(rejected):
    assert "\npolicy.yaml:6" in cases(valid(rejected.report("junit")), "failure")["quality.basics"].text


def test_a_required_kind_without_evidence_is_a_case_of_its_own(unmeasured):
    errors = cases(valid(unmeasured.report("junit")), "error")
    assert errors["quality evidence"].get("type") == "no_evidence"


def test_a_promotion_has_neither(promoted):
    root = valid(promoted.report("junit"))
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("3", "0", "0")


def test_a_decision_without_rules_is_a_case_too(rolled_back):
    assert [case.get("name") for case in valid(rolled_back.report("junit")).iter("testcase")] == ["rollback"]
