"""The access log: one JSON object a line for every request, without anything of its content."""

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from time import gmtime, strftime
from typing import Any

import orjson

from pulumi_infercrane.router.errors import AccessLogRefused
from pulumi_infercrane.router.telemetry.requests import Ended

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

    def note(self, ended: Ended) -> bytes:
        return line_of(ended)

    def tell(self, batch: Sequence[bytes]) -> None:
        if self._path is not None:
            self._follow(self._path)
        os.write(self._descriptor, b"".join(batch))

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


def line_of(ended: Ended) -> bytes:
    """What is not known or does not apply is left out: asked for one by one, as a dictionary is dear to filter."""
    asked = ended.asked
    document: dict[str, Any] = {"time": _time(ended.at), "request_id": asked.request_id.decode()}
    if asked.method:
        document["method"], document["path"] = asked.method.decode("latin-1"), asked.path.decode("latin-1")
    if asked.model:
        document["model"] = asked.model
    if ended.service:
        document["service"] = ended.service
    if ended.revision:
        document["revision"], document["attempt"] = ended.revision, ended.attempt
    if ended.upstream:
        document["upstream"] = ended.upstream
    if ended.status is not None:
        document["status"] = ended.status
    document["outcome"] = ended.outcome
    if ended.reason:
        document["reason"] = ended.reason
    document["seconds"] = round(ended.seconds, 6)
    _add_figures(document, ended)
    if asked.key:
        document["key"] = asked.key
    document["peer"] = asked.peer.decode("latin-1")
    if asked.span is not None:
        document |= {"trace_id": f"{asked.span.trace_id:032x}", "span_id": f"{asked.span.span_id:016x}"}
    return orjson.dumps(document) + b"\n"


def _add_figures(document: dict[str, Any], ended: Ended) -> None:
    queued_s = ended.asked.queued_s
    if queued_s is not None:
        document["queued_s"] = round(queued_s, 6)
    if ended.ttft_s is not None:
        document["ttft_s"] = round(ended.ttft_s, 6)
    if ended.prompt_tokens is not None:
        document["prompt_tokens"] = ended.prompt_tokens
    if ended.completion_tokens is not None:
        document["completion_tokens"], document["token_source"] = ended.completion_tokens, ended.token_source


def _time(at: float) -> str:
    second = int(at)
    return f"{_shown(second)}.{int((at - second) * 1000):03d}Z"


@lru_cache(maxsize=2)
def _shown(second: int) -> str:
    """Seconds since 1970 by RFC 3339; one that is at hand already in most cases."""
    return strftime("%Y-%m-%dT%H:%M:%S", gmtime(second))
