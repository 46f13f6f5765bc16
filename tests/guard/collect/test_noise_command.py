"""`infercrane guard noise`: one revision against itself."""

import asyncio
import json

import pytest
from click.testing import CliRunner

from pulumi_infercrane.stacks.cli.guard import command
from tests.guard.collect.scripted import ScriptedServer

POLICY = """\
schema: infercrane.policy/v1
required_kinds: [benchmark]
rules:
  - {id: benchmark.error_fraction, limit: 0.2}
  - {id: benchmark.ttft_p50, margin: 3.0, min_pass: 20}
"""


@pytest.fixture
def place(folder):
    """Two runs of one revision, and a policy beside them."""
    folder.subjects["candidate"] = folder.subjects["baseline"]
    for seed, role in enumerate(("baseline", "candidate")):
        folder.benchmark(role, folder.seconds(100, seed=seed))
    (folder.root.parent / "policy.yaml").write_text(POLICY)
    return folder


def run(place, *arguments):
    files = ["--evidence", place.root, "--policy", place.root.parent / "policy.yaml"]
    return CliRunner().invoke(command, ["noise", *map(str, [*files, *arguments])])


def test_it_says_what_chance_does_to_every_rule(place):
    result = run(place)
    assert result.exit_code == 0, result.output
    assert "verdicts of 100 comparisons by chance: promote 100" in result.output
    assert "benchmark.ttft_p50: 100 a side\n  failed 0%, unknown 0% of 100 by chance" in result.output
    assert "margin 3; this noise needs 0." in result.output


def test_the_same_as_a_document(place):
    document = json.loads(run(place, "--json").output)
    assert document["revision_digest"] == place.baseline
    assert document["verdicts"] == {"promote": 100}
    errors, latency = document["rules"]
    assert (errors["rule"], errors["margin_needed"]) == ("benchmark.error_fraction", None)
    assert (latency["n"], latency["rejected"], latency["unknown"]) == (100, 0.0, 0.0)
    assert latency["enough"] == 20
    assert [one["outcome"] for one in latency["measured"]] == ["pass", "pass"]


def test_a_rule_that_cannot_be_judged_says_why(place):
    (place.root.parent / "policy.yaml").write_text(POLICY.replace("min_pass: 20", "min_pass: 900, min_compute: 500"))
    assert "not judged: insufficient_n: 100 of 900 requests on each side" in run(place).output


def test_two_runs_of_one_revision_are_needed(place):
    (place.root / "benchmark-candidate.evidence.json").unlink()
    result = run(place)
    assert result.exit_code == 2
    assert "say with --revision which one is meant; measured twice are: none" in result.output


def test_a_named_revision_without_two_runs_is_refused(place):
    result = run(place, "--revision", "sha256:" + "0" * 64)
    assert result.exit_code == 2
    assert "two runs of revision sha256:000000000000… are needed, admissible are: none" in result.output


async def test_an_endpoint_is_measured_twice_first(place, scripted):
    server: ScriptedServer = await scripted()
    for path in list(place.root.iterdir()):
        path.unlink()
    asked = ["--url", server.url, "--model", "chat", "--requests", "24", "--concurrency", "4", "--json"]
    result = await asyncio.to_thread(run, place, *asked)
    assert result.exit_code == 0, result.output
    assert len(list(place.root.rglob("*.evidence.json"))) == 2
    assert all(20 <= rule["n"] <= 24 for rule in json.loads(result.stdout)["rules"])
    assert len(server.prompts) == 2 * (24 + 4)
