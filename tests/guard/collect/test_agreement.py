"""How two answers are compared besides their text."""

import time
from typing import Any

import pytest

from pulumi_infercrane.guard.collect.agreement import refused, structured, tool_calls_digest
from pulumi_infercrane.guard.collect.similarity import find_similarity, similarities

OBJECT = {"response_format": {"type": "json_object"}}


def schema(*required: str) -> dict[str, Any]:
    return {"response_format": {"type": "json_schema", "json_schema": {"schema": {"required": [*required]}}}}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I cannot help with that.", True),
        ("I\u2019m unable to share this.", True),
        ("As an AI, I have no opinion.", True),
        ("Paris is the capital of France.", False),
        ("x" * 300 + " I cannot", False),
        ("", False),
    ],
)
def test_refusals_by_their_opening(text: str, expected: bool) -> None:
    assert refused(text, "stop") is expected


def test_a_filter_refuses_for_the_model() -> None:
    assert refused("", "content_filter")


@pytest.mark.parametrize(
    ("fields", "text", "expected"),
    [
        ({}, "{}", None),
        ({"response_format": {"type": "text"}}, "{}", None),
        ({"response_format": "json"}, "{}", None),
        (OBJECT, '{"a": 1}', True),
        (OBJECT, "[1]", False),
        (OBJECT, '```json\n{"a": 1}\n```', False),
        (OBJECT, '{"a": NaN}', False),
        (OBJECT, "[" * 100_000, False),
        (schema("a"), '{"a": 1, "b": 2}', True),
        (schema("a"), '{"b": 2}', False),
    ],
)
def test_structure(fields: dict[str, Any], text: str, expected: bool | None) -> None:
    assert structured(fields, text) is expected


def test_tool_calls_by_name_and_arguments() -> None:
    assert tool_calls_digest(()) is None
    assert tool_calls_digest([("f", '{"a":1,"b":2}')]) == tool_calls_digest([("f", '{"b": 2, "a": 1.0}')])
    different = [("f", '{"a":1}'), ("g", '{"a":1}'), ("f", "broken {"), ("f", '{"a": NaN}'), ("f", f"{2**70}")]
    assert len({tool_calls_digest([call]) for call in different}) == len(different)
    assert tool_calls_digest([("f", "1"), ("g", "2")]) != tool_calls_digest([("g", "2"), ("f", "1")])


@pytest.mark.parametrize("name", similarities())
def test_every_similarity_is_a_bounded_share(name: str) -> None:
    similarity = find_similarity(name)
    assert similarity("a b c", "a b c") == similarity("", "") == 1.0
    assert similarity("a b", "c d") == 0.0
    begun = time.perf_counter()
    assert 0 <= similarity("a b " * 200_000, "b c a " * 200_000) <= 1
    assert time.perf_counter() - begun < 2


def test_the_ratio_counts_words_in_order() -> None:
    assert find_similarity("token_ratio")("the cat  sat", "the dog sat") == pytest.approx(2 / 3)
