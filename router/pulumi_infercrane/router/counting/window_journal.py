"""One traffic window on disk, as JSON lines: what it is of, then what was counted, bit by bit, and until when.

A process that is killed leaves a journal that is true as far as it goes. Nothing waits for the disk: when the machine
fails, a journal may end earlier, and says so by what it lacks.
"""

import errno
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from pulumi_infercrane.router.counting.tally import Counts, Tally

SCHEMA = "infercrane.window/v1"
TOOL_VERSION = "0.1"


@dataclass(frozen=True)
class Subject:
    """The route a window is of. `weights` in percent by revision."""

    service: str
    generation: int
    decision_id: str
    """The decision behind the route; empty when it is none of the guard's."""
    weights: Mapping[str, int]
    revisions: tuple[str, ...]
    stack: str = ""
    """The stack that declares the route; empty when its table names none."""


@dataclass(frozen=True)
class Content:
    """What a journal says."""

    subject: Subject
    started: datetime
    until: datetime
    """Everything that ended before is in it."""
    ended: datetime | None = None
    """When the window was closed; None while it is open, or when nobody came to close it."""
    generation: int | None = None
    """Of the route when it was closed, where it is another than at the beginning."""
    lost: str = ""
    """Whose counts are missing: `worker` or `router`; empty when none are."""
    tallies: Mapping[str, Tally] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """`infercrane.window/v1`, with NaN for `null`. Revisions that had neither weight nor requests are left out."""
        subject = self.subject
        closed = subject.generation if self.generation is None else self.generation
        return {
            "schema": SCHEMA,
            "tool_version": TOOL_VERSION,
            "service": subject.service,
            **({"stack": subject.stack} if subject.stack else {}),
            **({"decision_id": subject.decision_id} if subject.decision_id else {}),
            "generation": {"opened": subject.generation, "closed": closed},
            "started_at": text(self.started),
            "ended_at": text(self.ended or self.until),
            **({"lost": self.lost} if self.lost else {}),
            "bindings": [
                tally.binding(digest, subject.weights.get(digest, 0))
                for digest, tally in self.tallies.items()
                if tally.attempted or digest in subject.weights
            ],
        }


class Journal:
    """The journal of a window that is open. Every method but `begin` and `reopen` may raise OSError."""

    def __init__(self, path: Path, descriptor: int, content: Content, size: int) -> None:
        self.path = path
        self.subject = content.subject
        self.started = content.started
        self.until = content.until
        self.ended = content.ended
        self.lost = content.lost
        self.completed = sum(tally.completed for tally in content.tallies.values())
        self._descriptor = descriptor
        self._size = size
        self._mark: int | None = None
        """Where the last line begins, when it only says until when; the next such line takes its place."""

    @classmethod
    def begin(cls, path: Path, subject: Subject, started: datetime) -> "Journal":
        """A new one, in place of any that is there.

        Raises:
            OSError: it cannot be written.
        """
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        journal = cls(path, descriptor, Content(subject, started, started), 0)
        try:
            journal._append({"subject": vars(subject), "started": text(started)})
        except OSError:
            journal.close()
            raise
        return journal

    @classmethod
    def reopen(cls, path: Path) -> "Journal":
        """One that is there, to go on behind its last whole line.

        Raises:
            OSError, ValueError: it cannot be read, or is none.
        """
        content, size = _read(path)
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        os.ftruncate(descriptor, size)
        return cls(path, descriptor, content, size)

    def add(self, tallies: Mapping[str, Counts]) -> None:
        """Requests that ended."""
        self._append({"counted": tallies})
        self.completed += sum(len(tally["e2e_s"]) for tally in tallies.values())

    def reach(self, until: datetime) -> None:
        """Everything that ended before is in it."""
        if self._mark is not None:
            self._size = self._mark
        mark = self._size
        self._append({"until": text(until)})
        self._mark, self.until = mark, until

    def lose(self, whose: str) -> None:
        """Counts of a process are missing."""
        self._append({"lost": whose})
        self.lost = whose

    def end(self, ended: datetime, generation: int | None = None) -> None:
        """Nothing is added any more; `generation` as in `Content`."""
        try:
            self._append({"ended": text(ended)} | ({} if generation is None else {"generation": generation}))
        finally:
            self.close()

    def close(self) -> None:
        """Let go of the file, which stays as it is."""
        os.close(self._descriptor)

    def _append(self, line: Mapping[str, Any]) -> None:
        data = orjson.dumps(line) + b"\n"
        written = os.pwrite(self._descriptor, data, self._size)
        if written < len(data):
            os.ftruncate(self._descriptor, self._size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._size += written
        self._mark = None


def read(path: Path) -> Content:
    """What a journal says, up to its last whole line.

    Raises:
        OSError, ValueError: it cannot be read, or is none.
    """
    return _read(path)[0]


def text(time: datetime) -> str:
    """RFC 3339 in UTC, to the millisecond."""
    return f"{time:%Y-%m-%dT%H:%M:%S}.{time.microsecond // 1000:03}Z"


def _read(path: Path) -> tuple[Content, int]:
    """And how many bytes of it are whole lines."""
    lines = path.read_bytes().split(b"\n")[:-1]
    head = orjson.loads(lines[0]) if lines and lines[0] else None
    if not isinstance(head, dict) or "subject" not in head:
        raise ValueError(f"{path} is no journal of a window")
    subject = Subject(**head["subject"] | {"revisions": tuple(head["subject"]["revisions"])})
    tallies, said, size = {digest: Tally() for digest in subject.revisions}, {"until": head["started"]}, len(lines[0])
    for line in lines[1:]:
        try:
            entry = orjson.loads(line)
        except orjson.JSONDecodeError:
            break
        size += 1 + len(line)
        for digest, counts in entry.pop("counted", {}).items():
            tallies[digest].merge(counts)
        said |= entry
    content = Content(
        subject,
        started=_time(head["started"]),
        until=_time(said["until"]),
        ended=_time(said["ended"]) if "ended" in said else None,
        generation=said.get("generation"),
        lost=said.get("lost", ""),
        tallies=tallies,
    )
    return content, size + 1


def _time(written: str) -> datetime:
    return datetime.fromisoformat(written).astimezone(UTC)
