"""Every field of a subject belongs to one class of change, and every class needs kinds that can be judged."""

from pulumi_infercrane.guard.admission.change import EVERYTHING, FIELDS, IDENTITY, NEEDS, classes_of, kinds_needed
from pulumi_infercrane.guard.evidence.envelope import Subject
from pulumi_infercrane.guard.rules import known_kinds


def test_no_field_is_forgotten():
    classed = [name for members in FIELDS.values() for name in members]
    assert sorted([*classed, *IDENTITY]) == sorted(Subject.model_fields)


def test_every_class_needs_kinds_that_can_be_judged():
    assert FIELDS.keys() == NEEDS.keys()
    assert set(EVERYTHING) == set(known_kinds())


def test_several_changes_need_the_union_and_an_unknown_one_everything():
    assert classes_of(["provider", "chat_template_sha"]) == ("model", "accelerator")
    assert kinds_needed(["runtime", "scale"]) == ("benchmark", "cost", "quality", "reliability")
    assert classes_of([]) == ()
    assert kinds_needed([]) == EVERYTHING
