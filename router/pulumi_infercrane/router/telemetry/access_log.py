"""The access log: one JSON object a line for every request, without anything of its content."""

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from pulumi_infercrane.router.errors import AccessLogRefused
from pulumi_infercrane.router.telemetry.requests import Told

STANDARD_OUTPUT = "-"


class AccessLog:
    """A listener that appends to a file, mode 0600, or writes to standard output.

    A file that was moved away is made anew, so that any rotation works without telling the router.
    """

    def __init__(self, target: str) -> None:
        self._path = None if target == STANDARD_OUTPUT else Path(target)
        self._descriptor = 1 if self._path is None else -1

    def open(self) -> None:
        """Raises AccessLogRefused: the file cannot be written."""
        if self._path is None:
            return
        try:
            self._follow(self._path)
        except OSError as error:
            raise AccessLogRefused(f"--access-log {self._path} cannot be written: {error.strerror}") from error

    def __call__(self, batch: Sequence[Told]) -> None:
        if self._path is not None:
            self._follow(self._path)
        os.write(self._descriptor, b"".join(map(line_of, batch)))

    def close(self) -> None:
        """Standard output stays open."""
        if self._path is not None and self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _follow(self, path: Path) -> None:
        """Have the file open that bears the name now."""
        if self._descriptor >= 0:
            with suppress(FileNotFoundError):  # it was moved away
                named, held = path.stat(), os.fstat(self._descriptor)
                if (named.st_dev, named.st_ino) == (held.st_dev, held.st_ino):
                    return
            self.close()
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
        self._descriptor = os.open(path, flags, 0o600)
        if not stat.S_ISREG(os.fstat(self._descriptor).st_mode):
            self.close()
            raise OSError(22, "it is no regular file")


def line_of(told: Told) -> bytes:
    """What is not known or does not apply is left out."""
    ended, asked = told.ended, told.ended.asked
    document: dict[str, Any] = {
        "time": datetime.fromtimestamp(told.at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "request_id": asked.request_id,
        "method": asked.method,
        "path": asked.path,
        "model": asked.model,
        "service": ended.service,
        "revision": ended.revision,
        "upstream": ended.upstream,
        "status": ended.status,
        "outcome": ended.outcome,
        "reason": ended.reason,
        "attempt": ended.attempt,
        "seconds": round(told.seconds, 6),
        "queued_s": _rounded(asked.queued_s),
        "ttft_s": _rounded(ended.ttft_s),
        "prompt_tokens": ended.prompt_tokens,
        "completion_tokens": ended.completion_tokens,
        "token_source": ended.token_source,
        "key": asked.key,
        "peer": asked.peer,
    }
    if asked.span is not None:
        document |= {"trace_id": f"{asked.span.trace_id:032x}", "span_id": f"{asked.span.span_id:016x}"}
    return orjson.dumps({name: value for name, value in document.items() if value not in ("", None)}) + b"\n"


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 6)
