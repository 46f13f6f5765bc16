"""The parsers below the readers: whatever they accept is within their caps, and another parser reads the same."""

import json
import math
from collections.abc import Iterator
from typing import Any

from pulumi_infercrane.guard.evidence.reading import archive
from pulumi_infercrane.guard.reasons import Inadmissible
from pulumi_infercrane.guard.strict_json import MAX_BYTES, MAX_DEPTH, parse, parse_lines
from pulumi_infercrane.guard.strict_yaml import parse_yaml
from tests.fuzz.forbidden import Watch
from tests.fuzz.own import evidence
from tests.fuzz.samples import SAMPLES
from tests.fuzz.target import Target


def targets() -> Iterator[Target]:
    yield Target("strict-json", _json, (*_files("vllm-bench/ok.json", "k6/k6_1.1.0_handleSummary.json"), b"[1e3]"))
    yield Target("strict-json-lines", _lines, tuple(data for name, data in evidence().items() if "jsonl" in name))
    yield Target("strict-yaml", _yaml, (*_files("llm-d/ip0.7.0_benchmark_report_v0.2.1_stage_1.yaml"), b"a: [1, ~]\n"))
    yield Target("archive", _archive, _files("inspect-ai/base.eval"))


def _files(*names: str) -> tuple[bytes, ...]:
    return tuple((SAMPLES / name).read_bytes() for name in names)


def _json(data: bytes, watch: Watch) -> bool:
    with watch.watched():
        try:
            value = parse(data)
        except Inadmissible:
            return False
    assert json.loads(data) == value
    check_tree(value)
    return True


def _lines(data: bytes, watch: Watch) -> bool:
    with watch.watched():
        try:
            for value in parse_lines(data):
                check_tree(value)
        except Inadmissible as error:
            assert error.problem.detail.startswith(("line ", f"{len(data)} bytes"))
            return False
    return True


def _yaml(data: bytes, watch: Watch) -> bool:
    with watch.watched():
        try:
            value = parse_yaml(data)
        except Inadmissible:
            return False
    check_tree(value)
    return True


def _archive(data: bytes, watch: Watch) -> bool:
    with watch.watched():
        try:
            for name, content in archive.members(data, lambda name: True):
                assert ".." not in name.split("/"), name
                assert not name.startswith("/"), name
                assert len(content) <= MAX_BYTES, name
        except Inadmissible:
            return False
    return True


def check_tree(value: Any) -> None:
    """Nothing but what JSON can say, finite, and no deeper than the cap.

    Raises:
        AssertionError: says what.
    """
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        for node in level:
            assert type(node) in (dict, list, str, int, float, bool, type(None)), type(node)
            assert not isinstance(node, float) or math.isfinite(node), node
        level = [child for node in level for child in _children(node)]
    assert not level, "too deep"


def _children(node: Any) -> list[Any]:
    return list(node.values()) if isinstance(node, dict) else node if isinstance(node, list) else []
