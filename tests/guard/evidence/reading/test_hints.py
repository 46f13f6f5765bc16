"""What a file says of itself contradicts its envelope only where that is certain."""

import pytest

from pulumi_infercrane.guard.evidence import seal
from pulumi_infercrane.guard.evidence.envelope import parse_envelope
from pulumi_infercrane.guard.evidence.reading.hints import check_model, check_revision, check_version, check_workload
from pulumi_infercrane.guard.evidence.records import Benchmark
from pulumi_infercrane.guard.reasons import Inadmissible


@pytest.fixture
def envelope(folder):
    """`envelope(source="hf:org/name", rate=8)`: fields of the model and the scenario."""

    def make(source="file:model.gguf", served=None, version="0.8.1", **scenario):
        folder.subjects["candidate"]["model"]["source"] = source
        folder.reseal()
        document = folder.envelope("benchmark", "candidate", "x", b"", {"id": "chat", **scenario}, 1)
        document["files"][0]["tool_version"] = version
        if served is not None:
            document["probes"] = {"before": {"models": served}, "after": {"models": served}}
        return parse_envelope(seal(document))[0]

    return make


def refused(check, *arguments):
    try:
        check(*arguments)
    except Inadmissible as error:
        return error.problem.code
    return ""


@pytest.mark.parametrize(
    ("written", "code"),
    [("0.8.1", ""), ("0.8.9", ""), ("0.8.0.dev18", ""), ("0.9.0", "binding_conflict"), (None, "schema_unknown")],
)
def test_versions_agree_to_the_minor(envelope, written, code):
    assert refused(check_version, written, envelope()) == code


@pytest.mark.parametrize(
    ("name", "about", "code"),
    [
        ("alias", {"source": "hf:org/name"}, ""),
        ("/models/name", {"source": "hf:org/name"}, ""),
        ("org/name", {"source": "hf:org/name"}, ""),
        ("org/other", {"source": "hf:org/name"}, "binding_conflict"),
        ("org/other", {"source": "file:model.gguf"}, ""),
        ("alias", {"served": ["alias", "base"]}, ""),
        ("org/name", {"served": ["alias"], "source": "hf:org/name"}, ""),
        ("other", {"served": ["alias"]}, "binding_conflict"),
        (None, {"served": ["alias"]}, ""),
        (7, {"source": "hf:org/name"}, ""),
    ],
)
def test_a_model_is_one_that_was_served_or_not_another_repository(envelope, name, about, code):
    assert refused(check_model, name, envelope(**about)) == code


@pytest.mark.parametrize(("label", "code"), [("r42", ""), ("sha256:" + "0" * 64, "binding_conflict"), (None, "")])
def test_a_label_that_is_a_digest_is_the_digest(envelope, label, code):
    assert refused(check_revision, label, envelope()) == code
    assert refused(check_revision, envelope().subject.revision_digest, envelope()) == ""


@pytest.mark.parametrize(
    ("measured", "scenario", "code"),
    [
        ({"rate": 8.0}, {"rate": 8.16}, ""),
        ({"rate": 8.0}, {"rate": 8.2}, "binding_conflict"),
        ({"rate": 8.0}, {}, ""),
        ({}, {"rate": 8.0, "concurrency": 4, "streaming": True, "load_model": "open"}, ""),
        ({"concurrency": 4}, {"concurrency": 8}, "binding_conflict"),
        ({"load_model": "open"}, {"load_model": "closed"}, "binding_conflict"),
        ({"streaming": False}, {"streaming": True}, "binding_conflict"),
    ],
)
def test_the_load_is_the_one_of_the_scenario(envelope, measured, scenario, code):
    assert refused(check_workload, Benchmark(None, None, **measured), envelope(**scenario)) == code
