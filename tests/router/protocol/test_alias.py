"""Which model a body asks for; what would take long to find out is refused before it is read."""

import json
import tracemalloc
from time import process_time
from typing import NoReturn

import pytest

from pulumi_infercrane.router.errors import RequestRefused
from pulumi_infercrane.router.protocol import alias
from pulumi_infercrane.router.protocol.alias import MOST_MEMBERS, MOST_VALUES, requested_model, with_model

MB = 1_000_000
MANY = 2 * MOST_VALUES


def body(content: bytes, first: bytes = b"1") -> bytes:
    return b'{"first":%b,"messages":%b,"model":"chat"}' % (first, content)


@pytest.mark.parametrize("first", [b"1", b'"\\u0061"', b"1e400"], ids=["plain", "escape", "huge-number"])
@pytest.mark.parametrize(
    "content",
    [
        b"[" + b"{}," * MANY + b"{}]",
        b"[" + b"1," * MANY + b"1]",
        b'["' + b'","' * MANY + b'"]',
        b'["\\\\",' + b'"\\"",' * MANY + b'"\\\\"]',
        b"[" * MANY + b"]" * MANY,
        b"{" + b'"a":{},' * MANY + b'"a":1}',
    ],
    ids=["objects", "numbers", "strings", "escaped-quotes", "nested", "members"],
)
def test_a_body_of_countless_values_is_refused_unread(
    content: bytes, first: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """16 MB of empty objects stopped all streams for 10 s, and took 750 MiB."""

    def never(_: bytes) -> NoReturn:
        raise AssertionError

    monkeypatch.setattr(alias, "read_json", never)
    with pytest.raises(RequestRefused, match=f"more than {MOST_VALUES} values") as refused:
        requested_model(body(content, first))
    assert (refused.value.status, refused.value.code) == (400, "invalid_body")


@pytest.mark.parametrize(
    "content",
    [
        json.dumps("x" * 16 * MB),
        json.dumps("{},[]," * 2 * MB),
        json.dumps('{"a":[1,"b\\\\"],},' * 100_000),
        json.dumps("\\" * MB + ",[{" * MB),
        json.dumps("語," * MB),
        json.dumps([MB] * 300_000),
        json.dumps([{"role": "user", "content": "a, b, c"}] * 50_000),
    ],
    ids=["letters", "punctuation", "json", "backslashes", "escapes", "token-ids", "messages"],
)
def test_large_bodies_that_mean_something_are_read(content: str) -> None:
    assert requested_model(body(content.encode())) == "chat"


def test_what_is_read_needs_little_memory() -> None:
    largest = body(b"[" + b"{}," * (MOST_VALUES // 2 - 10) + b"{}]", b'"\\u0061"')
    tracemalloc.start()
    try:
        assert requested_model(largest) == "chat"
        assert tracemalloc.get_traced_memory()[1] < 64 * MB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["model", "stream"])
def test_a_name_spelled_in_two_ways_is_a_duplicate(name: str) -> None:
    spelled = "".join(f"\\u{ord(letter):04x}" for letter in name)
    twice = f'{{"model":"chat","stream":true,"{spelled}":"chat"}}'.encode()
    with pytest.raises(RequestRefused, match=f"'{name}' occurs twice"):
        requested_model(twice)


def test_a_name_within_another_object_is_none() -> None:
    inner = b'{"\\u006dodel":"a","tools":[{"model":"b"},{"model":"c"}]}'
    assert requested_model(inner) == "a"
    assert with_model(inner, "a", "z") == inner.replace(b'"a"', b'"z"')


def test_names_are_not_compared_without_end() -> None:
    fields = b"".join(b'"%d":1,' % number for number in range(MOST_MEMBERS))
    assert requested_model(b"{" + fields + b'"model":"chat"}') == "chat"
    with pytest.raises(RequestRefused, match=f"more than {MOST_MEMBERS} fields"):
        requested_model(b"{" + fields + b'"\\u0061":1,"model":"chat"}')


def test_blanks_are_not_looked_at_one_by_one() -> None:
    """They stopped all streams for 0.1 s per megabyte."""
    blanks, began = b" " * 4 * MB, process_time()
    padded = b'{"first":"\\u0061",' + blanks + b'"model":"chat"}'
    assert requested_model(padded) == "chat"
    assert with_model(padded, "chat", "z").endswith(b' "model":"z"}')
    assert process_time() - began < 0.2


def test_the_deepest_of_bodies_end_in_an_answer() -> None:
    for levels in range(900, 1100, 4):
        nested = body(b"[" * levels + b"]" * levels, b'"\\u0061"')
        try:
            assert requested_model(nested) == "chat"
        except RequestRefused as refused:
            assert refused.code == "invalid_body"
