"""The access log: one JSON object a line for every request, without anything of its content."""

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from time import gmtime, strftime

import orjson

from pulumi_infercrane.router.errors import AccessLogRefused
from pulumi_infercrane.router.protocol.observer import Outcome
from pulumi_infercrane.router.telemetry.requests import Ended

STANDARD_OUTPUT = "-"
MOST_OF_PATH = 512
"""Bytes shown; those of a request for nothing we have can be thousands."""

_LINE = b'{"time":"%b.%03dZ","request_id":"%b",%b,"seconds":%.6f%b,"peer":"%b"}\n'


class AccessLog:
    """A listener that appends to a file, mode 0600, or writes to standard output.

    A file that was moved away is made anew, so that any rotation works without telling the router.
    """

    def __init__(self, target: str) -> None:
        self._path = None if target == STANDARD_OUTPUT else Path(target)
        self._descriptor = 1 if self._path is None else -1
        self._torn = False
        """Whether the last line is a part of one."""

    def open(self) -> None:
        """Raises AccessLogRefused: the file cannot be written."""
        if self._path is None:
            return
        try:
            self._follow(self._path)
        except OSError as error:
            raise AccessLogRefused(f"--access-log {self._path} cannot be written: {error.strerror}") from error

    def note(self, ended: Sequence[Ended]) -> bytes:
        return b"".join(map(line_of, ended))

    def tell(self, noted: bytes) -> None:
        if self._path is not None:
            self._follow(self._path)
        data, done = b"\n" + noted if self._torn else noted, 0
        try:
            while done < len(data):  # a disk that becomes full takes a part
                done += os.write(self._descriptor, data[done:])
        finally:
            if done:
                self._torn = data[done - 1 : done] != b"\n"

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
        self._descriptor, self._torn = os.open(path, flags, 0o600), False
        if not stat.S_ISREG(os.fstat(self._descriptor).st_mode):
            self.close()
            raise OSError(22, "it is no regular file")


def line_of(ended: Ended) -> bytes:
    """What is not known or does not apply is left out.

    Ids and addresses of clients are checked where they come in, so that nothing in them needs an escape.
    """
    asked = ended.asked
    members = _shared if ended.revision else _members  # refused ones differ: they would push the others out
    return _LINE % (
        _second(int(ended.at)),
        ended.at * 1000 % 1000,
        asked.request_id,
        members(
            asked.method,
            asked.path,
            asked.model,
            ended.service,
            ended.revision,
            ended.upstream,
            ended.status,
            ended.outcome,
            ended.reason,
            ended.attempt,
            asked.key,
        ),
        ended.seconds,
        _figures(ended),
        asked.peer,
    )


def _figures(ended: Ended) -> bytes:
    found, queued_s, span = b"", ended.asked.queued_s, ended.asked.span
    if queued_s is not None:
        found += b',"queued_s":%.6f' % queued_s
    if ended.ttft_s is not None:
        found += b',"ttft_s":%.6f' % ended.ttft_s
    if ended.prompt_tokens is not None:
        found += b',"prompt_tokens":%d' % ended.prompt_tokens
    if ended.completion_tokens is not None:
        found += b',"completion_tokens":%d,"token_source":"%b"' % (ended.completion_tokens, ended.token_source.encode())
    if span is not None:
        found += b',"trace_id":"%032x","span_id":"%016x"' % (span.trace_id, span.span_id)
    return found


def _members(
    method: bytes,
    path: bytes,
    model: str,
    service: str,
    revision: str,
    upstream: str,
    status: int | None,
    outcome: Outcome,
    reason: str,
    attempt: int,
    key: str,
) -> bytes:
    """What many requests have in common, as members of a JSON object."""
    found = {
        "method": method.decode("latin-1"),
        "path": path[:MOST_OF_PATH].decode("latin-1"),
        "model": model,
        "service": service,
        "revision": revision,
        "upstream": upstream,
        "status": status,
        "outcome": outcome,
        "reason": reason,
        "attempt": attempt,
        "key": key,
    }
    return orjson.dumps({name: value for name, value in found.items() if value})[1:-1]


_shared = lru_cache(maxsize=1024)(_members)


@lru_cache(maxsize=2)
def _second(since_1970: int) -> bytes:
    """By RFC 3339, without an end; the same for thousands of requests."""
    return strftime("%Y-%m-%dT%H:%M:%S", gmtime(since_1970)).encode()
