"""YAML without mercy: what JSON could say, or a refusal with the line."""

import pytest

from pulumi_infercrane.guard.reasons import Inadmissible
from pulumi_infercrane.guard.strict_yaml import MAX_BYTES, parse_yaml


def problem(text):
    with pytest.raises(Inadmissible) as caught:
        parse_yaml(text if isinstance(text, bytes) else text.encode())
    return str(caught.value.problem)


def test_blocks_become_plain_values():
    text = "a: {b: [1, -2.5, 1.0e-05]}\nc: 'true'\nd: yes\ne: true\nf: null\ng: 2026-11-30\nh: 1_000\ni: 010\nj:\n"
    expected = {"a": {"b": [1, -2.5, 1e-05]}, "c": "true", "d": "yes", "e": True, "f": None}
    assert parse_yaml(text.encode()) == expected | {"g": "2026-11-30", "h": "1_000", "i": "010", "j": None}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "not_json: the file is empty"),
        ("# nothing", "not_json: the file is empty"),
        ("a: [1", "not_json: line 1: "),
        ("a: 1\nb: \x07", r"not_json: line 2: the character '\x07'"),
        ("a: b: c", "not_json: line 1: mapping values are not allowed here"),
        ("a: 1\na: 2", "duplicate_key: line 2: key 'a' is written twice"),
        ("a: .NaN", "non_finite: line 1: .NaN is not a number"),
        ("a: -.inf", "non_finite"),
        ("a: 1e999", "non_finite: line 1: 1e999 is beyond"),
        ("a: &x 1\nb: *x", "bomb: line 1: anchors and aliases are not read"),
        ("a: *x", "bomb: line 1: anchors and aliases are not read"),
        ("a: !!python/object/apply:os.system [id]", "not_json: line 1: tags are not read"),
        ("a: !!float 1", "not_json: line 1: tags are not read"),
        ("? [1]\n: 2", "not_json: line 1: a key must be text"),
        ("a: 1\n---\nb: 2", "ambiguous_run: more than one document"),
        ("[" * 40, "bomb: line 1: nested deeper than 32"),
        ("[" * 100_000, "bomb: line 1: nested deeper than 32"),
        ("{a: " * 40, "bomb: line 1: nested deeper than 32"),
        ("- " * 40_000 + "1", "bomb: line 1: nested deeper than 32"),
        (b"\xff\xfea\x00", "not_json: not UTF-8 at byte 0"),
        (b"a: \x00", "not_json: "),
        (b"\xef\xbb\xbfa: 1", "not_json: begins with a byte order mark"),
        (b"\x1f\x8b\x08", "not_json: not UTF-8"),
        ("a: " + "9" * 5000, "bad_value"),
        (" " * (MAX_BYTES + 1), "oversize"),
    ],
)
def test_everything_else_is_refused(text, expected):
    assert problem(text).startswith(expected)
