"""Every reader against files that are broken, foreign or hostile.

A reader is found by the registry, its good files by `tests/guard/samples/<tool>/sample.json` (see the README there).
Nothing but Inadmissible may leave a reader, and what is not a file of the tool may never lead to a pass.
"""

import copy
import dataclasses
import gzip
import json
import math
import pkgutil
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulumi_infercrane.guard.evidence import readers, seal
from pulumi_infercrane.guard.evidence.envelope import Envelope, parse_envelope
from pulumi_infercrane.guard.evidence.readers import reader_for
from pulumi_infercrane.guard.judging.rule import Member, Rule, Settings, Sides
from pulumi_infercrane.guard.reasons import Inadmissible
from pulumi_infercrane.guard.rules import find_kind

SAMPLES = Path(__file__).parents[2] / "samples"
OWN = {"infercrane"}
"""Our own format names the revision it measured; test_infercrane.py puts it through the same."""


@dataclasses.dataclass(frozen=True)
class Sample:
    tool: str
    kind: str
    version: str
    parts: Mapping[str, bytes] = dataclasses.field(repr=False)
    select: Mapping[str, Any] | None = None
    planned: int | None = None
    stated: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)
    """What else the envelope must say: the window of a file that knows its time, the price of one that does not."""

    @property
    def primary(self) -> bytes:
        return self.parts["primary"]

    def documents(self, part: str = "primary") -> list[Any] | None:
        """A part as JSON, or its lines as JSON; None when it is something else."""
        for pieces in ([self.parts[part]], self.parts[part].splitlines()):
            try:
                return [json.loads(piece) for piece in pieces]
            except ValueError:
                continue
        return None

    @cached_property
    def places(self) -> Mapping[str, list[tuple[Any, ...]]]:
        """Where a value stands in each part, by the way to it."""
        return {part: list(places(self.documents(part) or [])) for part in sorted(self.parts)}


def found() -> Iterator[Sample]:
    for manifest in sorted(SAMPLES.glob("*/sample.json")):
        folder = manifest.parent
        for one in json.loads(manifest.read_text()):
            parts = {part: (folder / name).read_bytes() for part, name in one["parts"].items()}
            optional = (one.get("select"), one.get("planned"), one.get("envelope", {}))
            yield Sample(folder.name, one["kind"], one["tool_version"], parts, *optional)


ALL = list(found())
JSON = [sample for sample in ALL if sample.documents() is not None]


def name_of(sample: Sample) -> str:
    return f"{sample.tool}-{sample.kind}"


def each(samples: list[Sample]) -> Any:
    return pytest.mark.parametrize("sample", samples, ids=map(name_of, samples))


@pytest.fixture(scope="module")
def envelope_of(new_folder: Callable[..., Any]) -> Callable[[Sample], Envelope]:
    """The envelope of a sample; a reader never looks at the sums in it."""
    folder = new_folder()
    made: dict[int, tuple[Sample, Envelope]] = {}  # with the sample, whose id would else come again

    def of(sample: Sample) -> Envelope:
        if id(sample) not in made:
            made[id(sample)] = sample, make(sample)
        return made[id(sample)][1]

    def make(sample: Sample) -> Envelope:
        files = []
        for part in sample.parts:
            file = folder.envelope(sample.kind, "candidate", part, b"", {}, 0)["files"][0]
            files.append(file | {"part": part, "tool": sample.tool, "tool_version": sample.version})
        if sample.select:
            files[0]["select"] = dict(sample.select)
        envelope = folder.envelope(sample.kind, "candidate", "x", b"", {"id": "chat-short"}, sample.planned or 0)
        envelope |= {"files": files, **sample.stated}
        if sample.planned is None:
            del envelope["planned"]
        return parse_envelope(seal(envelope))[0]

    return of


def outcome(sample: Sample, envelope: Envelope, primary: bytes, part: str = "primary") -> Any:
    """The record, or the code of the refusal."""
    try:
        return reader_for(sample.tool, sample.version).read({**sample.parts, part: primary}, envelope)
    except Inadmissible as error:
        return error.problem.code


def passes(sample: Sample, envelope: Envelope, record: Any) -> bool:
    """Whether a record of a load run would pass the most lenient rule there is. Other kinds need a second side."""
    if isinstance(record, str) or sample.kind != "benchmark":
        return False
    kind, identifier = find_kind("benchmark"), "benchmark.error_fraction"
    rule = Rule(identifier, "benchmark", hard=True, relative=False, bound=0.5, min_pass=1, min_compute=1)
    sides = Sides((Member(envelope, record),), ())
    return bool(record.attempted) and kind.judge(rule, sides, Settings(0.05, 0.0)).outcome == "pass"


# --- the samples themselves -------------------------------------------------------------------------------------


def test_every_reader_has_a_good_file():
    with_sample = {sample.tool.replace("-", "_") for sample in ALL}
    assert {module.name for module in pkgutil.iter_modules(readers.__path__)} - OWN == with_sample


@each(ALL)
def test_a_good_file_is_read(sample, envelope_of):
    record = outcome(sample, envelope_of(sample), sample.primary)
    assert type(record).__name__.lower() == sample.kind
    check_sane(record)


@each(ALL)
def test_a_reader_says_what_it_reads(sample):
    reader = reader_for(sample.tool, sample.version)
    for sentence in (reader.READS, reader.CANNOT_KNOW):
        assert re.fullmatch(r"[A-Z`].+\.", sentence), sentence


# --- bytes ------------------------------------------------------------------------------------------------------

BYTES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda raw: b"",
    "blank": lambda raw: b"\n",
    "truncated": lambda raw: raw[: len(raw) // 2],
    "gzip": lambda raw: gzip.compress(raw, mtime=0),
    "utf-16": lambda raw: raw.decode("latin-1").encode("utf-16"),
    "bom": lambda raw: b"\xef\xbb\xbf" + raw,
    "zeros": lambda raw: b"\0" * 64,
    "not utf-8": lambda raw: b"\xff\xfe" + raw,
    "null": lambda raw: b"null",
    "list": lambda raw: b"[]",
    "object": lambda raw: b"{}",
    "number": lambda raw: b"1",
    "nested": lambda raw: b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "lists": lambda raw: b"[" * 100_000,
    "html": lambda raw: b"<!doctype html><title>404</title>",
    "pickle": lambda raw: b"\x80\x04\x95\x1a\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94\x8c\x06system\x94\x93\x94.",
}


@each(ALL)
@pytest.mark.parametrize("change", BYTES)
def test_what_is_not_a_file_of_the_tool_is_refused(sample, envelope_of, change):
    for part, raw in sample.parts.items():
        assert isinstance(outcome(sample, envelope_of(sample), BYTES[change](raw), part), str), part


@each(ALL)
def test_the_file_of_another_tool_is_refused(sample, envelope_of):
    for other in ALL:
        if other.tool != sample.tool:
            assert isinstance(outcome(sample, envelope_of(sample), other.primary), str), name_of(other)


@each(ALL)
def test_another_kind_than_the_tool_measures_is_refused(sample, envelope_of):
    given_kinds = {other.kind for other in ALL if other.tool == sample.tool}
    for kind in {"benchmark", "quality", "replay", "reliability", "cost", "other"} - given_kinds:
        other = dataclasses.replace(sample, kind=kind)
        assert isinstance(outcome(other, envelope_of(other), sample.primary), str), kind


@each(ALL)
def test_a_newer_major_version_is_refused(sample, envelope_of):
    newer = dataclasses.replace(sample, version="99.0.0")
    if reader_for(sample.tool, sample.version).VERSIONS:
        assert outcome(newer, envelope_of(newer), sample.primary) == "version_unknown"
    inside = re.sub(rb'("[a-z_]*version": *)"[0-9]+[.][0-9.]+"', rb'\1"99.0.0"', sample.primary)
    if inside != sample.primary:
        assert isinstance(outcome(sample, envelope_of(sample), inside), str)


# --- JSON -------------------------------------------------------------------------------------------------------

NUMBER = re.compile(rb"(?<=[:\s\[,])-?\d+\.\d+")

TEXT: dict[str, Callable[[bytes], bytes]] = {
    "NaN": lambda raw: NUMBER.sub(b"NaN", raw, count=1),
    "Infinity": lambda raw: NUMBER.sub(b"-Infinity", raw, count=1),
    "1e999": lambda raw: NUMBER.sub(b"1e999", raw, count=1),
    "duplicate key": lambda raw: raw.replace(b"{", b'{"twice": 1, "twice": 2, ', 1),
    "trailing": lambda raw: raw.rstrip() + b" x",
}


@each(JSON)
@pytest.mark.parametrize("change", TEXT)
def test_json_that_parsers_disagree_about_is_refused(sample, envelope_of, change):
    changed = TEXT[change](sample.primary)
    if changed != sample.primary:
        assert isinstance(outcome(sample, envelope_of(sample), changed), str)


def numbers_as(value: Callable[[float], Any]) -> Callable[[Any], Any]:
    return lambda node: value(node) if isinstance(node, int | float) and not isinstance(node, bool) else node


def as_list(node: Any) -> Any:
    return list(node.values()) if isinstance(node, dict) else node


TREES: dict[str, Callable[[Any], Any]] = {
    "negative": numbers_as(lambda number: -abs(number) - 1),
    "zero": numbers_as(lambda number: 0),
    "huge": numbers_as(lambda number: 1e308),
    "endless": numbers_as(lambda number: 10**400),
    "text": numbers_as(str),
    "truth": numbers_as(bool),
    "nulls": numbers_as(lambda number: None),
    "lists": as_list,
    "nested": numbers_as(lambda number: [[number]]),
    "thousandfold": numbers_as(lambda number: number * 1e6),
}


def rebuilt(node: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(node, dict):
        return change({key: rebuilt(value, change) for key, value in node.items()})
    return [rebuilt(value, change) for value in node] if isinstance(node, list) else change(node)


def written(documents: list[Any]) -> bytes:
    return b"\n".join(json.dumps(one).encode() for one in documents)


@each(JSON)
@pytest.mark.parametrize("change", TREES)
def test_values_that_are_wrong_throughout_never_pass(sample, envelope_of, change):
    documents = [rebuilt(one, TREES[change]) for one in sample.documents() or []]
    envelope = envelope_of(sample)
    record = outcome(sample, envelope, written(documents))
    assert not passes(sample, envelope, record)


def places(node: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if here:
        yield here
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in children:
        yield from places(value, (*here, key))


GONE = object()
VALUES = [GONE, None, True, -1, 0, 0.5, 10**6, 1e308, 2**60, "", "NaN", "12", [], {}, [[]], [None], {"a": []}, "é\0"]


def edit(documents: list[Any], place: tuple[Any, ...], value: Any) -> None:
    node: Any = documents
    try:
        for key in place[:-1]:
            node = node[key]
        if value is GONE:
            del node[place[-1]]
        else:
            node[place[-1]] = copy.deepcopy(value)
    except (IndexError, KeyError, TypeError):
        return  # an earlier edit took the place away


@each(JSON)
@settings(max_examples=50)
@given(data=st.data())
def test_any_edit_is_read_or_refused(sample, envelope_of, data):
    part = data.draw(st.sampled_from(sorted(sample.parts)))
    documents, everywhere = sample.documents(part) or [], sample.places[part]
    spots = st.integers(0, len(everywhere) - 1).map(everywhere.__getitem__)
    for place, value in data.draw(st.lists(st.tuples(spots, st.sampled_from(VALUES)), min_size=1, max_size=3)):
        edit(documents, place, value)
    record = outcome(sample, envelope_of(sample), written(documents), part)
    if not isinstance(record, str):
        check_sane(record)


def check_sane(record: Any) -> None:
    """No NaN, no negative count, no infinite figure but a quantile that failures made so."""
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        if isinstance(value, float):
            assert math.isfinite(value), field.name
        if type(value) is int:
            assert value >= 0, field.name
    if type(record).__name__ == "Benchmark":
        check_sane_latencies(record)


def check_sane_latencies(record: Any) -> None:
    assert record.attempted is None or record.failed is None or record.failed <= record.attempted
    for latency in record.latencies.values():
        assert all(value >= 0 for value in latency.quantiles.values())
    if record.requests is not None:
        seconds = list(record.requests.seconds("e2e_s"))
        assert all(value > 0 for value in seconds)
