"""The pieces a pipeline is built of: the action, the GitLab job, the commands of the page, on real evidence."""

import json
import os
import re
import shlex
import subprocess
import sys
import xml.etree.ElementTree as ET
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from pulumi_infercrane.guard.times import format_time
from pulumi_infercrane.stacks.cli import cli

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
JOB = yaml.safe_load((ROOT / "templates" / "infercrane-guard.gitlab-ci.yml").read_text())["infercrane-guard"]
PAGE = (ROOT / "docs" / "ci.md").read_text()
UNREACHABLE = """\
schema: infercrane.policy/v1
required_kinds: [benchmark]
slo: {ttft_s: 0.001}
rules:
  - {id: benchmark.attainment, limit: 0.95}
"""
REPORTS = {"decision.json", "junit.xml", "comment.md", "report.html"}


@pytest.fixture
def repository(folder):
    """A checkout with evidence measured just now and its policy."""
    ended = datetime.now(UTC) - timedelta(minutes=5)
    window = {"started_at": format_time(ended - timedelta(minutes=2)), "ended_at": format_time(ended)}

    def fresh(envelope):
        envelope["window"] = window

    for role in ("baseline", "candidate"):
        folder.benchmark(role, folder.seconds(150, seed=len(role)), header=dict(window), change=fresh)
        folder.quality(role, header=dict(window), change=fresh)
    (folder.root.parent / "policy.yaml").write_text(folder.policy)
    return folder.root.parent


@pytest.fixture
def rejected(repository):
    """The same under a policy the candidate cannot meet."""
    (repository / "policy.yaml").write_text(UNREACHABLE)
    return repository


def shell(script, place, program="bash", **environment):
    """Run as a runner does: stop at the first error, nothing inherited but the path."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = [program, "-eo", "pipefail", "-c", script] if program == "bash" else [program, "-ec", script]
    return subprocess.run(
        command,
        cwd=place,
        env={"PATH": path, "LANG": "C.UTF-8"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


# --- the GitHub action ------------------------------------------------------------------------------------------


@pytest.fixture
def act(tmp_path):
    """Run the action's check step with inputs, the guard being installed already; returns the run and its outputs."""
    runner = tmp_path / "runner"
    (runner / "infercrane" / "bin").mkdir(parents=True)
    (runner / "infercrane" / "bin" / "infercrane").symlink_to(Path(sys.executable).parent / "infercrane")

    def run(place, **inputs):
        step = next(step for step in ACTION["runs"]["steps"] if step.get("id") == "check")
        defaults = {name: spec.get("default", "") for name, spec in ACTION["inputs"].items()}
        given = defaults | {"evidence": "evidence", "policy": "policy.yaml"}
        given |= {name.replace("_", "-"): value for name, value in inputs.items()}
        environment = {name: resolved(value, given) for name, value in step["env"].items()}
        files = {name: str(runner / name) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
        for file in files.values():
            Path(file).write_text("")
        done = shell(step["run"], place, **environment, **files, RUNNER_TEMP=str(runner))
        outputs = dict(line.split("=", 1) for line in (runner / "GITHUB_OUTPUT").read_text().splitlines())
        return done, outputs, (runner / "GITHUB_STEP_SUMMARY").read_text()

    return run


def resolved(value, inputs):
    value = re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda match: inputs[match[1]], value)
    return re.sub(r"\$\{\{ github\.(\w+) \}\}", r"https://ci.example", value)


def test_the_action_is_composite_and_every_output_comes_from_its_step():
    assert ACTION["runs"]["using"] == "composite"
    assert all(step["shell"] == "bash" for step in ACTION["runs"]["steps"])
    for name, output in ACTION["outputs"].items():
        assert output["value"] == f"${{{{ steps.check.outputs.{name} }}}}"


def test_no_input_is_ever_written_into_a_script():
    assert not any("${{" in step["run"] for step in ACTION["runs"]["steps"])
    used = " ".join(value for step in ACTION["runs"]["steps"] for value in step["env"].values())
    assert all(f"${{{{ inputs.{name} }}}}" in used for name in ACTION["inputs"])


def test_the_action_promotes(act, repository):
    done, outputs, summary = act(repository)
    assert done.returncode == 0, done.stdout + done.stderr
    decision = json.loads((repository / "infercrane-guard" / "decision.json").read_text())
    assert outputs == {"verdict": "promote", "decision": decision["decision_id"], "reports": "infercrane-guard"}
    assert summary.startswith("### ✅ PROMOTE")
    names = {path.name for path in (repository / "infercrane-guard").iterdir()}
    assert names == REPORTS | {"guard.sarif", "annotations.txt"}


def test_the_action_rejects_with_annotations_after_the_text(act, rejected):
    done, outputs, _ = act(rejected)
    assert (done.returncode, outputs["verdict"]) == (3, "reject")
    _, token, rest = re.split(r"::stop-commands::(.+)\n", done.stdout)
    said, resumed, annotations = rest.partition(f"::{token}::\n")
    assert said.startswith("REJECT")
    assert resumed
    assert annotations.startswith("::error file=policy.yaml,line=5,")


def test_a_report_only_action_succeeds_on_a_rejection(act, rejected):
    done, outputs, _ = act(rejected, exit_zero="true")
    assert (done.returncode, outputs["verdict"]) == (0, "reject")


def test_missing_evidence_is_no_success(act, repository):
    (repository / "evidence" / "quality-candidate.evidence.json").unlink()
    assert act(repository)[0].returncode == 4
    done, outputs, _ = act(repository, evidence="nowhere")
    assert done.returncode == 2
    assert "no verdict was reached (exit code 2)" in done.stdout
    assert "verdict" not in outputs
    assert not (repository / "infercrane-guard" / "junit.xml").exists()


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"evidence": ""}, "input EVIDENCE is empty"),
        ({"exit_zero": "yes"}, "input exit-zero is neither true nor false"),
        ({"reports": "x\nverdict=promote"}, "input REPORTS holds a control character"),
    ],
)
def test_an_input_that_cannot_be_meant_is_refused(act, repository, inputs, message):
    done, outputs, _ = act(repository, **inputs)
    assert (done.returncode, outputs) == (2, {})
    assert message in done.stdout


def test_an_input_stays_one_argument(act, repository):
    attack = "--help $(touch stolen) `touch stolen`; touch stolen; \" && touch stolen #'"
    names = ("candidate", "baseline", "stack")
    done, outputs, _ = act(repository, **dict.fromkeys(names, attack))
    assert done.returncode == 2
    assert "not a revision digest, or the beginning of one" in done.stderr
    done, outputs, _ = act(repository, reports=attack, service=attack)
    assert (done.returncode, outputs["reports"]) == (0, attack)
    assert not list(repository.glob("**/stolen"))


# --- the GitLab job ---------------------------------------------------------------------------------------------


def test_the_job_gates_on_everything_but_missing_evidence():
    assert JOB["allow_failure"] == {"exit_codes": [4]}
    assert JOB["artifacts"]["when"] == "always"


def test_the_job_leaves_the_reports_its_artifacts_name(repository):
    done = shell("\n".join(JOB["script"]), repository, "sh", **JOB["variables"])
    assert done.returncode == 0, done.stdout + done.stderr
    reports = JOB["artifacts"]["reports"]
    assert (
        (repository / reports["dotenv"])
        .read_text()
        .startswith("INFERCRANE_VERDICT=promote\nINFERCRANE_DECISION=sha256:")
    )
    assert (repository / reports["metrics"]).read_text().endswith("# EOF\n")
    assert ET.parse(repository / reports["junit"]).getroot().get("tests") == "3"
    assert {path.name for path in (repository / "infercrane-guard").iterdir()} == REPORTS | {
        "verdict.env",
        "metrics.txt",
    }


def test_the_job_passes_revisions_as_single_arguments(rejected):
    revision = {"INFERCRANE_CANDIDATE": "sha256:0 $(touch stolen)"}
    done = shell("\n".join(JOB["script"]), rejected, "sh", **JOB["variables"] | revision)
    assert (done.returncode, "not a revision digest" in done.stderr) == (2, True)
    assert not (rejected / "stolen").exists()


# --- the page ---------------------------------------------------------------------------------------------------


def commands():
    blocks = re.findall(r"^```\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.startswith("infercrane ")]


def test_every_command_of_the_page_does_what_it_says(repository, monkeypatch):
    monkeypatch.chdir(repository)
    for line in commands():
        result = CliRunner().invoke(cli, shlex.split(line)[1:])
        assert result.exit_code == 0, f"{line}\n{result.output}"
        written = re.findall(r"--report \w+:(\S+)", line)
        assert all((repository / name).stat().st_size for name in written)
    assert len(commands()) >= 7


def test_the_page_names_every_format():
    from pulumi_infercrane.guard.report import known_reports

    assert tuple(sorted(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE))) == known_reports()


def test_the_workflow_shown_uses_inputs_and_outputs_there_are():
    workflow, include = (
        yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    )
    step = next(step for step in workflow["jobs"]["guard"]["steps"] if step.get("id") == "guard")
    assert set(step["with"]) <= set(ACTION["inputs"])
    assert {name for name, spec in ACTION["inputs"].items() if spec.get("required")} <= set(step["with"])
    assert set(re.findall(r"steps\.guard\.outputs\.(\w+)", PAGE)) <= set(ACTION["outputs"])
    assert set(include["infercrane-guard"]["variables"]) <= set(JOB["variables"])
