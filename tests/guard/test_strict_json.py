"""What two parsers could read differently is refused."""

import pytest

from pulumi_infercrane.guard.reasons import Inadmissible
from pulumi_infercrane.guard.strict_json import MAX_DEPTH, parse, parse_lines


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b"", "not_json"),
        (b"{", "not_json"),
        (b'{"a": 1', "not_json"),
        (b"{'a': 1}", "not_json"),
        (b'{"a": 1}{"a": 2}', "not_json"),
        (b'\xef\xbb\xbf{"a": 1}', "not_json"),
        (b'{"a": "\xff"}', "not_json"),
        (b'{"a": 1, "a": 2}', "duplicate_key"),
        (b'{"b": {"a": 1, "a": 1}}', "duplicate_key"),
        (b'{"a": NaN}', "non_finite"),
        (b'{"a": -Infinity}', "non_finite"),
        (b'{"a": 1e999}', "non_finite"),
        (b"[" * 100_000, "bomb"),
        (b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1), "bomb"),
        (b'{"a":' * 40 + b"1" + b"}" * 40, "bomb"),
        (b"1" * 5000, "bad_value"),
    ],
)
def test_refused(text, code):
    with pytest.raises(Inadmissible) as caught:
        parse(text)
    assert caught.value.problem.code == code


def test_wide_is_not_deep():
    assert parse(b"[" + b"[]," * 1000 + b"[]]") == [[]] * 1001


def test_nesting_up_to_the_cap_is_read():
    assert parse(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH)


def test_a_size_cap_comes_before_parsing():
    with pytest.raises(Inadmissible, match="oversize: 11 bytes, at most 10"):
        parse(b"[1,2,3,4,5]", max_bytes=10)


def test_the_error_names_the_line():
    with pytest.raises(Inadmissible, match=r"not_json: line 2: .*ends too early"):
        list(parse_lines(b'{"a": 1}\n{"a": '))


@pytest.mark.parametrize("text", [b'{"a": 1}\n\n{"a": 2}\n', b"{}\n[1]\n", b""])
def test_every_line_is_an_object(text):
    with pytest.raises(Inadmissible, match="not_json: line"):
        list(parse_lines(text))


def test_the_last_line_may_lack_its_newline():
    assert list(parse_lines(b'{"a": 1}\n{"a": 2}')) == [{"a": 1}, {"a": 2}]
