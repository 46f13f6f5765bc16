"""`infercrane guard canary` and `guard watch`: windows and a ledger in, an action and an exit code out."""

import json

import pytest
from click.testing import CliRunner

from pulumi_infercrane.guard import Ledger
from pulumi_infercrane.stacks.cli.guard import command
from tests.guard.rollout.conftest import NEW, OLD, POLICY, alone, flipped, minutes, opened, pair


@pytest.fixture
def place(tmp_path, write, monkeypatch):
    """A folder with a policy, a ledger whose newest decision let the canary begin, and an empty windows folder."""
    monkeypatch.chdir(tmp_path)
    write()
    (tmp_path / "policy.yaml").write_text(POLICY)
    Ledger(tmp_path / "ledger.jsonl").append(opened())
    return tmp_path


def run(name, *options):
    common = ["--policy", "policy.yaml", "--ledger", "ledger.jsonl", "--stack", "prod"]
    return CliRunner().invoke(command, [name, "windows", *common, *map(str, options)])


def at(minute):
    return ("--as-of", minutes(minute))


def decisions(place):
    return [entry.decision for entry in Ledger(place / "ledger.jsonl").entries()]


def test_a_candidate_goes_all_the_way(place, write):
    write(pair())
    first = run("canary", *at(10), "--record")
    assert (first.exit_code, first.output.partition(":")[0]) == (0, "ADVANCE")
    write(pair(weight=25, begin=10, end=20))
    second = run("canary", *at(20), "--record")
    assert (second.exit_code, second.output.partition(":")[0]) == (0, "FLIP")
    write(alone(begin=20, end=50))
    third = run("watch", *at(50), "--record")
    assert (third.exit_code, third.output.partition(":")[0]) == (0, "KEEP")
    assert len(decisions(place)[-1]["frozen"]) == 1
    (place / "evidence").mkdir()
    options = ["ledger.jsonl", "--evidence", "evidence", "--policy", "policy.yaml", "--windows", "windows"]
    verified = CliRunner().invoke(command, ["verify", *options])
    assert verified.exit_code == 0
    assert verified.output.count(": equal") == 3


def test_without_the_windows_only_the_chain_of_a_ledger_is_checked(place, write):
    write(pair())
    run("canary", *at(10), "--record")
    (place / "evidence").mkdir()
    options = ["ledger.jsonl", "--evidence", "evidence", "--policy", "policy.yaml"]
    verified = CliRunner().invoke(command, ["verify", *options])
    assert verified.exit_code == 1
    assert verified.output.count("not computed again") == 2
    assert "the windows it saw are not here: name their folder with --windows" in verified.output
    assert "chain of 2 entries: whole" in verified.output


def test_a_bad_step_exits_3_and_an_undecided_one_4(place, write):
    write(pair(failed=80))
    assert run("canary", *at(10)).exit_code == 3
    write(pair(n=20))
    assert run("canary", *at(10)).exit_code == 4


def test_a_bad_revision_goes_back_by_name(place, write):
    Ledger(place / "ledger.jsonl").append(flipped(decision_id="sha256:" + "a" * 64))
    write(alone(failed=80, end=5))
    done = run("watch", *at(5), "--json")
    assert done.exit_code == 3
    record = json.loads(done.output)
    assert (record["action"], record["rollback_to"]) == ("rollback", OLD)
    assert record["prev_decision_id"] == "sha256:" + "a" * 64


def test_only_what_is_recorded_counts_as_a_look(place, write):
    write(pair(n=20, end=1))
    run("canary", *at(1))
    assert len(decisions(place)) == 1
    run("canary", *at(1), "--record")
    write(pair(n=20, begin=1, end=2))
    assert "look 2" in run("canary", *at(2)).output


def test_a_held_step_keeps_its_start_and_a_step_back_begins_anew(place, write):
    write(pair(n=20))
    run("canary", *at(10), "--record")
    assert f"step 5 % since {minutes(0)}" in run("canary", *at(11)).output
    write(pair(n=20, weight=25, begin=0, end=60))
    asked = ("--candidate", NEW, "--baseline", OLD, "--weight", 25, "--started-at", minutes(0))
    run("canary", *at(60), *asked, "--record")
    assert f"step 5 % since {minutes(60)}" in run("canary", *at(61)).output


def test_the_first_step_is_the_one_the_promotion_gave_whatever_the_policy_says_now(place, write):
    (place / "policy.yaml").write_text(POLICY.replace("[5, 25, 100]", "[1, 5, 100]"))
    write(pair())
    assert f"step 5 % since {minutes(0)} · then 100 %" in run("canary", *at(10)).output


def test_a_promotion_without_a_canary_opens_no_step(place, write):
    Ledger(place / "ledger.jsonl").append(flipped(decision_id="sha256:" + "a" * 64))
    write(pair())
    done = run("canary", *at(10))
    assert done.exit_code == 2
    assert "no step is open: the last decision let the candidate take over" in done.output


def test_a_step_the_ledger_does_not_know_must_be_said(place, write):
    (place / "ledger.jsonl").write_text("")
    write(pair())
    done = run("canary", *at(10))
    assert done.exit_code == 2
    assert "no decision in it is about service 'chat' in stack 'prod'" in done.output
    assert "give --candidate, --baseline, --weight, --started-at of the step that is meant" in done.output
    asked = ("--candidate", NEW, "--baseline", OLD, "--weight", 5, "--started-at", minutes(0))
    assert run("canary", *at(10), *asked).exit_code == 0
    done = run("watch", *at(30))
    assert (done.exit_code, "no decision in it moved the route" in done.output) == (2, True)


@pytest.mark.parametrize("name", ["canary", "watch"])
def test_a_ledger_that_is_not_there_is_not_begun_anew(place, write, name):
    (place / "ledger.jsonl").rename(place / "ledgers.jsonl")
    write(pair())
    asked = ("--candidate", NEW, "--baseline", OLD, "--weight", 5) if name == "canary" else ()
    done = run(name, *at(10), *asked, "--started-at", minutes(0), "--record")
    assert done.exit_code == 2
    assert "ledger.jsonl: no such ledger; the promotion before the first step is in it" in done.output
    assert not (place / "ledger.jsonl").exists()


def test_a_ledger_with_something_else_in_it_is_refused_by_name(place, write):
    Ledger(place / "ledger.jsonl").append({"decision_id": "sha256:" + "b" * 64, "service": "chat", "stack": "prod"})
    write(pair())
    done = run("canary", *at(10))
    assert (done.exit_code, "ledger.jsonl: not a decision record: " in done.output) == (2, True)


def test_a_step_that_was_taken_back_does_not_go_on(place, write):
    write(pair(failed=80))
    run("canary", *at(10), "--record")
    done = run("canary", *at(11))
    assert done.exit_code == 2
    assert "no step is open: the last decision took the share back: give --candidate, --baseline" in done.output


def test_a_missing_windows_folder_is_unusable_input(place):
    (place / "windows").rmdir()
    assert run("canary", *at(10)).exit_code == 2


def test_sides_may_be_named_by_the_digits_that_reports_show(place, write):
    write(pair())
    sides = ("--candidate", NEW.removeprefix("sha256:")[:12], "--baseline", OLD[:19])
    assert json.loads(run("canary", *at(10), *sides, "--json").output)["candidate"] == NEW
    done = run("canary", *at(10), "--candidate", "r2")
    assert done.exit_code == 2
    assert "--candidate r2: not a revision digest, or the beginning of one; the windows have:" in done.output
