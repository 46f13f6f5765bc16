"""The demo's own check: it must notice when what it promises did not happen."""

from copy import deepcopy
from typing import Any

import pytest

from examples.demo.run import ABOUT_OTHERS, FOREIGN, _outcome
from examples.demo.story import EXPECTED, REASONS, unexpected
from examples.demo.traffic import Stream, Traffic


def good() -> dict[str, Any]:
    steps = [
        {"name": name, "verdict": verdict, "active_after": active, "reasons": [REASONS.get(name, "because")]}
        for name, (verdict, active) in EXPECTED.items()
    ]
    seen = {"r1": 10, "r2": 20}
    return {"steps": steps, "client": {"failed": 0, "truncated": 0, "revisions_seen": seen, "streams_open_at_flip": 1}}


def test_what_was_promised_is_accepted() -> None:
    assert unexpected(good()) == []


def test_an_empty_report_is_not() -> None:
    client = {"failed": 0, "truncated": 0, "revisions_seen": {}, "streams_open_at_flip": 0}
    assert len(unexpected({"steps": [], "client": client})) == len(EXPECTED) + 3


@pytest.mark.parametrize("name", EXPECTED)
def test_another_verdict_or_revision_is_noticed(name: str) -> None:
    for change in ({"verdict": "other"}, {"active_after": "r9"}):
        report = good()
        next(step for step in report["steps"] if step["name"] == name).update(change)
        assert name in unexpected(report)[0]


@pytest.mark.parametrize("name", REASONS)
def test_a_reason_that_is_missing_is_noticed(name: str) -> None:
    report = good()
    next(step for step in report["steps"] if step["name"] == name)["reasons"] = ["something else"]
    assert REASONS[name] in unexpected(report)[0]


@pytest.mark.parametrize(
    "change",
    [{"failed": 1}, {"truncated": 1}, {"streams_open_at_flip": 0}, {"revisions_seen": {"r1": 1, "r2": 1, "r3": 1}}],
)
def test_what_the_client_saw_counts(change: dict[str, Any]) -> None:
    report = deepcopy(good())
    report["client"].update(change)
    assert len(unexpected(report)) == 1


def test_a_stream_that_never_ended_is_a_failed_one() -> None:
    traffic = Traffic("http://127.0.0.1:1/v1", "chat")
    traffic.streams = [Stream(0.0, 1.0, "r1", "complete"), Stream(1.0)]
    assert traffic.report()["failed"] == 1


def test_streams_open_across_a_flip_are_those_the_old_revision_finished_after_it() -> None:
    traffic = Traffic("http://127.0.0.1:1/v1", "chat")
    traffic.streams = [
        Stream(0.0, 3.0, "r1", "complete"),
        Stream(0.0, 1.0, "r1", "complete"),
        Stream(2.0, 4.0, "r2", "complete"),
    ]
    assert traffic.open_across("r1", "r2") == 1


def test_a_rollback_is_not_shown_as_a_verdict() -> None:
    assert [_outcome(step) for step in good()["steps"]][-2:] == ["insufficient_evidence", "rollback"]


def test_evidence_of_earlier_candidates_does_not_read_like_a_fault() -> None:
    reason = "benchmark: no_evidence: no admissible candidate measurement; 2 set aside as binding_mismatch"
    assert FOREIGN.sub(ABOUT_OTHERS, reason).endswith("measurement; 2 about other revisions")
