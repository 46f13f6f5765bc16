"""Operations: interrupted, twice at once, and with a router that is gone."""

import json
import os
import signal
import sqlite3
import time
from pathlib import Path

import pytest

from pulumi_infercrane.components.supervision.observing import read_record
from tests.e2e.lab import STACK, Lab

pytestmark = [pytest.mark.engine, pytest.mark.runtime]


def journal(lab: Lab) -> list[tuple[str, str]]:
    """Kind and state of every operation."""
    path = next((lab.folder / "s" / "operations").glob("*/ops.sqlite"))
    with sqlite3.connect(path) as db:
        rows = db.execute("select kind, state from operation order by rowid").fetchall()
    db.close()
    return rows


def wait_for(condition: object, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def test_intent_and_outcome_are_in_the_journal(lab: Lab) -> None:
    lab.declare({"r1": lab.revision()})
    lab.up()
    assert journal(lab) == [("deploy", "succeeded")]


def test_ctrl_c_during_up_ends_in_good_order_and_the_next_run_finishes(lab: Lab) -> None:
    lab.declare({"r1": lab.revision()})
    lab.up()
    lab.declare({"r1": lab.revision(), "r2": lab.revision("tiny-b")}, "r2")
    running = lab.start("up", "-s", STACK)
    wait_for(lambda: list((lab.folder / "s" / "operations").glob("*/*/up.out")) and len(journal(lab)) == 2)
    time.sleep(0.5)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 7, err
    assert "Traceback" not in err
    assert journal(lab)[-1] == ("deploy", "cancelled")
    assert lab.served_by() == "r1"

    assert lab.up(code=4)["active_after"] == "r1"
    assert set(lab.status()["revisions"]) == {"r1", "r2"}
    assert len(lab.servers()) == 2, "one server per revision, no ghost"


def test_two_at_once_the_second_is_told_who_holds_the_stack(lab: Lab) -> None:
    lab.declare({"r1": lab.revision()})
    first = lab.start("up", "-s", STACK)
    wait_for(lambda: list((lab.folder / "s" / "operations").glob("*/holder.json")))
    second = lab.infercrane("up", "-s", STACK, code=5)
    assert "another operation holds this stack: infercrane deploy of lab/dev" in second.text
    out, err = first.communicate(timeout=120)
    assert first.returncode == 0, out + err
    assert journal(lab) == [("deploy", "succeeded")]


def test_a_command_line_that_was_killed_leaves_a_stack_that_goes_on(lab: Lab) -> None:
    lab.declare({"r1": lab.revision()})
    running = lab.start("up", "-s", STACK)
    wait_for(lambda: list((lab.folder / "s" / "operations").glob("*/*/preview.json")))
    running.kill()
    running.communicate()
    wait_for(lambda: lab.infercrane("up", "-s", STACK, code=None).code == 0, 90)
    assert journal(lab)[-1] == ("deploy", "succeeded")
    assert journal(lab)[0][1] in ("failed", "cancelled")


def test_a_router_that_is_down_at_preview_comes_back_with_up_and_serves_what_it_served(lab: Lab) -> None:
    lab.promoted()
    kill_router(lab)
    preview = lab.pulumi("preview", "--stack", STACK)
    assert "router" in preview.text
    assert lab.up()["active_after"] == "r2"
    assert lab.served_by() == "r2"


def test_a_router_that_goes_down_before_the_flip_keeps_the_old_route(lab: Lab, tmp_path: Path) -> None:
    lab.measured()
    active = lab.control("GET", "/v1/services/chat").json()["table"]["active"]
    plan = str(tmp_path / "plan.json")
    lab.pulumi("preview", "--save-plan", plan, "--stack", STACK)
    kill_router(lab)
    answer = lab.pulumi("up", "--yes", "--skip-preview", "--plan", plan, "--stack", STACK, code=None)
    assert answer.code != 0
    assert "chat-router" in answer.text
    table = json.loads((lab.place.router / "chat.json").read_text())
    assert table["active"] == active
    assert lab.up()["active_after"] == "r2"
    assert lab.served_by() == "r2"


def kill_router(lab: Lab) -> None:
    """Kill the router and, before it could start another one, its supervisor: as a crash of the machine would."""
    record = read_record(lab.place.root / "processes" / "chat-router")
    assert record is not None
    for role in ("supervisor", "child"):
        os.kill(record[role]["pid"], signal.SIGKILL)
    wait_for(lambda: lab.infercrane("release", "status", "-s", STACK, code=None).code != 0)
