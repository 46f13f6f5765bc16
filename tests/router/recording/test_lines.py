"""What of a request is kept: what is named, and nothing else."""

import json
import time
from typing import Any

import pytest

from pulumi_infercrane.router.recording.lines import content, line_of, metadata
from pulumi_infercrane.router.recording.redactors import combined, redactors

KEY = b"k" * 32


def body(**more: Any) -> bytes:
    return json.dumps({"model": "chat", "messages": [{"role": "user", "content": "call 555-1234"}], **more}).encode()


def kept(raw: bytes, *names: str) -> Any:
    return content(combined(names))(raw)["body"]


def test_a_line_is_one_object() -> None:
    line = line_of("id", "2026-11-30T12:00:00Z", "/v1/chat/completions", {"body": {"a": "b\n"}})
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    assert json.loads(line)["schema"] == "infercrane.recording/v1"


def test_fields_that_name_people_or_are_unknown_are_not_kept() -> None:
    sent = body(user="jane", metadata={"a": "b"}, safety_identifier="x", invented=1, temperature=0.5, max_tokens=9)
    assert kept(sent).keys() == {"model", "messages", "temperature", "max_tokens"}


def test_texts_are_redacted_wherever_they_are_in_messages() -> None:
    messages = [
        {"role": "user", "name": "jane7", "content": "a@b.com 12"},
        {"role": "user", "content": [{"type": "text", "text": "34"}, {"type": "image_url", "image_url": {"url": "5"}}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "call_9", "type": "function", "function": {"name": "f2", "arguments": '{"n":42}'}}],
        },
        {"role": "tool", "tool_call_id": "call_9", "content": "67"},
    ]
    found = kept(body(messages=messages, stop=["8"]), "emails", "digits")
    first, second, third, fourth = found["messages"]
    assert first == {"role": "user", "name": "jane1", "content": "name@example.com 11"}
    assert [part.get("text") or part["image_url"]["url"] for part in second["content"]] == ["11", "1"]
    assert third["tool_calls"] == [
        {"id": "call_9", "type": "function", "function": {"name": "f2", "arguments": '{"n":11}'}}
    ]
    assert fourth == {"role": "tool", "tool_call_id": "call_9", "content": "11"}
    assert found["stop"] == ["1"]


def test_without_redactors_texts_are_as_they_were_sent() -> None:
    assert kept(body())["messages"][0]["content"] == "call 555-1234"


def test_metadata_holds_no_text() -> None:
    found = metadata(KEY)(body(max_tokens=9, stream=True, tools=[{}], response_format={"type": "json_object"}))
    assert found.keys() == {"metadata"}
    told = found["metadata"]
    assert (told["messages"], told["text_chars"], told["max_tokens"], told["tools"]) == (1, 13, 9, 1)
    assert (told["stream"], told["response_format"], told["model"]) == (True, "json_object", "chat")
    assert "call" not in json.dumps(found)


def test_a_hash_tells_repeats_within_one_run_only() -> None:
    def hashed(key: bytes, **more: Any) -> str:
        return str(metadata(key)(body(**more))["metadata"]["messages_hmac"])

    assert hashed(KEY) == hashed(KEY, temperature=1)
    assert hashed(KEY) != hashed(b"other" * 8)


def test_what_a_client_writes_as_a_flag_is_not_kept_as_text() -> None:
    found = metadata(KEY)(
        body(response_format={"type": "secret"}, max_tokens="secret", temperature="secret", tools="s")
    )
    assert "secret" not in json.dumps(found)


@pytest.mark.parametrize("more", [{"messages": json.loads("[" * 30 + "]" * 30)}, {"seed": 2**60}])
@pytest.mark.parametrize("contents", [content(str), metadata(KEY)])
def test_what_not_every_reader_takes_is_not_recorded(more: dict[str, Any], contents: Any) -> None:
    with pytest.raises(ValueError, match=r"nested|integer"):
        contents(body(**more))


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("emails", "write to jane.doe+x@mail.example.org, now", "write to name@example.com, now"),
        ("emails", "a@b @ c@d.e", "name@example.com @ name@example.com"),
        ("emails", "no address", "no address"),
        ("digits", "card 4111 1111, \u0664", "card 1111 1111, 1"),
    ],
)
def test_redactors(name: str, text: str, expected: str) -> None:
    assert combined([name])(text) == expected


@pytest.mark.parametrize("name", redactors())
@pytest.mark.parametrize("text", ["a" * 262_144, "a@" * 131_072, "a." * 131_072, "@a.a" * 65_536, "1" * 262_144])
def test_no_text_takes_a_redactor_long(name: str, text: str) -> None:
    begun = time.perf_counter()
    combined([name])(text)
    assert time.perf_counter() - begun < 1
