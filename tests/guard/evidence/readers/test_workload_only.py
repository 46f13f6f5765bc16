"""Traces of requests say what was asked, never how well it was answered: they are workload, not evidence."""

import pytest

from tests.guard.evidence.readers.offering import offer

TRACES = {
    "mooncake-trace": b'{"timestamp": 0, "input_length": 6755, "output_length": 500, "hash_ids": [0, 1]}\n',
    "azure-llm-trace": b"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n",
    "burstgpt": b"Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,18,490,API log\n",
    "sharegpt": b'[{"id": "a", "conversations": [{"from": "human", "value": "hello"}]}]\n',
}


@pytest.mark.parametrize("kind", ["benchmark", "replay", "quality", "reliability", "cost"])
@pytest.mark.parametrize("tool", TRACES)
def test_a_trace_is_no_evidence_of_any_kind(folder, tool, kind):
    assert offer(folder, tool, kind, {"primary": TRACES[tool]}).problem.code == "tool_unknown"


@pytest.mark.parametrize("disguise", ["litellm", "otel", "locust"])
@pytest.mark.parametrize("trace", TRACES)
def test_a_trace_is_not_taken_for_another_tool_s_log(folder, trace, disguise):
    assert offer(folder, disguise, "reliability", {"primary": TRACES[trace]}).problem.code in (
        "schema_unknown",
        "not_json",
    )
