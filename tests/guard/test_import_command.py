"""`infercrane guard import`: from files to evidence on the command line."""

import json
import shutil

import pytest
from click.testing import CliRunner

from pulumi_infercrane.guard import load_evidence
from pulumi_infercrane.guard.evidence import importing
from pulumi_infercrane.stacks.cli.guard import command
from pulumi_infercrane.stacks.config import from_file
from pulumi_infercrane.stacks.project import find_project
from tests.stacks.test_config import GOOD, SECOND


@pytest.fixture
def place(tmp_path, samples, subject_of, monkeypatch):
    monkeypatch.setattr(importing.time, "sleep", lambda seconds: None)
    shutil.copy(samples / "promptfoo" / "out.json", tmp_path / "out.json")
    (tmp_path / "r2.json").write_text(json.dumps(subject_of("r2")))
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


def imported(place, *arguments, scenario="suite"):
    said = ["--kind", "quality", "--role", "candidate", "--scenario", scenario, "--select", "provider=candidate"]
    return run("import", place / "out.json", *said, *arguments)


def test_it_shows_where_it_wrote_and_what_the_guard_reads(place):
    result = imported(place, "--subject", place / "r2.json")
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0] == str(place / "quality-candidate-out-candidate.evidence.json")
    assert lines[1] == "  tool: promptfoo, the only one whose reader takes the file"
    assert "  metric: pass" in lines
    assert "  mean score: 0.8333" in lines


def test_json_is_the_envelope(place):
    result = imported(place, "--subject", place / "r2.json", "--json", "--run-group", "night:2/3", "--planned", "6")
    (item,) = load_evidence(place).items
    envelope = json.loads(result.output)
    assert envelope["evidence_id"] == item.evidence_id
    assert envelope["run"] == {"group": "night", "ordinal": 2, "of": 3}
    assert envelope["planned"] == {"requests": 6}
    assert "exit_code" not in envelope["files"][0]


@pytest.mark.parametrize("code", [0, 100])
def test_what_the_tool_ended_with_is_kept(place, code):
    """promptfoo ends with 100 on a failed check."""
    result = imported(place, "--subject", place / "r2.json", "--json", "--exit-code", code)
    (item,) = load_evidence(place).items
    assert json.loads(result.output)["files"][0]["exit_code"] == item.envelope.primary.exit_code == code


def test_a_declared_revision_is_a_subject(place):
    (place / "Pulumi.yaml").write_text("name: p\nruntime: python\n")
    (place / "Pulumi.prod.yaml").write_text(GOOD)
    (place / "revisions").mkdir()
    (place / "revisions" / "r2.yaml").write_text(SECOND)
    assert imported(place, "-s", "prod", "-C", place, "--revision", "r2").exit_code == 0
    (item,) = load_evidence(place).items
    assert item.envelope.subject.revision_digest == from_file(find_project(place, "prod")).revision("r2").digest


def test_a_scenario_may_be_a_whole_file(place):
    (place / "scenario.json").write_text('{"id": "suite", "load_model": "closed", "concurrency": 4}')
    assert imported(place, "--subject", place / "r2.json", scenario=str(place / "scenario.json")).exit_code == 0
    (item,) = load_evidence(place).items
    assert item.envelope.scenario.concurrency == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--subject", "missing.json"], "missing.json: cannot be read"),
        (["--subject", "r2.json", "--window", "today"], "--window today: START/END is meant"),
        (["--subject", "r2.json", "--run-group", "a:b"], "--run-group a:b: GROUP or GROUP:2/3 is meant"),
        (["--subject", "r2.json", "--select", "x"], "--select x: KEY=VALUE is meant"),
        (["--subject", "r2.json", "more=x.json"], "one main FILE is needed"),
        ([], "say which revision was measured: --subject FILE, or -s STACK --revision NAME"),
    ],
)
def test_what_cannot_be_understood_exits_2_with_the_way_out(place, monkeypatch, arguments, message):
    monkeypatch.chdir(place)
    result = imported(place, *arguments)
    assert result.exit_code == 2
    assert message in result.output
