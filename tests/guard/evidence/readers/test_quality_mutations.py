"""Whatever stands in a field of a quality tool's file, nothing but a named refusal comes out of its reader."""

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from pulumi_infercrane.guard.evidence import record_lines
from pulumi_infercrane.guard.evidence.envelope import parse_envelope
from pulumi_infercrane.guard.evidence.identity import seal
from pulumi_infercrane.guard.evidence.readers import find_reader
from pulumi_infercrane.guard.evidence.reading.stated import stated_in
from pulumi_infercrane.guard.reasons import Inadmissible

ANYTHING = [None, True, 0, -1, 2**60, 1.5, "", "x", "\ud800", [], {}, [1], ["a"], {"a": 1}, [None], [{}]]
TURNS = 120


def places(node: Any) -> Iterator[tuple[Any, Any]]:
    """Every container with a key of it; of a long list the first three."""
    keys = list(node) if isinstance(node, dict) else list(range(min(len(node), 3))) if isinstance(node, list) else []
    for key in keys:
        yield node, key
        yield from places(node[key])


def mutated(document: Any, source: random.Random) -> Any:
    changed = copy.deepcopy(document)
    container, key = source.choice(list(places(changed)))
    if source.random() < 0.2:
        del container[key]
    else:
        container[key] = copy.deepcopy(source.choice(ANYTHING))
    return changed


def as_lines(document: Any) -> bytes:
    return "".join(json.dumps(line) + "\n" for line in document).encode()


@pytest.fixture
def envelope_of(folder):
    def build(tool: str, sample: dict[str, Any]) -> Any:
        sealed = folder.envelope(sample["kind"], "candidate", "", b"", {"id": "suite"}, 6)
        named = {"path": "x", "tool": tool, "tool_version": sample["tool_version"]}
        sealed["files"] = [sealed["files"][0] | named | {"part": part} for part in sample["parts"]]
        if "select" in sample:
            sealed["files"][0]["select"] = sample["select"]
        return parse_envelope(seal(sealed | sample.get("envelope", {})))[0]

    return build


@pytest.mark.parametrize("tool", ["lm-eval", "inspect-ai", "promptfoo", "infercrane-go"])
def test_a_changed_field_is_read_or_refused(samples, envelope_of, tool):
    source = random.Random(1)
    sample = json.loads((samples / tool / "sample.json").read_bytes())[0]
    envelope = envelope_of(tool, sample)
    reader = find_reader(tool)
    files = {part: (samples / tool / name).read_bytes() for part, name in sample["parts"].items()}
    refused = 0
    for _ in range(TURNS):
        part = source.choice(sorted(files))
        lines = part == "samples"
        document = [json.loads(line) for line in files[part].splitlines()] if lines else json.loads(files[part])
        changed = mutated(document, source)
        parts = files | {part: as_lines(changed) if lines else json.dumps(changed).encode()}
        stated_in(reader, parts)
        try:
            list(record_lines.lines(reader.read(parts, envelope)))
        except Inadmissible:
            refused += 1
    assert 0 < refused < TURNS


def test_half_a_surrogate_pair_in_a_name_can_be_told_in_a_decision(folder, samples):
    document = json.loads((samples / "lm-eval" / "cand_results.json").read_bytes())
    document["results"]["\ud800"] = {}
    folder.measured("candidate", "lm-eval", "0.4.13", {"primary": json.dumps(document).encode()}, "quality")
    made = folder.decide(policy="schema: infercrane.policy/v1\nrequired_kinds: [quality]\nrules: [{id: quality.x}]\n")
    assert made.verdict == "insufficient_evidence"
    assert b"\\\\ud800" in made.canonical
