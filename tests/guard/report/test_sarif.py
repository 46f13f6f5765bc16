"""SARIF 2.1.0: structure as the standard and GitHub's code scanning ask for it."""

import json
from pathlib import Path
from urllib.parse import unquote

import pytest
from jsonschema import Draft4Validator, FormatChecker, ValidationError

STANDARD = json.loads((Path(__file__).parent / "schemas" / "sarif-2.1.0-rtm.5.json").read_text())
VALIDATOR = Draft4Validator(STANDARD, format_checker=FormatChecker())
LEVELS = {"none", "note", "warning", "error"}


def run_of(document):
    """The one run, after what the standard requires was checked."""
    log = json.loads(document)
    VALIDATOR.validate(log)
    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("/sarif-schema-2.1.0.json")
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"]
    identifiers = [rule["id"] for rule in driver["rules"]]
    assert len(identifiers) == len(set(identifiers))
    for result in run["results"]:
        assert result["message"]["text"]
        assert result["level"] in LEVELS
        assert identifiers[result["ruleIndex"]] == result["ruleId"]
        for location in result["locations"]:
            physical = location["physicalLocation"]
            assert physical["region"]["startLine"] >= 1
            assert "\n" not in physical["artifactLocation"]["uri"]
    return run


def test_every_decision_is_valid(any_decision):
    run_of(any_decision.report("sarif"))


@pytest.mark.parametrize("wrong", [{"level": "fatal"}, {"message": "text"}, {"ruleIndex": -2}, {"unknown": 1}])
def test_the_schema_of_the_standard_refuses_what_is_none(rejected, wrong):
    log = json.loads(rejected.report("sarif"))
    log["runs"][0]["results"][0].update(wrong)
    with pytest.raises(ValidationError):
        VALIDATOR.validate(log)


def test_a_fail_is_an_error_and_an_unknown_a_warning_at_their_policy_lines(rejected):
    found = {result["ruleId"]: result for result in run_of(rejected.report("sarif"))["results"]}
    assert {rule: one["level"] for rule, one in found.items()} == {
        "quality.basics": "error",
        "benchmark.ttft_p95": "warning",
    }
    assert next(iter(found)) == "quality.basics"
    place = found["benchmark.ttft_p95"]["locations"][0]["physicalLocation"]
    assert (place["artifactLocation"]["uri"], place["region"]["startLine"]) == ("policy.yaml", 5)
    assert found["benchmark.ttft_p95"]["properties"]["kind"] == "unknown"


def test_a_promotion_has_no_results(promoted):
    run = run_of(promoted.report("sarif"))
    assert run["results"] == []
    assert run["properties"]["verdict"] == "promote"


def test_a_file_name_is_an_address(hostile):
    place = run_of(hostile.report("sarif"))["results"][0]["locations"][0]["physicalLocation"]
    uri = place["artifactLocation"]["uri"]
    assert not set(uri) & set(' <>"`|\r\n')
    assert "<script>" in unquote(uri)
