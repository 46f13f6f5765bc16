"""Which piece of evidence speaks about which revision, and of which stack."""

from dataclasses import replace

import pytest

from pulumi_infercrane.guard import load_evidence
from pulumi_infercrane.guard.admission.binding import subjects_in
from pulumi_infercrane.guard.reasons import Problem
from tests.guard.asking import decided, good

EVENTS = "schema: infercrane.policy/v1\nrequired_kinds: [reliability]\nrules: [{id: reliability.crashes}]\n"
PLACES = [
    ({}, True),
    ({"stack": "prod"}, True),
    ({"stack": "shop/prod"}, True),
    ({"stack": "lab/prod"}, False),
    ({"stack": "staging"}, False),
    ({"environment": "staging"}, False),
    ({"environment": "staging", "stack": "prod"}, True),
]


def somewhere(where):
    return lambda envelope: envelope["subject"].update(where)


@pytest.mark.parametrize(("where", "counts"), PLACES)
def test_events_are_those_of_the_stack_that_is_decided_about(folder, where, counts):
    folder.reliability(change=somewhere(where))
    decision = folder.decide(policy=EVENTS, stack="shop/prod")
    assert ("1 set aside as binding_mismatch" in decision.reasons[0]) is not counts


@pytest.mark.parametrize(("where", "counts"), PLACES)
def test_so_are_costs(folder, where, counts):
    folder.cost("candidate", change=somewhere(where))
    decision = folder.decide(
        policy=EVENTS.replace("reliability", "cost").replace("crashes", "per_good_request"), stack="shop/prod"
    )
    assert ("candidate measurement; 1 set aside as binding_mismatch" in " ".join(decision.reasons)) is not counts


@pytest.mark.parametrize("where", [where for where, _ in PLACES])
def test_a_benchmark_may_come_from_another_stack(folder, where):
    good(folder, change=somewhere(where))
    assert decided(folder, stack="prod").verdict == "promote"


QUALITY = """\
schema: infercrane.policy/v1
required_kinds: [quality]
rules: [{id: quality.basics, margin: 0.05, min_pass: 60}]
"""


def scored_elsewhere(folder, subject_of):
    """Answers of other machines; what runs now is known only from a benchmark."""
    for role, name in (("candidate", "r2"), ("baseline", "r1")):
        now = folder.subjects[role]
        folder.subjects[role] = subject_of(name, parallelism={"tp": 4, "pp": 1, "dp": 1, "ep": 1})
        folder.quality(role)
        folder.subjects[role] = now
        folder.benchmark(role)


def test_answers_do_not_depend_on_how_many_machines_give_them(folder, subject_of):
    scored_elsewhere(folder, subject_of)
    assert folder.decide(policy=QUALITY).verdict == "promote"


@pytest.mark.parametrize(("code", "says"), [("truncated", True), ("binding_conflict", False), ("tampered", False)])
def test_a_piece_that_does_not_count_may_still_say_what_it_was_about(folder, code, says):
    good(folder)
    items = [replace(item, problem=Problem(code, "")) for item in load_evidence(folder.root).items]
    assert set(subjects_in(items)) == ({folder.candidate} if says else set())
    assert subjects_in([replace(item, envelope=None) for item in items]) == {}


def test_one_that_was_edited_says_nothing(folder, subject_of):
    scored_elsewhere(folder, subject_of)
    for path in folder.root.rglob("*benchmark*.evidence.json"):
        path.write_text(path.read_text().replace('"b1"', '"b2"'))
    assert folder.decide(policy=QUALITY).verdict == "insufficient_evidence"


def test_other_answers_are_other_evidence(folder, subject_of):
    now = folder.subjects["candidate"]
    folder.benchmark("candidate")
    folder.subjects["candidate"] = subject_of("r2", quantization="q4")
    folder.quality("candidate")
    folder.subjects["candidate"] = now
    folder.quality("baseline")
    decision = folder.decide(policy=QUALITY)
    assert "1 set aside as binding_mismatch" in decision.reasons[0]
