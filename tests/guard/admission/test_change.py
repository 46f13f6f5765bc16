"""Every field of a subject belongs to one class of change, and every class needs kinds that can be judged."""

import pytest

from pulumi_infercrane.guard.admission.change import (
    EVERYTHING,
    FIELDS,
    IDENTITY,
    NEEDS,
    changed_fields,
    classes_of,
    kinds_needed,
)
from pulumi_infercrane.guard.evidence.envelope import Subject
from pulumi_infercrane.guard.rules import known_kinds

DIGEST, OTHER = ("sha256:" + digit * 64 for digit in "01")


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
    assert kinds_needed([]) == EVERYTHING == tuple(sorted(EVERYTHING))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"model": {"source": "file:other.gguf", "weights_digest": DIGEST}}, "model"),
        ({"quantization": "q4"}, "model"),
        ({"tokenizer_digest": OTHER}, "model"),
        ({"chat_template_sha": OTHER}, "model"),
        ({"engine": {"name": "vllm", "version": "0.33.0", "args_digest": DIGEST}}, "runtime"),
        ({"runtime": {"image": OTHER}}, "runtime"),
        ({"accelerator": {"vendor": "nvidia", "sku": "H100", "count": 1}}, "accelerator"),
        ({"provider": "aws"}, "accelerator"),
        ({"region": "eu-1"}, "accelerator"),
        ({"parallelism": {"tp": 2, "pp": 1, "dp": 1, "ep": 1}}, "runtime"),
        ({"parallelism": {"tp": 1, "pp": 1, "dp": 2, "ep": 1}}, "runtime"),
    ],
)
def test_each_field_makes_its_class_of_change(subject_of, change, expected):
    before, after = (Subject(**subject_of("r1", **some)) for some in ({}, change))
    assert classes_of(changed_fields(before, after)) == (expected,)


def test_no_field_of_a_revision_is_its_scale_alone():
    """Ranks within one engine change its latency and its answers, other than more replicas of it."""
    assert FIELDS["scale"] == ()
    assert classes_of(Subject.model_fields) == ("model", "runtime", "accelerator")


def test_where_a_revision_stands_is_no_change_of_it(subject_of):
    before, after = (Subject(**subject_of("r1", stack=stack, environment=stack)) for stack in ("staging", "production"))
    assert changed_fields(before, after) == ()
    assert changed_fields(before, None) == ()
