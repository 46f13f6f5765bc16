"""An evidence folder whose envelope comes from outside, as it is and with its seal put right."""

import functools
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pulumi_infercrane.guard import load_evidence
from pulumi_infercrane.guard.errors import CanonicalError
from pulumi_infercrane.guard.evidence import revision_digest, seal
from tests.fuzz.forbidden import Watch
from tests.fuzz.own import evidence
from tests.fuzz.sane import check_sane
from tests.fuzz.target import Target

NAME = "x.evidence.json"


def targets() -> Iterator[Target]:
    seeds = tuple(content for name, content in evidence().items() if name.endswith(".evidence.json"))
    yield Target("envelope", _run, seeds)


def _run(data: bytes, watch: Watch) -> bool:
    sealed = _sealed(data)
    return _load(data, watch) | (sealed is not None and _load(sealed, watch))


def _load(data: bytes, watch: Watch) -> bool:
    root = _folder()
    (root / NAME).write_bytes(data)
    with watch.watched(functools.partial(_inside, root)):
        (item,) = load_evidence(root).items
    assert (item.record is None) == (item.problem is not None)
    if item.record is not None:
        check_sane(item.record)
    return item.problem is None


def _sealed(data: bytes) -> bytes | None:
    try:
        document = json.loads(data)
        document["subject"]["revision_digest"] = revision_digest(document["subject"])
        return json.dumps(seal(document)).encode()
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError, CanonicalError):
        return None


def _inside(root: Path, event: str, arguments: tuple[Any, ...]) -> bool:
    """Looking at the folder, and opening what is named by one step into an open folder, or is the folder itself."""
    if event in ("os.scandir", "os.listdir"):
        return Path(arguments[0]) == root
    if event != "open":
        return False
    name = arguments[0]
    return isinstance(name, int) or Path(name) == root or ("/" not in str(name) and str(name) != "..")


@functools.cache
def _folder() -> Path:
    """The folder of this process, with the files that good envelopes name."""
    root = Path(tempfile.mkdtemp(prefix="infercrane-fuzz-"))
    for name, content in evidence().items():
        if not name.endswith(".evidence.json"):
            (root / name).write_bytes(content)
    return root
