"""Every reader against files of the right form that no honest run wrote, and every sample against a folder that lies.

Samples and helpers are those of test_bad_files.py.
"""

import dataclasses
import json
import os
from typing import Any

import pytest

from pulumi_infercrane.guard import EvidenceError, EvidenceReference, load_evidence
from pulumi_infercrane.guard.evidence import folder as module
from pulumi_infercrane.guard.evidence import seal
from pulumi_infercrane.guard.strict_json import MAX_BYTES
from tests.guard.evidence.readers.test_bad_files import ALL, JSON, each, envelope_of, outcome, passes, rebuilt, written

__all__ = ["envelope_of"]

LOAD = [sample for sample in JSON if sample.kind == "benchmark"]
ALL_FAILED = {"evalscope", "infercrane-go", "k6", "litellm", "locust", "otel", "promptfoo", "vllm-bench"}
"""Those of whose files every request can be made a failed one by the words in FAILURES."""
ONE_DECIMAL = {"otel"}
"""The time to the first chunk is the only decimal number in it: nothing beside it says that it is wrong."""
LATER = {"started_at": "2027-03-01T00:00:00Z", "ended_at": "2027-03-01T02:00:00Z"}
WITHOUT_TIME = {"evalscope", "genai-perf", "inference-perf", "inferencex", "k6", "sglang-bench"}
"""Their files hold no time at all: only the envelope knows when they were measured."""


# --- runs -------------------------------------------------------------------------------------------------------


def doubled(node: Any) -> Any:
    """The last object of every list of objects a second time: the same id, if these have any."""
    if isinstance(node, dict):
        return {key: doubled(value) for key, value in node.items()}
    if not isinstance(node, list):
        return node
    items = [doubled(value) for value in node]
    return [*items, items[-1]] if items and isinstance(items[-1], dict) else items


@each(JSON)
def test_what_occurs_twice_counts_once_or_is_refused(sample, envelope_of):
    envelope = envelope_of(sample)
    for part, raw in sample.parts.items():
        documents = sample.documents(part) or []
        twice = [*documents, documents[-1]] if len(documents) > 1 else [doubled(one) for one in documents]
        if documents:
            record = outcome(sample, envelope, written(twice), part)
            assert isinstance(record, str) or repr(record) == repr(outcome(sample, envelope, raw, part)), part


def emptied(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: emptied(value) for key, value in node.items()}
    return [] if isinstance(node, list) else node


@each(JSON)
def test_a_list_without_entries_adds_nothing(sample, envelope_of):
    envelope = envelope_of(sample)
    before = outcome(sample, envelope, sample.primary)
    record = outcome(sample, envelope, written([emptied(one) for one in sample.documents() or []]))
    assert isinstance(record, str) or (record.attempted, type(record)) == (before.attempted, type(before))


def zeroed(node: Any) -> Any:
    return rebuilt(node, lambda value: 0 * value if isinstance(value, int | float) and value is not True else value)


@each(LOAD)
def test_a_run_of_no_requests_never_passes(sample, envelope_of):
    envelope = envelope_of(sample)
    record = outcome(sample, envelope, written([zeroed(one) for one in sample.documents() or []]))
    assert isinstance(record, str) or not record.attempted
    assert not passes(sample, envelope, record)


def failing(node: Any) -> Any:
    """What tools call a failure, said of every request, span, line and summary; nothing has a latency any more."""
    if isinstance(node, list):
        return [failing(value) for value in node]
    if not isinstance(node, dict):
        return node
    node = {key: failing(value) for key, value in node.items()}
    for change in FAILURES:
        if change.keys() & node.keys() == change.keys():
            node |= {key: value(node) if callable(value) else value for key, value in change.items()}
    if "spanId" in node:
        others = [one for one in node["attributes"] if one["key"] != "error.type"]
        node["attributes"] = [*others, {"key": "error.type", "value": {"stringValue": "503"}}]
    return node


FAILURES: list[dict[str, Any]] = [
    {"completed": 0, "failed": lambda run: run["num_prompts"], "num_prompts": lambda run: run["num_prompts"]},
    {"Success Requests": 0, "Failed Requests": lambda run: run["Total Requests"], "Req Throughput (req/s)": 0},
    {"succeeded": 0, "failed": lambda run: run["request_count"]},
    {"num_failures": lambda run: run["num_requests"], "num_fail_per_sec": lambda run: run["num_reqs_per_sec"]},
    {"rate": 1, "passes": lambda rate: rate["passes"] + rate["fails"], "fails": 0},
    {"status": "failure", "startTime": lambda call: call["startTime"]},
    {"success": False, "score": 0, "failureReason": 2},
    {"testPassCount": 0, "testFailCount": 0, "testErrorCount": 6, "score": 0},
    {"successes": 0, "failures": 0, "errors": 12, "tokenUsage": lambda stats: stats["tokenUsage"]},
]


def all_failed(sample: Any) -> list[Any]:
    return [failing(one) for one in sample.documents() or []]


@each([sample for sample in JSON if all_failed(sample) != sample.documents()])
def test_a_run_that_failed_throughout_is_refused_or_known_as_such(sample, envelope_of):
    envelope = envelope_of(sample)
    record = outcome(sample, envelope, written(all_failed(sample)))
    if sample.kind == "quality" and not isinstance(record, str):
        assert not any(answer.ok or answer.score for answer in record.answers.values())
    elif sample.kind != "cost" and not isinstance(record, str):
        assert record.failed == record.attempted
    assert not passes(sample, envelope, record)


def test_the_tools_whose_failures_are_spelt_here():
    assert {sample.tool for sample in JSON if all_failed(sample) != sample.documents()} == ALL_FAILED


def every_second_times(factor: float, node: Any) -> Any:
    """Seconds and milliseconds mixed in one file."""
    count = iter(range(10**9))
    return rebuilt(node, lambda value: value * factor if type(value) is float and next(count) % 2 else value)


@each([sample for sample in LOAD if sample.tool not in ONE_DECIMAL])
@pytest.mark.parametrize("factor", [1e3, 1e-3])
def test_mixed_units_are_refused(sample, envelope_of, factor):
    mixed = [every_second_times(factor, one) for one in sample.documents() or []]
    assert isinstance(outcome(sample, envelope_of(sample), written(mixed)), str)


@each(ALL)
def test_a_file_of_another_time_than_its_envelope_is_refused(sample, envelope_of):
    later = dataclasses.replace(sample, stated={**sample.stated, "window": LATER})
    refused = isinstance(outcome(later, envelope_of(later), sample.primary), str)
    assert refused == (sample.tool not in WITHOUT_TIME)


@each(ALL)
def test_nesting_is_refused_at_once(sample, envelope_of):
    for opening in (b"[", b'{"a":'):
        deep = opening * 200_000
        for part in sample.parts:
            assert isinstance(outcome(sample, envelope_of(sample), deep, part), str), part


# --- folders ----------------------------------------------------------------------------------------------------


@pytest.fixture
def offered(folder):
    """A sample in a folder of its own, and what is loaded from it."""

    def offering(sample, change=None):
        folder.measured(
            "candidate", sample.tool, sample.version, sample.parts, sample.kind, sample.planned,
            dict(sample.select or {}), name="run", change=lambda envelope: envelope.update(sample.stated),
        )  # fmt: skip
        if change:
            change(folder.root / "run.primary", folder.root / "run.evidence.json")
        (item,) = load_evidence(folder.root).items
        return item

    return offering


def test_a_gigabyte_is_refused_by_its_size(offered):
    def grown(file, envelope):
        with file.open("r+b") as opened:
            opened.write(b"[" * 4096)
            opened.truncate(1024**3)  # sparse: a hole takes no room on disk

    problem = offered(ALL[0], grown).problem
    assert str(problem) == f"oversize: run.primary: {1024**3} bytes, at most {MAX_BYTES} are read"


def test_an_envelope_of_a_gigabyte_is_refused_by_its_size(offered):
    assert offered(ALL[0], lambda file, envelope: os.truncate(envelope, 1024**3)).problem.code == "oversize"


@each(ALL)
def test_a_file_that_changed_by_a_byte_is_tampered(sample, offered):
    assert offered(sample).problem is None
    changed = sample.primary[:-1] + bytes([sample.primary[-1] ^ 1])
    assert offered(sample, lambda file, envelope: file.write_bytes(changed)).problem.code == "tampered"


@each(ALL)
def test_a_link_in_place_of_a_file_is_not_followed(sample, offered, tmp_path):
    def linked(file, envelope):
        file.rename(tmp_path / "moved")
        file.symlink_to(tmp_path / "moved")

    with pytest.raises(EvidenceError, match="symbolic link"):
        offered(sample, linked)
    (item,) = load_evidence(tmp_path / "evidence", [EvidenceReference("run.evidence.json", "")]).items
    assert "without following a link" in str(item.problem)


@each(ALL)
def test_a_path_out_of_the_folder_is_not_followed(sample, offered, tmp_path):
    def escaped(file, envelope):
        file.rename(tmp_path / "outside")
        document = json.loads(envelope.read_text())
        document["files"][0]["path"] = "../outside"
        envelope.write_text(json.dumps(seal(document)))

    assert offered(sample, escaped).problem.code == "bad_value"


@each(ALL)
def test_the_bytes_that_were_hashed_are_the_bytes_that_are_read(sample, offered, folder, monkeypatch):
    """Somebody swaps the file as soon as it was hashed: what is judged is what was vouched for."""
    honest = offered(sample).record
    checked = module._checked_file

    def swapping(root, envelope_path, file, seen):
        data = checked(root, envelope_path, file, seen)
        (root / file.path).write_bytes(b"{}")
        return data

    monkeypatch.setattr(module, "_checked_file", swapping)
    item = offered(sample)
    assert (item.problem, repr(item.record)) == (None, repr(honest))
