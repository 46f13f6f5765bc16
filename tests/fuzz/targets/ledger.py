"""A ledger file gives its entries, or a LedgerError that names the line."""

import functools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pulumi_infercrane.guard.errors import LedgerError
from pulumi_infercrane.guard.ledger import Ledger
from tests.fuzz.forbidden import Watch
from tests.fuzz.target import Target


def targets() -> Iterator[Target]:
    yield Target("ledger", _run, (_written(),))


def _run(data: bytes, watch: Watch) -> bool:
    path = _file()
    path.write_bytes(data)
    with watch.watched(functools.partial(_only, path)):
        try:
            for entry in Ledger(path).entries():
                assert Ledger(path).decision_at(entry.offset) == entry.decision
        except LedgerError as error:
            assert str(error).startswith(str(path)), error
            return False
    return True


def _only(path: Path, event: str, arguments: tuple[Any, ...]) -> bool:
    return event == "open" and str(arguments[0]) == str(path)


def _written() -> bytes:
    path = _file()
    path.unlink(missing_ok=True)
    for number in range(3):
        Ledger(path).append({"decision_id": f"sha256:{number:064}", "verdict": "promote", "rules": []})
    return path.read_bytes()


@functools.cache
def _file() -> Path:
    return Path(tempfile.mkdtemp(prefix="infercrane-fuzz-")) / "ledger.jsonl"
