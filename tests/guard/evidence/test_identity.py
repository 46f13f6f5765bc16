"""Digests that tie a measurement to what was declared."""

from pulumi_infercrane.guard.evidence import evidence_id, revision_digest, seal


def test_a_revision_is_its_subject_without_where_it_runs_as_what(subject_of):
    subject = subject_of("r1")
    moved = subject | {"stack": "org/proj/prod", "environment": "prod", "revision_digest": "sha256:" + "0" * 64}
    assert revision_digest(moved) == subject["revision_digest"]


def test_any_other_field_makes_another_revision(subject_of):
    assert revision_digest(subject_of("r1") | {"quantization": "q4"}) != subject_of("r1")["revision_digest"]


def test_sealing_is_idempotent_and_ignores_the_attestation():
    sealed = seal({"kind": "benchmark"})
    assert seal(sealed) == sealed
    assert evidence_id(sealed | {"attestation": {"payload": "x"}}) == sealed["evidence_id"]
    assert evidence_id(sealed | {"kind": "quality"}) != sealed["evidence_id"]
