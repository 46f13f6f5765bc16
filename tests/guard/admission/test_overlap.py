"""Runs that share requests: counted once, and evidence for no revision when they are offered for two."""

import json

import pytest

from tests.guard.asking import ERRORS_ONLY, decided, entry, good

SHARED = "binding_conflict: {} requests of this run are also offered for another revision, in another file"
CONFLICT = (
    "conflict: {} of its requests are in a run that counts, others or failures are not: "
    "let it supersede that one, or take it away"
)
COUNTED = "duplicate: {} of its requests are in a run that counts; counted once"


def requests_of(folder, name):
    header, *lines = (folder.root / f"{name}.benchmark.jsonl").read_text().splitlines()
    return json.loads(header), lines


def write(folder, name, lines, role="candidate", change=None):
    """A run of these requests; the folder holds `run`, whose header it takes."""
    header, _ = requests_of(folder, "run")
    header |= {"revision_digest": folder.subjects[role]["revision_digest"], "planned": len(lines)}
    numbered = [json.dumps(json.loads(line) | {"id": f"q{index:03}"}) for index, line in enumerate(lines)]
    raw = "\n".join([json.dumps(header), *numbered]).encode()
    return folder.write_raw("benchmark", role, name, raw, planned=len(lines), change=change)


@pytest.fixture
def run(folder):
    """Requests of a run of the candidate, 300 of them."""
    good(folder, name="run")
    return requests_of(folder, "run")[1]


@pytest.fixture
def others(folder):
    """Requests of another run of the candidate, whose file is gone."""
    path = folder.benchmark("candidate", folder.seconds(200, seed=2), name="others")
    lines = requests_of(folder, "others")[1]
    path.unlink()
    return lines


def reasons(decision, name):
    return entry(decision, f"{name}.benchmark.jsonl")["reasons"]


def n(decision):
    return decision.record["rules"][0]["n"]


@pytest.mark.parametrize("name", [f"copy {number}" for number in range(8)])  # the order by identity is any
@pytest.mark.parametrize("dropped", [1, 150])
def test_a_run_that_lost_requests_counts_for_nothing_beside_the_whole_one(folder, run, dropped, name):
    write(folder, name, run[dropped:])
    decision = decided(folder)
    assert (n(decision), reasons(decision, "run")) == ([300], [])
    assert reasons(decision, name) == [COUNTED.format(300 - dropped)]


def test_of_a_run_and_the_file_it_was_appended_to_counts_the_longer(folder, run, others):
    write(folder, "both", [*run, *others])
    decision = decided(folder)
    assert (n(decision), reasons(decision, "run")) == ([500], [COUNTED.format(300)])


def test_a_longer_run_does_not_take_the_place_of_one_that_counted_before(folder, run, others):
    """Unless it says that it replaces it, and why: else a failure could be left out of it."""
    before = decided(folder)
    longer = write(folder, "both", [*run, *others])
    decision = decided(folder, history=[before.record])
    assert (decision.verdict, reasons(decision, "both")) == ("insufficient_evidence", [CONFLICT.format(300)])
    decision = decided(folder, history=[before.record, decision.record])
    assert reasons(decision, "run") == []  # to be in a decision is not to count in it

    longer.unlink()
    named = [{"evidence_id": before.record["evidence"][0]["evidence_id"], "reason": "it goes on"}]
    write(folder, "both", [*run, *others], change=lambda envelope: envelope.update(supersedes=named))
    decision = decided(folder, history=[before.record])
    assert (n(decision), reasons(decision, "run")) == ([500], ["superseded: it goes on"])


@pytest.mark.parametrize("name", ["again", "once more", "and again"])
def test_a_failed_run_is_not_got_rid_of_by_a_longer_one_without_its_failures(folder, run, others, name):
    """Failed requests have no times: what they are in looks like the shorter one."""
    failed = [json.dumps({"id": "f", "start_s": 1.0, "outcome": "http_error", "error": "503"})] * 20
    write(folder, "bad", [*run[:280], *failed])
    (folder.root / "run.evidence.json").unlink()
    write(folder, name, [*run[:280], *others])
    decision = decided(folder)
    assert (decision.verdict, reasons(decision, "bad")) == ("insufficient_evidence", [])
    assert decision.record["first_reason"] == "benchmark: conflict"


def test_what_failed_since_an_earlier_decision_is_not_hidden_by_the_run_of_that_time(folder, run, others):
    """A tool that logs on into one file. Which of the two counts has to be said."""
    before = decided(folder)
    failed = [json.dumps({"id": "f", "start_s": 1.0, "outcome": "http_error", "error": "503"})] * 30
    longer = [*run, *others, *failed]
    write(folder, "both", longer)
    decision = decided(folder, history=[before.record])
    assert (before.verdict, decision.verdict) == ("promote", "insufficient_evidence")
    assert decision.record["reasons"] == [f"benchmark: {CONFLICT.format(300)}"]

    named = [{"evidence_id": before.record["evidence"][0]["evidence_id"], "reason": "it goes on"}]
    write(folder, "both", longer, change=lambda envelope: envelope.update(supersedes=named))
    decision = decided(folder, history=[before.record])
    assert (decision.verdict, n(decision)) == ("reject", [530])


def test_of_two_runs_that_overlap_neither_is_left_out_by_itself(folder, run, others):
    """The slow requests may be those that only the shorter one holds."""
    write(folder, "run", run)
    write(folder, "later", [*run[-100:], *others])
    decision = decided(folder)
    assert (decision.verdict, decision.record["first_reason"]) == ("insufficient_evidence", "benchmark: conflict")


def test_a_few_requests_in_common_are_left_alone(folder, run, others):
    """As where one log begins a moment before the other ends."""
    write(folder, "later", [*run[-40:], *others])
    assert n(decided(folder)) == [540]


def test_a_run_of_one_revision_with_a_request_dropped_is_no_evidence_about_another(folder, run):
    write(folder, "again", run[1:], role="baseline")
    decision = decided(folder)
    assert decision.record["first_reason"] == "benchmark: binding_conflict"
    assert reasons(decision, "run") == reasons(decision, "again") == [SHARED.format(299)]


def test_a_share_of_another_revision_s_requests_spoils_a_run(folder, run, others):
    """Fast requests of one mixed into the slow ones of the other."""
    write(folder, "mixed", [*others, *run[:50]], role="baseline")
    assert reasons(decided(folder), "mixed") == [SHARED.format(50)]


@pytest.mark.parametrize("name", [f"elsewhere {number}" for number in range(8)])
def test_of_runs_for_two_revisions_one_that_does_not_count_still_spoils_the_other(folder, run, new_folder, name):
    other = new_folder(candidate="r9")
    other.root = folder.root
    write(other, name, run[1:])
    decision = decided(folder)
    assert (decision.verdict, reasons(decision, "run")) == ("insufficient_evidence", [SHARED.format(299)])
    assert reasons(decision, name)[0].startswith("binding_mismatch")


def test_three_requests_of_three_hundred_that_another_copy_has_are_let_go(folder, run, others):
    write(folder, "nearly", [*run[:297], *others[:3]])
    decision = decided(folder)
    assert n(decision) == [300]
    assert sorted([reasons(decision, "run"), reasons(decision, "nearly")]) == [[], [COUNTED.format(297)]]


def test_four_are_not(folder, run, others):
    write(folder, "hardly", [*run[:296], *others[:4]])
    decision = decided(folder)
    found = sorted([reasons(decision, "run"), reasons(decision, "hardly")])
    assert (decision.verdict, found[0], found[1][0][:8]) == ("insufficient_evidence", [], "conflict")


def test_a_copy_with_failures_that_were_not_there_is_looked_into(folder, run):
    before = decided(folder)
    failed = [json.dumps({"id": "f", "start_s": 1.0, "outcome": "http_error", "error": "503"})] * 2
    write(folder, "worse", [*run, *failed])
    decision = decided(folder, history=[before.record])
    assert reasons(decision, "worse")[0].startswith("conflict: it is a run that counts, others or failures are not")


def test_a_soak_that_lost_a_request_count_once(folder):
    def timed(lines):
        for index, line in enumerate(lines):
            line["e2e_s"] = 0.5 + 0.001003 * index

    folder.reliability(name="soak", lines=timed)
    header, *lines = (folder.root / "soak.reliability.jsonl").read_text().splitlines()
    head = json.dumps(json.loads(header) | {"planned": 599})
    folder.write_raw("reliability", "candidate", "again", "\n".join([head, *lines[1:]]).encode(), planned=599)
    policy = ERRORS_ONLY.replace("benchmark", "reliability")
    assert folder.decide(policy=policy).record["rules"][0]["n"] == [600]


def test_an_older_run_that_comes_after_the_one_that_supersedes_it_is_superseded_not_a_copy(folder, run, others):
    before = decided(folder)
    named = [{"evidence_id": before.record["evidence"][0]["evidence_id"], "reason": "it goes on"}]
    write(folder, "both", [*run, *others], change=lambda envelope: envelope.update(supersedes=named))
    assert reasons(decided(folder), "run") == ["superseded: it goes on"]
