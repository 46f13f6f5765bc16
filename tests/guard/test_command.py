"""`infercrane guard`: files in, a verdict and an exit code out."""

import json

import pytest
from click.testing import CliRunner

from pulumi_infercrane.guard import Ledger
from pulumi_infercrane.stacks.cli.guard import command

AS_OF = "2026-11-30T05:00:00Z"


@pytest.fixture
def place(folder):
    """A folder of good evidence with its policy beside it."""
    folder.both()
    (folder.root.parent / "policy.yaml").write_text(folder.policy)
    return folder


def run(*arguments):
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


def files(place):
    return ["--evidence", place.root, "--policy", place.root.parent / "policy.yaml"]


def check(place, *arguments):
    return run("check", *files(place), "--as-of", AS_OF, *arguments)


def test_good_evidence_exits_0(place):
    result = check(place)
    assert result.exit_code == 0
    assert result.output.startswith("PROMOTE: the candidate may take over\n")


def test_a_rejection_exits_3(place):
    place.quality("candidate", [0.0] * 60)
    result = check(place)
    assert result.exit_code == 3
    assert "quality.basics: margin_exceeded" in result.output


def test_insufficient_evidence_exits_4(place):
    (place.root / "quality-candidate.evidence.json").unlink()
    assert check(place).exit_code == 4


def test_a_report_only_run_exits_0(place):
    place.quality("candidate", [0.0] * 60)
    assert check(place, "--exit-zero").exit_code == 0


def test_a_policy_that_cannot_be_used_exits_2_even_then(place):
    (place.root.parent / "policy.yaml").write_text(place.policy.replace("margin", "margn"))
    result = check(place, "--exit-zero")
    assert result.exit_code == 2
    assert "policy.yaml:5: unknown key 'margn', did you mean 'margin'?" in result.output


@pytest.mark.parametrize("name", ["evidence", "policy.yaml"])
def test_a_missing_input_exits_2(place, name):
    (place.root.parent / name).rename(place.root.parent / "elsewhere")
    result = check(place)
    assert result.exit_code == 2
    assert result.output.startswith("error: ")


def test_an_internal_error_is_no_verdict(place, monkeypatch):
    monkeypatch.setattr("pulumi_infercrane.stacks.cli.guard.decide", lambda *_, **__: 1 / 0)
    out = place.root.parent / "decision.json"
    assert check(place, "--out", out).exit_code == 1
    assert not out.exists()


def test_without_a_time_freshness_is_judged_now(place):
    window = {"started_at": "2020-11-30T04:00:00Z", "ended_at": "2020-11-30T04:02:00Z"}
    place.benchmark("candidate", header=dict(window), change=lambda envelope: envelope.update(window=window))
    result = run("check", *files(place))
    assert result.exit_code == 4
    assert "benchmark: stale: measured until 2020-11-30T04:02:00Z" in result.output


def test_revisions_may_be_named(place):
    assert check(place, "--candidate", place.candidate, "--baseline", place.baseline).exit_code == 0
    assert check(place, "--candidate", "sha256:" + "0" * 64).exit_code == 4


def test_several_candidates_are_listed_instead_of_guessed(place, new_folder):
    other = new_folder(candidate="r9")
    other.root = place.root
    other.quality("candidate", name="other")
    result = check(place)
    assert result.exit_code == 2
    assert "say with --candidate which revision is meant" in result.output
    assert place.candidate in result.output
    assert other.candidate in result.output


def test_a_revision_may_be_named_by_the_digits_that_reports_show(place):
    named = ["--candidate", place.candidate.removeprefix("sha256:")[:12], "--baseline", place.baseline[:19]]
    record = json.loads(check(place, *named, "--json").output)
    assert (record["candidate"], record["baseline"]) == (place.candidate, place.baseline)


@pytest.mark.parametrize("text", ["r2", "sha256:abcd", "sha256:" + "0" * 63])
def test_what_is_no_revision_digest_exits_2_with_those_there_are(place, text):
    result = check(place, "--candidate", text)
    assert result.exit_code == 2
    assert f"--candidate {text}: not a revision digest, or the beginning of one; the evidence has:" in result.output
    assert place.candidate in result.output


def test_an_ambiguous_beginning_exits_2(place):
    result = check(place, "--candidate", "sha256:")
    assert result.exit_code == 2
    assert "--candidate sha256:: more than one revision digest begins so" in result.output


def test_an_empty_folder_says_how_to_fill_it(place, tmp_path):
    (tmp_path / "empty").mkdir()
    result = run("check", "--evidence", tmp_path / "empty", "--policy", place.root.parent / "policy.yaml")
    assert result.exit_code == 2
    assert "empty: no *.evidence.json in it or below: make one of a tool's file" in result.output


def test_envelopes_that_cannot_be_read_are_named_before_a_revision_is_asked_for(place):
    for file in place.root.glob("*-candidate*.evidence.json"):
        file.write_text(file.read_text().replace('"candidate"', '"candidat"'))
    (place.root / "cut.evidence.json").write_text("{")
    result = check(place)
    assert result.exit_code == 2
    assert "no envelope that can be read has the role candidate; these cannot be read:" in result.output
    assert "  cut.evidence.json: not_json: " in result.output
    assert "  quality-candidate.evidence.json: bad_value: role: 'candidate' or 'baseline' was expected" in result.output


def test_without_any_envelope_in_a_role_it_asks(place):
    for file in place.root.glob("*-baseline*.evidence.json"):
        file.unlink()
    result = check(place)
    assert result.exit_code == 2
    assert "no envelope has the role baseline: say with --baseline which revision is meant" in result.output


def test_files_that_do_not_count_are_named(place):
    (place.root / "broken.evidence.json").write_text("{")
    assert "broken.evidence.json: not_json" in check(place).output


def test_json_is_the_record(place):
    result = check(place, "--json", "--service", "chat", "--stack", "org/proj/dev")
    record = json.loads(result.output)
    assert (record["verdict"], record["service"], record["stack"]) == ("promote", "chat", "org/proj/dev")


@pytest.fixture
def decision(place):
    path = place.root.parent / "decision.json"
    assert check(place, "--out", path).exit_code == 0
    return path


def test_a_record_that_cannot_be_written_exits_2(place):
    assert check(place, "--out", place.root.parent / "no" / "decision.json").exit_code == 2


def test_explain_needs_the_record_alone(decision, place):
    (place.root.parent / "policy.yaml").unlink()
    result = run("explain", decision)
    assert result.exit_code == 0
    assert result.output.startswith("PROMOTE")


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"schema": "x"}', '{"a": NaN}', '{"schema": "infercrane.decision/v1"}']
)
def test_explain_of_something_else_exits_2(tmp_path, content):
    (tmp_path / "x.json").write_text(content)
    result = run("explain", tmp_path / "x.json")
    assert result.exit_code == 2
    assert "not a decision record" in result.output


def test_explain_does_not_repeat_an_edited_record(decision):
    record = json.loads(decision.read_text())
    decision.write_text(json.dumps(record | {"service": "billing"}))
    result = run("explain", decision)
    assert (result.exit_code, "the record was edited" in result.output) == (2, True)


@pytest.mark.parametrize(
    ("name", "value"), [("as_of", 5), ("evidence", 3), ("rules", [{"rule": "x"}]), ("history", None), ("reasons", [])]
)
def test_a_record_of_another_shape_cannot_be_verified(decision, place, name, value):
    record = json.loads(decision.read_text()) | {name: value}
    decision.write_text(json.dumps({key: part for key, part in record.items() if part is not None}))
    result = run("verify", decision, *files(place))
    assert result.exit_code == 2
    assert f"decision.json: not a decision record: {name}" in result.output


def test_verify_of_an_untouched_decision_exits_0(decision, place):
    result = run("verify", decision, *files(place))
    assert (result.exit_code, result.output[12:]) == (0, ": equal\n")


def test_verify_names_the_field_that_differs(decision, place):
    record = json.loads(decision.read_text())
    record["rules"][0]["hi"] = 0.5
    decision.write_text(json.dumps(record))
    result = run("verify", decision, *files(place))
    assert result.exit_code == 1
    assert "rules[0].hi: 0.5 recorded, 0.0197734382 computed" in result.output


def test_verify_as_json(decision, place):
    result = run("verify", decision, *files(place), "--json")
    record = json.loads(decision.read_text())
    equal = {"decision_id": record["decision_id"], "result": "equal", "detail": "", "differences": []}
    assert json.loads(result.output) == {"holds": True, "decisions": [equal]}
    decision.write_text(json.dumps(record | {"verdict": "reject"}))
    result = run("verify", decision, *files(place), "--json")
    assert result.exit_code == 1
    assert json.loads(result.output)["decisions"][0]["differences"] == [
        "verdict: 'reject' recorded, 'promote' computed"
    ]


def test_verify_notices_another_policy(decision, place):
    (place.root.parent / "policy.yaml").write_text(place.policy.replace("0.05", "0.06"))
    result = run("verify", decision, *files(place))
    assert result.exit_code == 1
    assert "policy_digest: " in result.output


def test_verify_of_evidence_that_is_gone_exits_1(decision, place):
    (place.root / "quality-candidate.evidence.json").unlink()
    result = run("verify", decision, *files(place))
    assert result.exit_code == 1
    assert "is gone or was changed" in result.output


@pytest.fixture
def ledger(place, decision):
    ledger = Ledger(place.root.parent / "ledger.jsonl")
    ledger.append(json.loads(decision.read_text()))
    second = place.root.parent / "second.json"
    assert check(place, "--ledger", ledger.path, "--out", second).exit_code == 0
    ledger.append(json.loads(second.read_text()))
    return ledger


def test_verify_of_a_ledger_walks_all_of_it(ledger, place):
    result = run("verify", ledger.path, *files(place))
    assert result.exit_code == 0
    assert result.output.count(": equal") == 2
    assert result.output.endswith("chain of 2 entries: whole\n")


def test_verify_of_a_decision_may_need_the_ledger(ledger, place):
    second = place.root.parent / "second.json"
    assert "give the ledger" in run("verify", second, *files(place)).output
    assert run("verify", second, *files(place), "--ledger", ledger.path).exit_code == 0


def test_verify_of_a_broken_ledger_exits_1_and_names_the_line(ledger, place):
    lines = ledger.path.read_bytes().splitlines(keepends=True)
    ledger.path.write_bytes(lines[1])
    result = run("verify", ledger.path, *files(place))
    assert result.exit_code == 1
    assert "ledger.jsonl:1: the chain is broken" in result.output


def test_verify_of_a_ledger_that_computed_nothing_again_exits_1(ledger, place):
    (place.root / "quality-candidate.evidence.json").unlink()
    result = run("verify", ledger.path, *files(place))
    assert result.exit_code == 1
    assert result.output.count("its evidence is not here") == 2
    assert "not one decision could be computed again" in result.output
    (place.root.parent / "policy.yaml").write_text(place.policy + "# tightened\n")
    assert run("verify", ledger.path, *files(place)).output.count("made with another policy") == 2


def test_verify_of_a_ledger_as_json(ledger, place):
    document = json.loads(run("verify", ledger.path, *files(place), "--json").output)
    assert [one["result"] for one in document["decisions"]] == ["equal", "equal"]
    assert document["chain"] == {"entries": 2, "whole": True, "problem": ""}
    ledger.path.write_bytes(ledger.path.read_bytes().splitlines(keepends=True)[1])
    result = run("verify", ledger.path, *files(place), "--json")
    assert result.exit_code == 1
    assert "the chain is broken" in json.loads(result.output)["chain"]["problem"]


def test_verify_of_an_empty_ledger_verified_nothing(place):
    (place.root.parent / "ledger.jsonl").write_bytes(b"")
    result = run("verify", place.root.parent / "ledger.jsonl", *files(place))
    assert (result.exit_code, result.output) == (1, "an empty ledger: nothing to verify\n")


def test_a_first_revision_is_checked_and_verified(place):
    policy = place.root.parent / "policy.yaml"
    assert (check(place, "--bootstrap").exit_code, check(place, "--bootstrap", "--baseline", "x").exit_code) == (2, 2)
    policy.write_text(policy.read_text() + "bootstrap: {required_kinds: [benchmark]}\n")
    out = place.root.parent / "decision.json"
    done = check(place, "--bootstrap", "--out", out)
    assert (done.exit_code, done.output.partition(":")[0]) == (0, "BOOTSTRAP")
    assert run("verify", out, *files(place)).exit_code == 0
    (place.root / "benchmark-candidate.evidence.json").unlink()
    done = check(place, "--bootstrap")
    assert (done.exit_code, done.output.splitlines()[0]) == (4, "INSUFFICIENT EVIDENCE: nothing serves yet")


def test_check_refuses_a_ledger_that_is_not_there(place):
    """Else a misspelt name would make evidence forgotten that an earlier decision used."""
    result = check(place, "--ledger", place.root.parent / "legder.jsonl")
    assert (result.exit_code, "no such ledger" in result.output) == (2, True)


def test_a_ledger_of_something_else_is_refused(ledger, place):
    (entry, _) = ledger.entries()
    ledger.append({"decision_id": "sha256:" + "0" * 64, "policy_digest": entry.decision["policy_digest"]})
    assert "not a decision record" in check(place, "--ledger", ledger.path).output
    verified = run("verify", ledger.path, *files(place))
    assert (verified.exit_code, "cannot be computed again: not a decision record" in verified.output) == (1, True)


def test_check_refuses_a_broken_ledger(ledger, place):
    ledger.path.write_bytes(b"nonsense\n")
    assert check(place, "--ledger", ledger.path).exit_code == 2
