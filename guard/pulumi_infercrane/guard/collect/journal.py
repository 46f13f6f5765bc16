"""What is kept of a run until it is whole: finished blocks, appended and synchronised one by one.

A run that was interrupted is continued by the next one with the same plan on the same replicas. The file lies beside
the evidence to be, as `<kind>.partial.jsonl`; its first line says what is measured, each further one holds the lines of
one finished block. It holds nothing that the evidence would not hold, and goes away when the evidence is written.
"""

import fcntl
import json
import logging
import os
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO, Self

from pulumi_infercrane.guard.collect.target import CollectError
from pulumi_infercrane.guard.files import why
from pulumi_infercrane.guard.times import format_duration, format_time, parse_time

SCHEMA = "infercrane.partial/v2"
MAX_AGE = timedelta(hours=6)
"""Since the last finished block: a machine of yesterday is another machine."""

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
_log = logging.getLogger(__name__)

Probed = dict[str, dict[str, Any]]
"""What each side said of itself at the start of the run, by role."""


class Journal:
    """The finished blocks of one run: those an earlier run left at `path`, if it had the same `key` and was not too
    long ago, and those appended since.

    `key` is the digest of what is measured, how, and where. To be used as a context manager.

    Raises:
        CollectError: on entry, when another run writes the file, or it cannot be read.
    """

    def __init__(self, path: Path, key: str) -> None:
        self.path = path
        self.key = key
        self.started_at: datetime | None = None
        self.before: Probed = {}
        self.blocks: list[dict[str, Any]] = []
        self._file: BinaryIO | None = None

    def __enter__(self) -> Self:
        try:
            if self.path.exists():
                self._read(_open_locked(self.path))
        except OSError as error:
            raise CollectError(f"{self.path}: cannot be read: {why(error)}") from error
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    @property
    def started(self) -> datetime:
        """When the first block began."""
        if self.started_at is None:
            raise ValueError("the run has not begun")
        return self.started_at

    @property
    def ended(self) -> datetime:
        """When the last block was finished; nothing was measured later."""
        return parse_time(self.blocks[-1]["ended_at"])

    def begin(self, before: Probed, *, restarts: bool = False) -> None:
        """Continue the run that was found, or start one; to be called when the replicas are about to be measured.

        A replica that is another one now is not the one the finished blocks speak of; nor is one that was started anew,
        unless the run `restarts` it itself.
        """
        changed = next(
            (role for role in self.before if not _continues(self.before[role], before.get(role, {}), restarts)), None
        )
        if changed:
            self._forget(f"the {changed} was started anew or serves something else now")
        if self.started_at is not None:
            _log.warning("%s: continues the run of %s", self.path.name, format_time(self.started_at))
        else:
            self.started_at, self.before = datetime.now(UTC), before

    def append(self, block: Mapping[str, Any]) -> None:
        """Keep a finished block; returns when it survives a crash.

        Raises:
            CollectError: when the folder cannot be written.
        """
        line = {**block, "ended_at": format_time(datetime.now(UTC))}
        try:
            if self._file is None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._file = _open_locked(self.path)
            if not self.blocks:
                self._file.truncate(0)
                _write(self._file, self._head())
            _write(self._file, line)
        except OSError as error:
            raise CollectError(f"{self.path}: cannot be written: {why(error)}") from error
        self.blocks.append(line)

    def remove(self) -> None:
        """The evidence is written: nothing is left to continue."""
        self.path.unlink(missing_ok=True)

    def _head(self) -> dict[str, Any]:
        return {"schema": SCHEMA, "key": self.key, "started_at": format_time(self.started), "before": self.before}

    def _read(self, file: BinaryIO) -> None:
        self._file = file
        data = file.read()
        whole = data[: data.rfind(b"\n") + 1]  # the last line is cut when the run was killed while it wrote
        try:
            head, *self.blocks = [json.loads(line) for line in whole.splitlines()]
            self.started_at, self.before = parse_time(head["started_at"]), head["before"]
            problem = _problem(head, self.blocks, self.key)
        except (ValueError, KeyError, TypeError):
            problem = "the file is damaged"
        if problem:
            self._forget(problem)
        else:
            file.truncate(len(whole))

    def _forget(self, why: str) -> None:
        """Measure everything anew, and say so. The file is emptied when there is something to put in its place."""
        _log.warning("%s: %s: everything is measured anew", self.path.name, why)
        self.started_at, self.before, self.blocks = None, {}, []


def _problem(head: Mapping[str, Any], blocks: list[Any], key: str) -> str | None:
    """Why what was found cannot be continued."""
    if not blocks:
        return "not one block was finished"
    if (head["schema"], head["key"]) != (SCHEMA, key):
        return "the plan or a replica differs from that of the interrupted run"
    age = datetime.now(UTC) - parse_time(blocks[-1]["ended_at"])
    if age > MAX_AGE:
        return f"the interrupted run is older than {format_duration(MAX_AGE)}"
    return None


def _write(file: BinaryIO, line: Mapping[str, Any]) -> None:
    file.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")
    file.flush()
    os.fsync(file.fileno())


def _open_locked(path: Path) -> BinaryIO:
    """Open for appending, readable by its owner only; the lock ends with the process."""
    file = os.fdopen(os.open(path, _FLAGS, 0o600), "r+b")
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise CollectError(f"{path}: another run measures the same now") from error
    return file


def _continues(before: Mapping[str, Any], now: Mapping[str, Any], restarts: bool) -> bool:
    """Whether a replica is the one it was: same models and version, counters that did not fall."""
    if any(before.get(name) != now.get(name) for name in ("models", "version")):
        return False
    if restarts:
        return True
    counted, counts = before.get("prefix_cache", {}), now.get("prefix_cache", {})
    return all(counts.get(name, 0) >= count for name, count in counted.items())
