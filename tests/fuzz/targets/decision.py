"""A candidate's envelope and file of our own formats, sealed again after every change, beside a good baseline: whatever
is in them, there is a decision, and the same one twice.

The head of the parcel is the envelope.
"""

import functools
import hashlib
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pulumi_infercrane.guard import decide, load_evidence, load_policy
from pulumi_infercrane.guard.errors import CanonicalError
from pulumi_infercrane.guard.evidence import EvidenceSet, revision_digest, seal
from pulumi_infercrane.guard.evidence.envelope import SCHEMA
from tests.fuzz.forbidden import Watch
from tests.fuzz.mutate import input_mutated
from tests.fuzz.own import evidence
from tests.fuzz.parcel import MARK
from tests.fuzz.target import Target
from tests.fuzz.targets.policy import FULL
from tests.guard.conftest import AS_OF, subject_of

FILE = "raw"


def targets() -> Iterator[Target]:
    seeds = []
    for name, content in evidence("candidate").items():
        if name.endswith(".evidence.json"):
            (file,) = json.loads(content)["files"]
            seeds.append(content + MARK + evidence("candidate")[file["path"]])
    yield Target("decision", _run, tuple(seeds), functools.partial(input_mutated, head=0.5))


def _run(data: bytes, watch: Watch) -> bool:
    envelope, *contents = data.split(MARK)
    sealed = _sealed(envelope, contents[0]) if contents else None
    if sealed is None:
        return False
    (_folder() / FILE).write_bytes(contents[0])
    (_folder() / "x.evidence.json").write_bytes(sealed)
    items = load_evidence(_folder()).items
    with watch.watched():
        first, second = (_decided(EvidenceSet(order + _baseline().items)) for order in (items, items[::-1]))
    assert first == second
    return all(item.problem is None for item in items)


def _decided(found: EvidenceSet) -> Any:
    candidate, baseline = (str(subject_of(name)["revision_digest"]) for name in ("r2", "r1"))
    decision = decide(
        _policy(), found, service="chat", stack="dev", as_of=AS_OF, candidate=candidate, baseline=baseline
    )
    return decision.record


def _sealed(envelope: bytes, content: bytes) -> bytes | None:
    """The envelope with every digest put right: what reading refuses at once teaches nothing about judging."""
    try:
        document = json.loads(envelope)
        document["schema"] = SCHEMA
        document["files"][0] |= {"path": FILE, "sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
        document["subject"]["revision_digest"] = revision_digest(document["subject"])
        return json.dumps(seal(document)).encode()
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError, CanonicalError):
        return None


@functools.cache
def _policy() -> Any:
    return load_policy(FULL.partition(b"trust:")[0])


@functools.cache
def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="infercrane-fuzz-"))


@functools.cache
def _baseline() -> EvidenceSet:
    root = Path(tempfile.mkdtemp(prefix="infercrane-fuzz-"))
    for name, content in evidence("baseline").items():
        (root / name).write_bytes(content)
    return load_evidence(root)
