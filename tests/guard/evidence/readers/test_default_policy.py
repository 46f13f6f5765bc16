"""The samples are short: under a policy that names no shortest run they decide nothing, whatever is in them."""

import json

import pytest

from tests.guard.evidence.readers.offering import SAMPLES, offer

POLICY = (
    "schema: infercrane.policy/v1\nrequired_kinds: [benchmark]\nrules: [{id: benchmark.error_fraction, limit: 0.01}]\n"
)


@pytest.mark.parametrize("tool", ["inference-perf", "llm-d", "k6", "locust", "litellm", "otel"])
def test_a_run_of_seconds_is_truncated(folder, tool):
    (one,) = [one for one in json.loads((SAMPLES / tool / "sample.json").read_text()) if one["kind"] == "benchmark"]
    piece = offer(
        folder, tool, "benchmark", one["parts"], tool_version=one["tool_version"], envelope=one.get("envelope")
    )
    assert piece.problem is None and piece.record.failed
    found = folder.decide(policy=POLICY)
    assert (found.verdict, found.record["rules"][0]["reasons"]) == ("insufficient_evidence", ["truncated"])
