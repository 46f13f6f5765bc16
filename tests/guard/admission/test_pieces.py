"""What a piece tells of itself."""

from types import SimpleNamespace

import pytest

from pulumi_infercrane.guard.admission.pieces import failures
from pulumi_infercrane.guard.evidence.records import Replay, Replayed


def piece(role, record):
    return SimpleNamespace(envelope=role and SimpleNamespace(role=role), item=SimpleNamespace(record=record))


ANSWERS = {"a": Replayed(True, "ok"), "b": Replayed(False, "http_error"), "c": Replayed(False, "timeout")}


@pytest.mark.parametrize(
    ("role", "record", "expected"),
    [
        ("candidate", SimpleNamespace(failed=5), 5),
        ("candidate", SimpleNamespace(failed=None), 0),
        ("candidate", None, 0),
        ("candidate", Replay(ANSWERS, planned=3, workload_digest=""), 2),
        ("baseline", SimpleNamespace(failed=5), 0),
        (None, SimpleNamespace(failed=5), 0),
    ],
)
def test_failed_requests_are_told_about_the_candidate(role, record, expected):
    assert failures(piece(role, record)) == expected
