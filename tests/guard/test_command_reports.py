"""`infercrane guard check --report …`: what a pipeline picks up, and that nothing stale is left for it."""

import json
import xml.etree.ElementTree as ET

import pytest
from click.testing import CliRunner

from pulumi_infercrane.guard.report import known_reports
from pulumi_infercrane.stacks.cli.guard import command

AS_OF = "2026-11-30T05:00:00Z"


@pytest.fixture
def place(folder, monkeypatch):
    """A repository with evidence that leads to a rejection and its policy; the working directory."""
    folder.both().quality("candidate", [0.0] * 60)
    (folder.root.parent / "policy.yaml").write_text(folder.policy)
    monkeypatch.chdir(folder.root.parent)
    for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)
    return folder.root.parent


def run(*arguments):
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


def check(*arguments):
    return run("check", "--evidence", "evidence", "--policy", "policy.yaml", "--as-of", AS_OF, *arguments)


def test_every_format_goes_where_it_is_told(place):
    formats = ("text", "json", "markdown", "junit", "sarif", "gitlab", "html", "openmetrics")
    arguments = [part for name in formats for part in ("--report", f"{name}:out.{name}")]
    result = check(*arguments)
    assert (result.exit_code, result.stdout) == (3, "")
    for name in formats:
        assert (place / f"out.{name}").stat().st_size > 50
    assert json.loads((place / "out.json").read_text())["verdict"] == "reject"
    assert ET.parse(place / "out.junit").getroot().get("failures") == "1"


def test_a_report_replaces_the_text(place):
    assert check("--report", "gitlab").output.startswith("INFERCRANE_VERDICT=reject\n")
    assert check("--report", "gitlab:-").output.startswith("INFERCRANE_VERDICT=reject\n")
    assert check("--report", "text", "--report", "junit:x.xml").output.startswith("REJECT: ")


def test_annotations_point_below_the_working_directory(place):
    result = check("--policy", place / "policy.yaml", "--report", "github")
    assert result.stdout.startswith("::error file=policy.yaml,line=6,")


def test_github_files_are_appended_to(place, monkeypatch):
    for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"):
        (place / name).write_text("before\n")
        monkeypatch.setenv(name, str(place / name))
    assert check("--report", "github").exit_code == 3
    assert (place / "GITHUB_OUTPUT").read_text().startswith("before\nverdict=reject\ndecision=sha256:")
    assert (place / "GITHUB_STEP_SUMMARY").read_text().startswith("before\n### ❌ REJECT")


def test_outside_github_that_part_is_left_out_and_said(place):
    result = check("--report", "github")
    assert "github: GITHUB_OUTPUT is not set: that part of the report is left out" in result.stderr


def test_a_github_file_that_cannot_be_written_exits_2(place, monkeypatch):
    monkeypatch.setenv("GITHUB_OUTPUT", str(place / "no" / "output"))
    result = check("--report", "github")
    assert result.exit_code == 2
    assert "(GITHUB_OUTPUT): cannot be written" in result.output


def test_a_link_goes_into_reports_for_people(place):
    assert "](https://ci.example/1)" in check("--report", "markdown", "--link", "https://ci.example/1").output


@pytest.mark.parametrize("report", ["nonsense", "../text:x", "plots", ":x"])
def test_an_unknown_format_is_refused_with_those_there_are(place, report):
    result = check("--report", report)
    assert result.exit_code == 2
    assert f"there are {', '.join(known_reports())}" in " ".join(result.output.split())


@pytest.mark.parametrize(
    "reports",
    [("--report", "json", "--report", "text"), ("--json", "--report", "github"), ("--report", "html", "--json")],
)
def test_two_documents_on_standard_output_are_refused(place, reports):
    result = check(*reports)
    assert result.exit_code == 2
    assert "two reports on standard output" in result.output


@pytest.mark.parametrize(
    "reports",
    [
        ("--report", "junit:policy.yaml"),
        ("--report", "json:./x", "--report", "text:x"),
        ("--out", "x", "--report", "json:evidence/../x"),
        ("--out", "policy.yaml"),
        ("--report", "html:evidence/quality-candidate.evidence.json"),
    ],
)
def test_a_report_never_overwrites_an_input_or_another_report(place, reports):
    before = {path: path.read_bytes() for path in place.rglob("*.*") if path.is_file()}
    assert check(*reports).exit_code == 2
    assert {path: path.read_bytes() for path in place.rglob("*.*") if path.is_file()} == before


def test_a_report_replaces_files_alone(place):
    (place / "stdout").symlink_to("/dev/stdout")
    for path in ("evidence", "/dev/null", "stdout"):
        result = check("--report", f"junit:{path}")
        assert result.exit_code == 2
        assert "is a link or no file" in result.output
    assert (place / "stdout").is_symlink()


def test_reports_of_an_earlier_run_do_not_survive_one_that_came_to_nothing(place):
    reports = ("--out", "decision.json", "--report", "junit:guard.xml", "--exit-zero")
    assert check(*reports).exit_code == 0
    (place / "policy.yaml").write_text("nonsense")
    assert check(*reports).exit_code == 2
    assert not (place / "guard.xml").exists()
    assert not (place / "decision.json").exists()


def test_a_report_that_cannot_be_written_exits_2(place):
    result = check("--report", "junit:no/guard.xml")
    assert result.exit_code == 2
    assert "no/guard.xml: cannot be written" in result.output


def test_evidence_of_nothing_is_no_success(place):
    (place / "empty").mkdir()
    named = ("--candidate", "sha256:" + "1" * 64, "--baseline", "sha256:" + "2" * 64)
    result = check("--evidence", "empty", *named, "--report", "junit:guard.xml", "--report", "text")
    assert result.exit_code == 4
    assert ET.parse(place / "guard.xml").getroot().get("errors") == "5"


def test_explain_makes_every_report_of_a_record_alone(place):
    check("--out", "decision.json")
    record = (place / "decision.json").read_text()
    assert run("explain", "decision.json", "--json").output == record
    assert run("explain", "decision.json", "--report", "markdown").output.startswith("### ❌ REJECT")
    assert run("explain", "decision.json", "--report", "json:decision.json").exit_code == 2
    assert (place / "decision.json").read_text() == record
