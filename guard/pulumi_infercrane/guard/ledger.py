"""The ledger: every decision ever made for a stack, append-only, each entry chained to the one before by its digest.

One JSON object a line: `{"schema", "seq", "prev", "decision", "entry"}`, where `entry` is the digest of the others.
"""

import fcntl
import os
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pulumi_infercrane.guard.canonical import canonical_bytes, digest
from pulumi_infercrane.guard.errors import CanonicalError, LedgerError
from pulumi_infercrane.guard.files import why
from pulumi_infercrane.guard.reasons import Inadmissible
from pulumi_infercrane.guard.strict_json import parse

SCHEMA = "infercrane.ledger/v1"


@dataclass(frozen=True)
class LedgerEntry:
    """One line: `seq` counts from 1, `prev` is the digest of the line before, empty on the first."""

    seq: int
    prev: str
    decision: Mapping[str, Any]
    entry: str
    offset: int
    """Where the line begins in the file, in bytes."""


class Ledger:
    """A ledger file. It need not exist before the first `append`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, record: Mapping[str, Any]) -> LedgerEntry:
        """Add a decision record durably; a record whose id the last entry carries is not written again.

        Raises:
            LedgerError: when the chain is broken, or the file cannot be written.
            CanonicalError: when the record has no canonical form.
        """
        try:
            with self.path.open("ab+") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                return self._append(file.fileno(), record)
        except OSError as error:
            raise LedgerError(f"{self.path}: cannot be written: {why(error)}") from error

    def entries(self) -> Iterator[LedgerEntry]:
        """Every entry in order, verified while iterating. A file that does not exist has none.

        Raises:
            LedgerError: names the line at which the chain breaks.
        """
        prev, offset = "", 0
        try:
            with self.path.open("rb") as file:
                for number, line in enumerate(file, start=1):
                    entry = self._verified(line, number, prev, offset)
                    prev, offset = entry.entry, offset + len(line)
                    yield entry
        except FileNotFoundError:
            return
        except OSError as error:
            raise LedgerError(f"{self.path}: the ledger cannot be read: {why(error)}") from error

    def decision_at(self, offset: int) -> Mapping[str, Any]:
        """The decision of the entry that begins at a byte `entries` told; the chain is not verified again.

        Raises:
            LedgerError: when no entry begins there any more.
        """
        try:
            with self.path.open("rb") as file:
                file.seek(offset)
                line = file.readline()
            decision: Mapping[str, Any] = parse(line)["decision"]
        except (OSError, Inadmissible, LookupError, TypeError) as error:
            raise LedgerError(f"{self.path}: the file changed while it was read") from error
        return decision

    def _append(self, file: int, record: Mapping[str, Any]) -> LedgerEntry:
        last = next(iter(deque(self.entries(), maxlen=1)), None)
        if last and last.decision.get("decision_id") == record["decision_id"]:
            return last
        seq, prev = (last.seq + 1, last.entry) if last else (1, "")
        body = {"schema": SCHEMA, "seq": seq, "prev": prev, "decision": dict(record)}
        entry = digest(body)
        offset = os.fstat(file).st_size
        _write_all(file, canonical_bytes({**body, "entry": entry}) + b"\n")
        os.fsync(file)
        if last is None:
            _sync_folder(self.path.parent)
        return LedgerEntry(seq, prev, dict(record), entry, offset)

    def _verified(self, line: bytes, number: int, prev: str, offset: int) -> LedgerEntry:
        if not line.endswith(b"\n"):
            raise self._broken(number, "the line is cut off, a write was interrupted; delete this last line")
        try:
            value = parse(line[:-1])
        except Inadmissible as error:
            raise self._broken(number, f"{error.problem}; restore the file from a backup") from error
        if not isinstance(value, dict) or value.get("schema") != SCHEMA or not isinstance(value.get("decision"), dict):
            raise self._broken(number, f"not an entry of {SCHEMA}; restore the file from a backup")
        self._check_chain(value, number, prev)
        return LedgerEntry(value["seq"], value["prev"], value["decision"], value["entry"], offset)

    def _check_chain(self, value: Mapping[str, Any], number: int, prev: str) -> None:
        if not _is_whole(value):
            raise self._broken(number, "the entry was edited; restore the file from a backup")
        if value.get("seq") != number or value.get("prev") != prev:
            raise self._broken(number, "entries before it are missing or moved; restore the file from a backup")

    def _broken(self, number: int, text: str) -> LedgerError:
        return LedgerError(f"{self.path}:{number}: the chain is broken: {text}")


def _is_whole(line: Mapping[str, Any]) -> bool:
    """Its digest is the one it carries. A line without a canonical form is none of ours."""
    try:
        return bool(line.get("entry") == digest({key: part for key, part in line.items() if key != "entry"}))
    except CanonicalError:
        return False


def _write_all(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
