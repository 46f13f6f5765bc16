"""The fuzz targets themselves: each reads its seeds, and each would notice what it is there for."""

import importlib
import io
import json
import pickle
import subprocess
import sys
import zipfile
from random import Random

import pytest

from pulumi_infercrane.guard.evidence.readers import known_tools
from pulumi_infercrane.guard.evidence.records import Benchmark, Cost, Latency, Record
from tests.fuzz.forbidden import Watch
from tests.fuzz.mutate import edited, mutated, zipped
from tests.fuzz.parcel import packed, unpacked
from tests.fuzz.sane import check_sane
from tests.fuzz.target import Target
from tests.fuzz.targets import all_targets

TARGETS = list(all_targets())


def halved(data: bytes, limit: int) -> bytes:
    return data[: len(data) // 2]


def test_every_reader_has_a_target() -> None:
    assert {f"reader-{tool}" for tool in known_tools()} <= {target.name for target in TARGETS}


def test_names_are_unique() -> None:
    assert len({target.name for target in TARGETS}) == len(TARGETS)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_a_target_accepts_some_seed(target: Target) -> None:
    assert any(target.run(seed, Watch()) for seed in target.seeds), "nothing behind the first refusal would be fuzzed"


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_changed_seeds_lead_to_no_finding_and_are_the_same_every_time(target: Target) -> None:
    for number in range(5):
        changed = [target.mutate(target.seeds[0], 1 << 20, Random(number), halved) for _ in range(2)]
        assert changed[0] == changed[1]
        target.run(changed[0], Watch())


# --- changes ----------------------------------------------------------------------------------------------------


def test_a_tree_is_changed_and_stays_one() -> None:
    document = {"a": [1, 2, {"b": "x"}], "c": 0.5}
    results = [json.dumps(edited(json.loads(json.dumps(document)), Random(number))) for number in range(200)]
    assert len(set(results)) > 100


def test_lines_and_members_are_changed_one_at_a_time() -> None:
    lines = b'{"a": 1}\n{"b": 2}\n{"c": 3}\n'
    kept = [set(lines.splitlines()) & set(mutated(lines, 999, Random(n), halved).splitlines()) for n in range(20)]
    assert sum(len(one) == 2 for one in kept) > 10
    packed_twice = zipped({"a.json": b"[1]", "b.json": b"[2]"})
    with zipfile.ZipFile(io.BytesIO(mutated(packed_twice, 9999, Random(2), halved))) as changed:
        assert changed.testzip() is None


def test_a_parcel_comes_apart_as_it_was_packed() -> None:
    head = {"parts": ["primary", "samples"], "kind": "quality"}
    assert unpacked(packed(head, [b"{}", b""])) == (head, [b"{}", b""])
    with pytest.raises(ValueError, match="no head"):
        unpacked(packed(head, [b"{}"]))


# --- what must be noticed ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "deed",
    [
        "open('/etc/hostname')",
        "exec('1')",
        "eval('1')",
        "__import__('this')",
        "__import__('os').system('true')",
        "__import__('subprocess').run(['true'])",
        "__import__('socket').socket()",
        "__import__('pickle').loads(pickled)",
    ],
)
def test_a_watched_process_can_do_nothing_but_read(deed: str) -> None:
    pickled = pickle.dumps(importlib.import_module)
    program = f"""
import os, pickle, socket, subprocess
from tests.fuzz.forbidden import Forbidden, Watch
pickled = {pickled!r}
deed = lambda: {deed}
with Watch.installed().watched():
    try:
        deed()
    except Forbidden:
        os._exit(7)
"""
    done = subprocess.run([sys.executable, "-c", program], check=False, timeout=60)
    assert done.returncode == 7


@pytest.mark.parametrize(
    "record",
    [
        Cost("USD", float("nan"), 1.0),
        Cost("USD", 1.0, float("inf")),
        Cost("USD", 1.0, 1.0, requests=-1),
    ],
)
def test_a_record_that_cannot_be_is_noticed(record: Record) -> None:
    with pytest.raises(AssertionError):
        check_sane(record)


@pytest.mark.parametrize("latency", [Latency({0.5: float("nan")}), Latency({0.5: -1.0}), Latency(mean=float("inf"))])
def test_a_latency_that_cannot_be_is_noticed(latency: Latency) -> None:
    with pytest.raises(AssertionError):
        check_sane(Benchmark(1, 0, latencies={"ttft_s": latency}))


def test_a_quantile_may_be_infinite() -> None:
    check_sane(Benchmark(1, 0, latencies={"ttft_s": Latency({0.5: float("inf")}, mean=1.0)}))
