"""Milliseconds of a file are seconds of its record: so many times the figures give so many times the record."""

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.guard.evidence.readers.test_bad_files import ALL, each, envelope_of, outcome

__all__ = ["envelope_of"]

IN_MILLISECONDS = ("aiperf", "genai-perf")
"""Tools whose files hold blocks with a unit, and little beside them that must fit."""


def stretched(node: Any, factor: float) -> Any:
    """Every block in milliseconds, multiplied."""
    if not isinstance(node, dict):
        return node
    if node.get("unit") == "ms":
        return {key: value * factor if isinstance(value, float) else value for key, value in node.items()}
    return {key: stretched(value, factor) for key, value in node.items()}


def seconds(record: Any) -> dict[str, list[float]]:
    return {name: sorted(latency.times_s) for name, latency in record.latencies.items()}


@each([sample for sample in ALL if sample.tool in IN_MILLISECONDS])
@settings(max_examples=20)
@given(factor=st.floats(0.25, 2.0))
def test_a_record_is_as_many_times_as_slow_as_its_file(sample, envelope_of, factor):
    alone = dataclasses.replace(sample, parts={"primary": sample.primary})
    slower = json.dumps(stretched(json.loads(sample.primary), factor)).encode()
    before, after = (outcome(alone, envelope_of(alone), raw) for raw in (sample.primary, slower))
    assert seconds(before)["ttft_s"]
    assert seconds(after) == {
        name: pytest.approx([factor * value for value in times]) for name, times in seconds(before).items()
    }
