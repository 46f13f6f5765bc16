"""The main job on real parts: a candidate beside the active revision, and the route that moves only on evidence."""

import asyncio
import json
import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import aiohttp
import pytest
import yaml

from pulumi_infercrane.components.supervision.observing import read_record
from pulumi_infercrane.guard import Ledger
from tests.e2e.lab import SERVICE, STACK, Lab

QUALITY_POLICY = """\
schema: infercrane.policy/v1
service: chat
bootstrap: true
required_kinds: [quality]
min_duration_s: 0
rules:
  - {id: quality.own, class: H, margin: 0.05, min_pass: 40}
"""

pytestmark = [pytest.mark.engine, pytest.mark.runtime]


def test_the_first_revision_serves_and_a_second_run_changes_nothing(lab: Lab) -> None:
    lab.declare({"r1": lab.revision()})
    first = lab.up()
    assert (first["active_before"], first["active_after"]) == ("", "r1")
    assert lab.served_by() == "r1"
    again = lab.up()
    assert not again["changed"]
    assert again["generation"] == first["generation"]
    assert again["decision_id"] == first["decision_id"]


def test_a_candidate_runs_without_traffic_until_it_is_measured(lab: Lab) -> None:
    revisions = {"r1": lab.revision()}
    lab.declare(revisions)
    lab.up()
    lab.declare(revisions | {"r2": lab.revision(max_concurrency=4)}, "r2")
    result = lab.up(code=4)
    assert (result["verdict"], result["action"], result["active_after"]) == ("insufficient_evidence", "keep", "r1")
    assert "no_evidence" in " ".join(result["reasons"])
    assert set(lab.status()["revisions"]) == {"r1", "r2"}
    assert lab.served_by() == "r1"
    assert not lab.up(code=4)["changed"]


def test_measured_evidence_moves_the_route_under_load_without_a_failed_request(lab: Lab) -> None:
    revisions = {"r1": lab.revision(), "r2": lab.revision(max_concurrency=4)}
    lab.declare({"r1": revisions["r1"]})
    lab.up()
    lab.declare(revisions, "r2")
    lab.up(code=4)
    with traffic(lab) as answers:
        lab.collect()
        result = lab.up()
    assert (result["verdict"], result["active_after"]) == ("promote", "r2")
    assert {outcome for outcome, _ in answers} == {"complete"}
    assert len({revision for _, revision in answers}) == 2
    assert lab.served_by() == "r2"
    assert not lab.up()["changed"]


def test_every_decision_is_in_the_ledger_and_can_be_recomputed(lab: Lab, tmp_path: Path) -> None:
    lab.promoted()
    types = [entry.decision["decision_type"] for entry in Ledger(lab.place.ledger).entries()]
    assert types == ["bootstrap", "promotion", "promotion"]
    record = lab.infercrane("release", "explain", "--json", "-s", STACK).document
    decision = tmp_path / "decision.json"
    decision.write_text(json.dumps(record))
    policy = lab.project / "policy.yaml"
    asked = ["--evidence", str(lab.evidence), "--policy", str(policy), "--ledger", str(lab.place.ledger)]
    verified = lab.guard("guard", "verify", str(decision), *asked)
    assert verified.code == 0, verified.text


def test_rollback_is_a_route_change_and_the_revision_does_not_come_back_on_old_evidence(lab: Lab) -> None:
    lab.promoted()
    before = {name: revision["url"] for name, revision in lab.status()["revisions"].items()}
    result = lab.infercrane("rollback", "-s", STACK, "--reason", "answers cut short", "--json").document
    assert (result["active_before"], result["active_after"]) == ("r2", "r1")
    assert {name: revision["url"] for name, revision in lab.status()["revisions"].items()} == before
    assert lab.served_by() == "r1"

    again = lab.infercrane("rollback", "-s", STACK, "--reason", "pressed twice", code=1)
    assert "only by new evidence" in again.text
    kept = lab.up(code=4)
    assert kept["active_after"] == "r1"
    assert not lab.up(code=4)["changed"]
    assert "rolled back" in " ".join(kept["reasons"])

    lab.collect()
    assert lab.up()["active_after"] == "r2"


def test_an_override_moves_the_route_by_a_signed_order_and_by_nothing_less(lab: Lab, tmp_path: Path) -> None:
    revisions = {"r1": lab.revision(), "r2": lab.revision(max_concurrency=4)}
    lab.declare({"r1": revisions["r1"]})
    lab.up()
    lab.declare(revisions, "r2")
    lab.up(code=4)
    key = str(tmp_path / "ann.pem")
    lines = lab.guard("guard", "keygen", key).out
    order = ["override", "--to", "r2", "--owner", "ann", "--reason", "r1 leaks", "--expires", "1h", "--key", key]
    refused = lab.infercrane(*order, "-s", STACK, code=1)
    assert "trusts no key" in refused.text
    assert lab.served_by() == "r1"

    policy = lab.project / "policy.yaml"
    policy.write_text(policy.read_text() + re.sub(r"kinds: \[.*\]", "kinds: [override]", lines))
    result = lab.infercrane(*order, "-s", STACK, "--json").document
    assert (result["active_before"], result["active_after"]) == ("r1", "r2")
    assert result["record"]["decision_type"] == "override"
    assert lab.served_by() == "r2"
    assert not lab.up()["changed"]
    asked = ["--evidence", str(tmp_path), "--policy", str(policy)]
    assert lab.guard("guard", "verify", str(lab.place.ledger), *asked).code == 0

    lab.infercrane("rollback", "-s", STACK, "--reason", "no better")
    assert lab.served_by() == "r1"
    assert lab.up(code=4)["active_after"] == "r1"


def test_an_override_does_not_reach_a_target_that_is_not_ready(lab: Lab, tmp_path: Path) -> None:
    """It is an order against the guard, not against the facts."""
    revisions = {"r1": lab.revision()}
    lab.declare(revisions)
    lab.up()
    key = str(tmp_path / "ann.pem")
    policy = lab.project / "policy.yaml"
    trusted = re.sub(r"kinds: \[.*\]", "kinds: [override]", lab.guard("guard", "keygen", key).out)
    policy.write_text(policy.read_text() + trusted)
    order = ["override", "--to", "r2", "--owner", "ann", "--reason", "r1 leaks", "--expires", "1h", "--key", key]

    lab.declare(revisions | {"r2": lab.revision("tiny-answers-500")})
    assert "generation_failed" in lab.infercrane(*order, "-s", STACK, code=1).text
    assert lab.served_by() == "r1"

    lab.declare(revisions | {"r3": lab.revision(max_concurrency=4)})
    lab.up()
    (folder,) = (lab.place.root / "processes").glob("r3-*/")
    order[2] = "r3"
    hung = (read_record(folder) or {})["child"]["pid"]
    os.kill(hung, signal.SIGSTOP)
    assert "is not ready, route not moved" in lab.infercrane(*order, "-s", STACK, code=1).text
    assert lab.served_by() == "r1"
    os.kill(hung, signal.SIGCONT)
    assert lab.infercrane(*order, "-s", STACK, "--json").document["active_after"] == "r3"


def test_plain_pulumi_up_comes_to_the_same_decision(lab: Lab) -> None:
    revisions = {"r1": lab.revision(), "r2": lab.revision(max_concurrency=4)}
    lab.declare({"r1": revisions["r1"]})
    lab.pulumi("up", "--yes", "--stack", STACK)
    lab.declare(revisions, "r2")
    lab.pulumi("up", "--yes", "--stack", STACK)
    assert lab.served_by() == "r1"
    lab.collect()
    lab.pulumi("up", "--yes", "--stack", STACK)
    assert lab.served_by() == "r2"
    outputs = lab.pulumi("stack", "output", "--json", "--stack", STACK).document
    assert (outputs["activeRevision"], outputs["previousRevision"], outputs["verdict"]) == ("r2", "r1", "promote")
    assert outputs["url"] == lab.url


def test_evidence_changed_after_the_plan_stops_the_update_before_the_route_moves(lab: Lab, tmp_path: Path) -> None:
    lab.measured()
    plan = str(tmp_path / "plan.json")
    lab.pulumi("preview", "--save-plan", plan, "--stack", STACK)
    edit_one_result(lab.evidence)
    answer = lab.pulumi("up", "--yes", "--skip-preview", "--plan", plan, "--stack", STACK, code=None)
    assert answer.code != 0
    assert "violates plan" in answer.text
    assert lab.served_by() == "r1"


def test_a_route_moved_by_hand_is_noticed_and_no_decision_is_claimed_for_it(lab: Lab) -> None:
    lab.promoted()
    digests = {name: revision["digest"] for name, revision in lab.status()["revisions"].items()}
    by_hand = {"expected_active": digests["r2"], "to": digests["r1"], "decision_id": "by-hand"}
    assert lab.control("POST", f"/v1/services/{SERVICE}/flip", by_hand).status_code == 200
    doctor = lab.infercrane("doctor", "-s", STACK, code=None)
    assert "moved by hand" in doctor.text

    lab.declare({"r1": lab.revision(), "r2": lab.revision(max_concurrency=4)})
    result = lab.up()
    assert result["active_after"] == "r1"
    assert "moved by hand" in result["reasons"][0]
    assert lab.served_by() == "r1"


def test_a_previous_revision_that_is_no_longer_declared_is_drained_and_stopped(lab: Lab) -> None:
    revisions = lab.promoted()
    lab.declare({"r2": revisions["r2"]}, "r2")
    lab.up()
    assert set(lab.status()["revisions"]) == {"r2"}
    assert lab.served_by() == "r2"
    assert len(lab.servers()) == 1


def test_a_candidate_that_answers_otherwise_is_rejected_and_pulumi_up_stays_green(lab: Lab) -> None:
    """The task file asks for what the active revision says; the candidate has other weights and says other things."""
    revisions = {"r1": lab.revision("tiny-a"), "r2": lab.revision("tiny-b")}
    (lab.project / "policy.yaml").write_text(QUALITY_POLICY)
    lab.declare({"r1": revisions["r1"]})
    lab.up()
    lab.declare(revisions, "r2")
    lab.up(code=4)
    tasks = what_it_says(lab, lab.project / "tasks.yaml", items=40)
    lab.infercrane("collect", "-s", STACK, "--kind", "quality", "--tasks", str(tasks))
    result = lab.up(code=3)
    assert (result["verdict"], result["action"], result["active_after"]) == ("reject", "keep", "r1")
    assert "margin_exceeded" in result["reasons"][0]
    lab.pulumi("up", "--yes", "--stack", STACK)
    assert lab.served_by() == "r1"
    history = lab.infercrane("release", "history", "--json", "-s", STACK)
    assert [record["verdict"] for record in json.loads(history.out)] == ["promote", "insufficient_evidence", "reject"]


def what_it_says(lab: Lab, path: Path, items: int) -> Path:
    """A task file whose answers are words that the service says itself, greedily."""
    asked = []
    for number in range(items):
        prompt = f"the model {number} and the server {number * 7}"
        message = [{"role": "user", "content": prompt}]
        answer = lab.chat(messages=message, max_tokens=12, temperature=0).json()["choices"][0]["message"]["content"]
        words = sorted(set(re.findall(r"[A-Za-z]{3,}", answer)), key=len)
        asked.append({"id": f"{number:04d}", "prompt": prompt, "expect": words[-1:] or ["nothing"]})
    tasks = {"schema": "infercrane.tasks/v1", "name": "own", "metric": "contains", "max_tokens": 12, "items": asked}
    path.write_text(yaml.safe_dump(tasks))
    return path


def test_destroying_a_service_in_use_needs_a_second_thought(lab: Lab) -> None:
    lab.declare({"r1": lab.revision()})
    lab.up()
    answer = lab.pulumi("destroy", "--yes", "--stack", STACK, code=None)
    assert answer.code != 0
    assert "protected" in answer.text
    assert lab.served_by() == "r1"


def edit_one_result(evidence: Path) -> None:
    path = next(evidence.rglob("*.benchmark.jsonl"))
    path.write_text(path.read_text().replace('"outcome":"complete"', '"outcome":"truncated"', 1))


@contextmanager
def traffic(lab: Lab) -> Iterator[list[tuple[str, str]]]:
    """A client that streams all the time; yields pairs of outcome and revision."""
    answers: list[tuple[str, str]] = []
    stop = Event()
    body = {"model": SERVICE, "stream": True, "max_tokens": 64, "messages": [{"role": "user", "content": "the model"}]}

    async def ask() -> None:
        async with aiohttp.ClientSession(trust_env=False) as session:
            while not stop.is_set():
                async with session.post(f"{lab.url}/chat/completions", json=body) as answer:
                    text = await answer.text()
                    outcome = "complete" if '"finish_reason":"' in text else f"{answer.status}: {text[-300:]}"
                    answers.append((outcome, answer.headers.get("x-infercrane-revision", "")))

    thread = Thread(target=lambda: asyncio.run(ask()))
    thread.start()
    try:
        yield answers
    finally:
        stop.set()
        thread.join()
