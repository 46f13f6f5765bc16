"""The envelope is typed strictly; what it does not know it refuses."""

import json

import pytest

from pulumi_infercrane.guard import load_evidence
from pulumi_infercrane.guard.canonical import digest_bytes


def problem_of(folder, change):
    """The problem of a sealed envelope after a change."""
    folder.benchmark("candidate", change=change)
    (item,) = load_evidence(folder.root).items
    return item.problem


def test_a_whole_envelope_is_read(folder):
    def everything(envelope):
        envelope["slo"] = {"ttft_s": 0.5, "tpot_s": 0.05}
        envelope["runner"] = {"host": "bench-1", "clock_offset_ms": 3}
        envelope["run"] = {"group": "g", "ordinal": 1, "of": 1}
        envelope["scenario"] |= {"input_len": {"kind": "fixed", "mean": 1000}, "warmup_s": 30, "random_seed": 42}
        envelope["scenario"] |= {"streaming": True, "path": "replica-direct", "replicas": 1, "cache": "cold"}
        probe = {"models": ["m"], "version": "b1", "prefix_cache": {"hits": 1, "queries": 9}, "restarts": 0}
        envelope["probes"] = {"before": probe, "after": probe}
        envelope["supersedes"] = [{"evidence_id": "sha256:" + "a" * 64, "reason": "wrong data set"}]
        signature = {"keyid": "sha256:" + "b" * 64, "sig": "c2lnbmF0dXJl"}
        envelope["attestation"] = {"payloadType": "application/vnd.infercrane.evidence+json", "signatures": [signature]}

    assert problem_of(folder, everything) is None


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda e: e.update(extra=1), "schema_unknown: extra: unknown field"),
        (lambda e: e.update({"int": 1}), "schema_unknown: int: unknown field"),
        (lambda e: e["scenario"].update(colour="red"), "schema_unknown: scenario.colour: unknown field"),
        (lambda e: e.update(schema="infercrane.evidence/v2"), "schema_unknown: the envelope's schema is not"),
        (lambda e: e["subject"].pop("chat_template_sha"), "binding_missing: subject.chat_template_sha is absent"),
        (lambda e: e["subject"]["engine"].pop("args_digest"), "binding_missing: subject.engine.args_digest is absent"),
        (lambda e: e["subject"]["model"].pop("weights_digest"), "bad_value: subject.model"),
        (
            lambda e: e["subject"]["runtime"].update(image="llama:latest"),
            "bad_value: subject.runtime.image: not sha256: and 64 hex digits in lower case",
        ),
        (lambda e: e.pop("window"), "bad_value: window"),
        (lambda e: e["window"].update(ended_at="2026-11-30T04:02:00"), "bad_value: window.ended_at"),
        (lambda e: e.update(role="active"), "bad_value: role"),
        (lambda e: e["planned"].update(requests="150"), "bad_value: planned.requests"),
        (lambda e: e["planned"].update(requests=True), "bad_value: planned.requests"),
        (lambda e: e["planned"].update(requests=None), "bad_value: planned.requests"),
        (lambda e: e["scenario"].update(rate=-1), "bad_value: scenario.rate"),
        (lambda e: e.update(files=[]), "bad_value: files"),
        (lambda e: e["files"][0].update(part="samples"), "bad_value: envelope: exactly one file"),
        (lambda e: e["subject"].update(quantization="q8"), "binding_conflict: subject.revision_digest is not"),
    ],
)
def test_a_malformed_envelope_does_not_count(folder, change, expected):
    assert str(problem_of(folder, change)).startswith(expected)


SIGNATURE = {"keyid": "sha256:" + "b" * 64, "sig": "c2ln"}


@pytest.mark.parametrize(
    ("attestation", "expected"),
    [
        ({"payload": "eyJ9"}, "schema_unknown: attestation.payload: unknown field"),
        ({"signatures": [SIGNATURE | {"public_key": "AAAA"}]}, "schema_unknown: attestation.signatures.0.public_key"),
        ({"signatures": [SIGNATURE | {"keyid": "sha256:" + "B" * 64}]}, "bad_value: attestation.signatures.0.keyid"),
        ({"signatures": [SIGNATURE | {"keyid": SIGNATURE["keyid"][:23]}]}, "bad_value: attestation.signatures.0.keyid"),
        ({"signatures": []}, "bad_value: attestation.signatures"),
        ({"signatures": [SIGNATURE] * 17}, "bad_value: attestation.signatures"),
        ({"payloadType": ""}, "bad_value: attestation.payloadType"),
    ],
)
def test_an_attestation_holds_signatures_and_nothing_else(folder, attestation, expected):
    whole = {"payloadType": "t", "signatures": [SIGNATURE]} | attestation
    assert str(problem_of(folder, lambda e: e.update(attestation=whole))).startswith(expected)


def test_the_envelope_is_typed_from_the_bytes_that_are_hashed(folder):
    path = folder.benchmark("candidate", change=lambda e: e["scenario"].update(warmup_s=1e1))
    path.write_text(path.read_text().replace('"warmup_s": 10.0', '"warmup_s": 1e1'))
    (item,) = load_evidence(folder.root).items
    assert item.problem is None
    assert (item.envelope.scenario.warmup_s, b'"warmup_s":10}' in item.body) == (10, True)
    assert digest_bytes(item.body) == item.evidence_id


def test_null_is_not_the_same_as_absent(folder):
    problem = problem_of(folder, lambda e: e["subject"].update(quantization=None))
    assert problem.code == "binding_conflict"  # the digest of the subject says that the field was not there


def test_an_envelope_that_is_no_object_is_refused(folder):
    folder.root.mkdir()
    (folder.root / "a.evidence.json").write_text(json.dumps([1]))
    assert load_evidence(folder.root).items[0].problem.code == "schema_unknown"
