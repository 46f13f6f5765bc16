"""Files of the Go project: read as what somebody declares them to be, never as a decision."""

import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest

TOOL = "infercrane-go"


@pytest.fixture
def read(samples, loaded) -> Callable[..., Any]:
    """One of the samples, changed by `edit`, as its importer would wrap it."""

    def load(name: str, version: str, edit: Any = None, raw: bytes = b"", **envelope: Any) -> Any:
        document = json.loads((samples / TOOL / f"{name}.json").read_bytes())
        if edit:
            edit(document)
        declared = {"source": f"infercrane-go/{name}", "binding": "declared_by_importer"}
        given = {"change": lambda sealed: sealed.update(declared)} | envelope
        return loaded(TOOL, version, {"primary": raw or json.dumps(document).encode()}, **given)

    return load


@pytest.fixture
def result(read) -> Callable[..., Any]:
    return lambda edit=None, **envelope: read("evaluator-result", "1.4.0", edit, **envelope)


@pytest.fixture
def passport(read) -> Callable[..., Any]:
    def load(edit: Any = None, select: Any = None, **envelope: Any) -> Any:
        return read("passport", "0.11.0", edit, kind="benchmark", select=select or {"benchmark": "b-1"}, **envelope)

    return load


# --- evaluator results ------------------------------------------------------------------------------------------


def test_a_result_becomes_answers_by_position(result):
    record = result().record
    assert (record.task, record.metric, record.attempted) == ("support-answers", "score", 60)
    assert (record.summary.value, sum(answer.score for answer in record.answers.values())) == (0.9, 54)
    assert {(answer.empty, answer.cut, answer.text_sha256) for answer in record.answers.values()} == {(None, None, "")}


def test_without_a_distribution_it_is_a_summary(result):
    record = result(lambda document: document.pop("distribution")).record
    assert (record.answers, record.summary.n, record.summary.stderr) == ({}, 60, None)


@pytest.mark.parametrize(
    "edit",
    [
        lambda document: document["distribution"].update(pairing_digest="sha256:" + "e" * 64),
        lambda document: document.update(suite_version="git:other"),
        lambda document: document.update(evaluator="another"),
    ],
)
def test_another_suite_evaluator_or_pairing_is_another_task(result, edit):
    assert result(edit).record.tasks_digest != result().record.tasks_digest


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (lambda document: document.update(score=1.2), "bad_value: score: score 1.2 is not a number from 0 to 1"),
        (lambda document: document.update(note="x"), "schema_unknown: note: unknown field"),
        (lambda document: document["distribution"].update(x=1), "schema_unknown: x: unknown field"),
        (lambda document: document["distribution"].update(kind="raw"), "schema_unknown: distribution: not "),
        (lambda document: document["distribution"].update(pairing_digest="c"), "bad_value: distribution: pairing_dig"),
        (lambda document: document["distribution"]["scores"].pop(), "counters_disagree: 59 scores, sample_count is 60"),
        (lambda document: document["distribution"]["scores"].append(2), "bad_value: distribution.scores: score 2"),
        (lambda document: document.update(artifact_digest="sha256:x"), "bad_value: artifact_digest 'sha256:x'"),
        (lambda document: document.update(evaluator_version="2.0"), "binding_conflict: evaluator_version says '2.0'"),
        (lambda document: document.pop("suite"), "schema_unknown: not a file of infercrane-go: it has no suite"),
    ],
)
def test_a_wrong_result_is_refused(result, edit, expected):
    assert str(result(edit).problem).startswith(expected)


def test_a_key_that_occurs_twice_is_refused(result):
    assert result(raw=b'{"schema": 1, "schema": 2}').problem.code == "duplicate_key"


@pytest.mark.parametrize("declared", [{"source": "measured"}, {"binding": "probed"}])
def test_an_import_says_that_it_is_one(result, declared):
    given = {"source": "infercrane-go/evaluator-result", "binding": "declared_by_importer"} | declared
    assert result(change=lambda sealed: sealed.update(given)).problem.code == "binding_conflict"


def test_signed_quality_evidence_reads_as_the_result_in_it(samples, result, read):
    document = json.loads((samples / TOOL / "evaluator-result.json").read_bytes())
    bound = document | {"schema": "infercrane.dev/quality-evidence/v2", "deployment": "d", "revision_id": "r"}
    declared = {"source": "infercrane-go/quality-evidence", "binding": "declared_by_importer"}
    item = read("evaluator-result", "1.4.0", raw=signed(bound), change=lambda sealed: sealed.update(declared))
    assert item.record == result().record


def signed(payload: dict[str, Any], **changes: Any) -> bytes:
    """A signed file; the signature itself proves nothing and is not looked at."""
    text = json.dumps(payload, separators=(",", ":"))
    envelope = {
        "payload": text,
        "digest": "sha256:" + hashlib.sha256(text.encode()).hexdigest(),
        "signature": "c2ln",
        "public_key": "a2V5",
        "algorithm": "Ed25519-SHA256",
        "key_id": "sha256:00",
    }
    return json.dumps(envelope | changes).encode()


# --- AIPerf rows ------------------------------------------------------------------------------------------------


def test_a_row_becomes_a_summary_of_a_load_run(read):
    record = read("aiperf-row", "0.11.0", kind="benchmark").record
    assert (record.attempted, record.failed, record.errors) == (100, 1, {"unnamed": 1})
    assert (record.load_model, record.concurrency, record.streaming) == ("closed", 10.0, True)
    assert record.latencies["ttft_s"].quantiles == {0.95: 0.1825}
    assert record.latencies["e2e_s"].quantiles == {0.95: 2.21}
    assert (record.out_tokens_per_s, record.requests) == (705.1, None)


@pytest.mark.parametrize(
    ("edit", "code"),
    [
        (lambda row: row.update(succeeded=100), "counters_disagree"),
        (lambda row: row.update(ttft_p95_ms=0), "bad_value"),
        (lambda row: row.update(ttft_p95_ms="182"), "bad_value"),
        (lambda row: row.update(tool_version="0.13.0"), "binding_conflict"),
        (lambda row: row.pop("workload"), "schema_unknown"),
    ],
)
def test_a_wrong_row_is_refused(read, edit, code):
    assert read("aiperf-row", "0.11.0", edit, kind="benchmark").problem.code == code


def test_a_row_is_no_evidence_of_quality(read):
    assert read("aiperf-row", "0.11.0", kind="quality").problem.code == "tool_unknown"


def test_a_passport_gives_the_row_that_is_named(passport):
    assert passport(select={"benchmark": "b-2"}).record.attempted == 50
    assert passport(select={"benchmark": "b-3"}).problem.code == "bad_value"


@pytest.mark.parametrize(
    ("edit", "code"),
    [
        (lambda document: document.update(payload=document["payload"].replace("rev-19", "rev-20")), "tampered"),
        (lambda document: document.update(payload=document["payload"].replace("\\u003c", "<")), "tampered"),
        (lambda document: document.update(digest="sha256:" + "0" * 64), "tampered"),
        (lambda document: document.update(algorithm="none"), "signature_invalid"),
        (lambda document: document.pop("key_id"), "schema_unknown"),
    ],
)
def test_a_passport_that_was_touched_is_refused(passport, edit, code):
    assert passport(edit).problem.code == code


def test_another_signed_payload_is_refused_by_name(passport):
    problem = passport(raw=signed({"schema": "infercrane.inference-passport/v2"})).problem
    assert str(problem) == "schema_unknown: a signed payload of schema 'infercrane.inference-passport/v2'"
