"""A candidate that takes over in steps, on real parts: every `up` decides on the traffic since the last."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pulumi_infercrane.components.supervision.observing import read_record
from pulumi_infercrane.guard import Ledger, load_windows
from tests.e2e.lab import POLICY, STACK, Lab
from tests.e2e.test_operations import wait_for
from tests.e2e.test_release import traffic

pytestmark = [pytest.mark.engine, pytest.mark.runtime]

STEPS = """\
  - {id: benchmark.error_fraction, class: H, limit: 0.2, min_pass: 10, min_compute: 5}
  - {id: benchmark.error_fraction_difference, margin: 0.5, min_pass: 10, min_compute: 5}
  - {id: benchmark.ttft_p95, margin: 4, min_pass: 10, min_compute: 5}
  - {id: benchmark.e2e_p95, margin: 4, min_pass: 10, min_compute: 5}
canary: {steps: [30, 60, 100], min_step: 3s, max_step: 1h}
post_promotion: {window: 3s, max_window: 1h}
"""


@pytest.fixture
def steps(lab: Lab) -> Lab:
    """r1 serves, r2 was measured, and may take over in steps."""
    head = POLICY.partition("  - {id")[0]
    (lab.project / "policy.yaml").write_text(head + STEPS)
    lab.measured()
    return lab


OPENED = {"r1": 70, "r2": 30}


def runs(lab: Lab, most: int = 15) -> Iterator[dict[str, Any]]:
    """One `up` after the other: each judges the traffic so far."""
    for _ in range(most):
        yield lab.up(code=None)
    raise AssertionError(f"undecided after {most} runs")


def decisions(lab: Lab) -> list[dict[str, Any]]:
    return [dict(entry.decision) for entry in Ledger(lab.place.ledger).entries()]


def test_a_candidate_takes_over_in_steps_under_load_without_a_failed_request(steps: Lab) -> None:
    with traffic(steps) as answers:
        opened = steps.up()
        assert (opened["verdict"], opened["action"], opened["active_after"]) == ("promote", "advance", "r1")
        assert opened["weights"] == OPENED
        outputs = steps.pulumi("stack", "output", "--json", "--stack", STACK).document
        assert (outputs["activeRevision"], outputs["weights"]) == ("r1", OPENED)
        taken = [opened["weights"]]
        for result in runs(steps):
            taken += [result["weights"]] if result["action"] != "hold" else []
            if result["active_after"] == "r2":
                break
            assert result["verdict"] != "reject", result["reasons"]
        look = steps.infercrane("release", "watch", "--json", "-s", STACK, code=4).document
    assert taken == [OPENED, {"r1": 40, "r2": 60}, {}]
    assert (look["state"], look["action"], look["candidate"]) == ("open", "hold", decisions(steps)[-1]["candidate"])
    assert look["windows"][-1]["used"], "the router went on counting after the flip"
    assert look["frozen"], "latency is judged against the step that ended in the flip"
    written = load_windows([steps.place.windows])
    assert {one.window.stack for one in written if one.window} == {f"lab/{STACK}"}
    assert {outcome for outcome, _ in answers} == {"complete"}
    assert len({revision for _, revision in answers}) == 2
    assert not steps.up()["changed"]
    assert steps.served_by() == "r2"

    moves = [one["action"] for one in decisions(steps) if one["action"] not in ("hold", "keep")]
    assert moves == ["flip", "advance", "advance", "flip"]
    asked = ["--evidence", str(steps.evidence), "--windows", str(steps.place.windows)]
    verified = steps.guard(
        "guard", "verify", str(steps.place.ledger), *asked, "--policy", f"{steps.project}/policy.yaml"
    )
    assert verified.code == 0, verified.text
    assert "not computed" not in verified.out

    steps.infercrane("rollback", "-s", STACK, "--reason", "no better")
    assert steps.served_by() == "r1"


def test_a_revision_that_crashes_after_it_took_over_is_rolled_back(lab: Lab) -> None:
    """Without steps the router counts from the first look on."""
    lab.promoted()
    (folder,) = (lab.place.root / "processes").glob("r2-*/")
    lab.infercrane("release", "watch", "-s", STACK, code=4)
    crash(lab, folder.name)
    failed = lab.infercrane("release", "watch", "--json", "-s", STACK, code=3)
    assert failed.document["action"] == "rollback"
    assert "rolled back to r1" in failed.err
    assert lab.served_by() == "r1"
    assert "nothing to watch" in lab.infercrane("release", "watch", "-s", STACK, code=2).text
    assert lab.up(code=4)["active_after"] == "r1"


def test_the_way_shown_goes_all_the_way(steps: Lab) -> None:
    page = Path(__file__).parents[2] / "docs" / "canary.md"
    shown = re.findall(r"^```sh\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)[0]
    path = f"{Path(sys.executable).parent}:{steps.environment['PATH']}"
    with traffic(steps):
        done = subprocess.run(
            ["sh", "-ec", shown.replace("sleep 600", "sleep 10")],
            cwd=steps.project,
            env=steps.environment | {"PATH": path},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "r2 has 30 % of the traffic" in done.stdout
    assert "r2 has 60 % of the traffic" in done.stdout
    assert "the route moved from r1 to r2" in done.stdout
    assert steps.served_by() == "r2"


def test_a_candidate_that_crashes_loses_its_share_and_nothing_is_redeployed(steps: Lab) -> None:
    steps.up()
    before = {name: revision["url"] for name, revision in steps.status()["revisions"].items()}
    (folder,) = (steps.place.root / "processes").glob("r2-*/")
    crash(steps, folder.name)
    result = steps.up(code=3)
    assert (result["verdict"], result["action"], result["active_after"]) == ("reject", "rollback", "r1")
    assert result["weights"] == {}
    assert "restarted" in result["reasons"][0]
    assert {name: revision["url"] for name, revision in steps.status()["revisions"].items()} == before
    assert steps.up(code=4)["weights"] == {}, "the same evidence does not open it again"


def crash(lab: Lab, name: str) -> None:
    """Kill a server, and wait until its supervisor has started it again."""
    folder = lab.place.root / "processes" / name
    first = read_record(folder)
    assert first
    os.kill(first["child"]["pid"], signal.SIGKILL)
    wait_for(lambda: (read_record(folder) or {})["restarts"] > first["restarts"])


def test_a_command_that_is_killed_on_the_way_can_be_run_again(steps: Lab) -> None:
    running = steps.start("up", "-s", STACK)
    wait_for(lambda: list((steps.folder / "s" / "operations").glob("*/*/up.out")) and running_is_applying(steps))
    running.kill()
    running.communicate()
    wait_for(lambda: steps.infercrane("up", "-s", STACK, code=None).code in (0, 4), 90)
    assert steps.status()["revisions"]["r1"]["state"] == "active"
    weights = steps.control("GET", "/v1/services/chat").json()["weights"]
    assert sorted(weights.values()) == [30, 70]
    back = steps.infercrane("rollback", "-s", STACK, "--reason", "second thoughts", "--json").document
    assert (back["active_after"], back["weights"]) == ("r1", {})
    opened = [record for record in decisions(steps) if record["action"] == "advance"]
    assert len(opened) == 1


def running_is_applying(lab: Lab) -> bool:
    """The third operation of the story has come to its `up`."""
    return len(list((lab.folder / "s" / "operations").glob("*/*/up.out"))) == 3


def test_a_candidate_that_is_given_up_loses_its_share(steps: Lab) -> None:
    steps.up()
    revisions = {"r1": steps.revision(), "r2": steps.revision(max_concurrency=4)}
    steps.declare({"r1": revisions["r1"]})
    assert "declare it until its share is taken back" in steps.infercrane("up", "-s", STACK, code=1).text
    steps.declare(revisions)
    assert steps.up()["weights"] == {}
    steps.declare({"r1": revisions["r1"]})
    assert set(steps.up()["weights"]) == set()
    assert set(steps.status()["revisions"]) == {"r1"}
