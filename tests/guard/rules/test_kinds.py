"""Kinds are the modules of their folder, and nothing else is one."""

import pytest

from pulumi_infercrane.guard.rules import find_kind, known_kinds


def test_the_kinds_are_those_with_a_module():
    assert known_kinds() == ("benchmark", "cost", "quality", "reliability", "replay")
    assert [find_kind(name).name for name in known_kinds()] == list(known_kinds())


@pytest.mark.parametrize("name", ["speed", "", "__init__", "benchmark.KIND"])
def test_what_has_no_module_is_no_kind(name):
    with pytest.raises(KeyError):
        find_kind(name)
