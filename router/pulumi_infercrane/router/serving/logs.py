"""The log of the process: written by a thread of its own, so that whoever reads it cannot stop the streams."""

import logging
import os
import queue
import threading
from contextlib import suppress

STDERR = 2
MOST_LINES = 1000
"""That wait to be written; further ones are dropped."""
FLUSH_S = 1.0
"""At most, at the end."""


class LogHandler(logging.Handler):
    """Writes to a file descriptor. What it has to drop it counts, and says so when it can write again."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self.dropped = 0
        self._told = 0
        self._descriptor = descriptor
        self._lines: queue.Queue[bytes] = queue.Queue(MOST_LINES)
        threading.Thread(target=self._write_forever, name="log", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        """Never waits."""
        try:
            self._lines.put_nowait(self.format(record).encode(errors="backslashreplace") + b"\n")
        except queue.Full:
            self.dropped += 1
        except Exception:  # noqa: BLE001 - a line that cannot be formatted, as every handler treats it
            self.handleError(record)

    def flush(self) -> None:
        """Wait for what was logged, but not for ever."""
        with self._lines.all_tasks_done:
            self._lines.all_tasks_done.wait_for(lambda: not self._lines.unfinished_tasks, FLUSH_S)

    def _write_forever(self) -> None:
        while True:
            self._write(self._lines.get())
            if (dropped := self.dropped) != self._told:
                self._write(b"%d lines of this log were dropped\n" % (dropped - self._told))
                self._told = dropped
            self._lines.task_done()

    def _write(self, line: bytes) -> None:
        with suppress(OSError):  # nobody reads it any more
            while line:
                line = line[os.write(self._descriptor, line) :]
