"""Our guard on drawn measurements: the whole of `decide`, on records as the readers give them."""

import json
import math
from array import array
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from benchmarks.simulate.situations import Bools, Load, Pairs, Run
from pulumi_infercrane.guard import EvidenceSet, LoadedEvidence, Policy, decide, load_policy, seal
from pulumi_infercrane.guard.evidence.envelope import Envelope
from pulumi_infercrane.guard.evidence.records import Answer, Benchmark, Quality, Record, Requests
from tests.guard.conftest import AS_OF, DIGEST, Folder

LOAD_RULES = (
    "id: benchmark.error_fraction",
    "id: benchmark.error_fraction_difference",
    "id: benchmark.ttft_p50",
    "id: benchmark.ttft_p95",
)
SCENARIO = {"id": "drawn", "dataset_digest": DIGEST, "load_model": "closed", "concurrency": 2}
FOLDER = Folder(Path("unused"))


def of_load(situation: Load, baseline: Sequence[Run], candidate: Sequence[Run]) -> str:
    """The verdict on load runs."""
    policy = _policy("benchmark", situation.rules or LOAD_RULES)
    sides = {"baseline": [_benchmark(run) for run in baseline], "candidate": [_benchmark(run) for run in candidate]}
    return _verdict(policy, "benchmark", situation.n, sides)


def of_pairs(situation: Pairs, baseline: Bools, candidate: Bools) -> str:
    """The verdict on one task answered by both sides."""
    policy = _policy("quality", (f"id: quality.basics, margin: {situation.margin}",))
    sides = {"baseline": [_quality(baseline)], "candidate": [_quality(candidate)]}
    return _verdict(policy, "quality", situation.n, sides)


def _verdict(policy: Policy, kind: str, n: int, sides: Mapping[str, Sequence[Record]]) -> str:
    items = tuple(
        LoadedEvidence(envelope.primary.path, envelope.evidence_id, envelope=envelope, record=record)
        for role, records in sides.items()
        for record, envelope in zip(records, _envelopes(kind, role, n, len(records)), strict=True)
    )
    subjects = FOLDER.candidate, FOLDER.baseline
    asked = {"service": "drawn", "stack": "dev", "as_of": AS_OF}
    return decide(policy, EvidenceSet(items), candidate=subjects[0], baseline=subjects[1], **asked).verdict


@lru_cache(maxsize=64)
def _policy(kind: str, rules: tuple[str, ...]) -> Policy:
    lines = "".join(f"  - {{{rule}}}\n" for rule in rules)
    return load_policy(f"schema: infercrane.policy/v1\nrequired_kinds: [{kind}]\nrules:\n{lines}")


@lru_cache(maxsize=64)
def _envelopes(kind: str, role: str, n: int, runs: int) -> tuple[Envelope, ...]:
    names = [f"{role}-{number}" for number in range(runs)]
    documents = [FOLDER.envelope(kind, role, name, name.encode(), SCENARIO, n) for name in names]
    for ordinal, document in enumerate(documents, start=1):
        document["run"] = {"group": "drawn", "ordinal": ordinal, "of": runs}
    return tuple(Envelope.model_validate_json(json.dumps(seal(document))) for document in documents)


def _benchmark(run: Run) -> Benchmark:
    n = len(run.ttft_s)
    ttft, none = array("d", run.ttft_s.tobytes()), array("d", [math.nan]) * n
    requests = Requests(bytes(~run.failed), ttft, none, ttft, none, none)
    failed = int(run.failed.sum())
    return Benchmark(n, failed, load_model="closed", concurrency=2.0, streaming=True, requests=requests)


def _quality(right: Bools) -> Quality:
    answers = {name: answer[good] for (name, answer), good in zip(_items(len(right)), right.tolist(), strict=True)}
    return Quality("basics", "contains", DIGEST, answers)


@lru_cache(maxsize=8)
def _items(n: int) -> tuple[tuple[str, tuple[Answer, Answer]], ...]:
    """The wrong and the right answer to each item."""
    return tuple(
        (str(index), (Answer(0.0, True, False, False, f"{index} no"), Answer(1.0, True, False, False, f"{index} yes")))
        for index in range(n)
    )
