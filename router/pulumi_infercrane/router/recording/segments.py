"""The files of a recording: JSON Lines in segments, bounded in bytes and age together, mode 0600."""

import itertools
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

SEGMENTS = 4
"""The bounds are kept by removing whole segments: about a quarter of what may be kept at a time."""

_NAME = "recording-%Y%m%dT%H%M%SZ"


class Segments:
    """Appends lines; what is too much or too old goes, oldest first. `clock` gives seconds since 1970."""

    def __init__(self, folder: Path, max_bytes: int, max_age_s: float, clock: Callable[[], float]) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._max_age_s = max_age_s
        self._clock = clock
        self._path: Path | None = None
        self._descriptor = -1
        self._size = 0
        self._began = 0.0

    def prepare(self) -> None:
        """Make the folder, and apply the bounds to what an earlier run left.

        Raises:
            OSError: the folder cannot be used.
        """
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.access(self._folder, os.W_OK | os.X_OK):
            raise PermissionError(13, "Permission denied")
        self.prune()

    def append(self, line: bytes) -> None:
        """Write one line.

        Raises:
            OSError: it is not there, or not whole; the next one goes to a new segment.
        """
        if self._path is None or self._size + len(line) > self._max_bytes // SEGMENTS:
            self._next()
        try:
            written = os.write(self._descriptor, line)
        except OSError:
            self.close()
            raise
        self._size += written
        if written < len(line):
            self.close()
            raise OSError(28, "No space left on device")

    def prune(self) -> None:
        """Remove segments whose oldest line is too old, and the oldest ones when there are too many bytes.

        Raises:
            OSError: the folder cannot be read, or a file not removed.
        """
        oldest = self._clock() - self._max_age_s
        if self._path is not None and self._began < oldest + self._max_age_s * (1 - 1 / SEGMENTS):
            self.close()
        room = self._max_bytes - self._max_bytes // SEGMENTS
        for path in sorted(self._folder.glob("recording-*.jsonl"), reverse=True):
            room -= path.stat().st_size
            if path != self._path and (room < 0 or _began(path) < oldest):
                path.unlink(missing_ok=True)

    def close(self) -> None:
        """End the segment."""
        if self._path is not None:
            os.close(self._descriptor)
            self._path = None

    def _next(self) -> None:
        self.close()
        self.prune()
        self._began, self._size = self._clock(), 0
        stem = datetime.fromtimestamp(self._began, UTC).strftime(_NAME)
        for number in itertools.count():
            path = self._folder / f"{stem}-{number:03}.jsonl"
            try:
                self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            except FileExistsError:
                continue
            self._path = path
            return


def _began(path: Path) -> float:
    """When the first line of a segment was written, by its name; 0 for a name that is not ours."""
    try:
        return datetime.strptime(path.name[: len("recording-20261130T120000Z")], _NAME).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return 0.0
