"""YAML with lines."""

import pytest

from pulumi_infercrane.stacks.errors import ConfigError
from pulumi_infercrane.stacks.yaml_lines import load_yaml


def test_every_key_knows_its_line() -> None:
    located = load_yaml("a: 1\nb:\n  c: 2\n  d: [x, y]\n", "f.yaml")
    assert located.value == {"a": 1, "b": {"c": 2, "d": ["x", "y"]}}
    assert located.at(("b", "c")) == 3
    assert located.at(("b", "d", "1")) == 4


def test_a_missing_key_is_placed_at_the_block_around_it() -> None:
    assert load_yaml("a:\n  b: 1\n", "f.yaml").at(("a", "z")) == 1
    assert load_yaml("a: 1\n", "f.yaml").at(("q",)) is None


def test_a_key_given_twice_is_refused_with_both_lines() -> None:
    with pytest.raises(ConfigError, match=r"f\.yaml:3: 'r1' is given twice, first in line 2"):
        load_yaml("revisions:\n  r1: {}\n  r1: {}\n", "f.yaml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", r"f\.yaml:1: not valid YAML"),
        ("- a", "not a mapping"),
        ("3", "not a"),
        ('a:\n  - "x\\0"', r"f\.yaml:2: a text cannot have a NUL in it"),
        ("[" * 1500, "nested too deep"),
    ],
)
def test_what_is_not_a_mapping_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_yaml(text, "f.yaml")


def test_an_empty_file_is_an_empty_mapping() -> None:
    assert load_yaml("", "f.yaml").value == {}
