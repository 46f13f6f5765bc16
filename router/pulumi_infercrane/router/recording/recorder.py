"""From the data plane to the files of a recording, without ever making a request wait.

The data plane only decides and puts; everything else happens in a thread of its own. What that thread cannot take is
dropped and counted.
"""

import hashlib
import logging
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from queue import Empty, SimpleQueue
from typing import NamedTuple

from pulumi_infercrane.router.errors import RecordingRefused
from pulumi_infercrane.router.protocol.paths import PROTOCOLS
from pulumi_infercrane.router.recording.lines import content, line_of, metadata
from pulumi_infercrane.router.recording.policy import CONTENT, RecordingPolicy
from pulumi_infercrane.router.recording.redactors import combined
from pulumi_infercrane.router.recording.segments import Segments

MAX_BODY = 256 * 1024
"""Larger requests are not recorded: the thread would hold the interpreter too long at a time."""
MAX_PENDING = 8 * 1024 * 1024
"""Bytes that may wait for the thread."""
PRUNE_EVERY_S = 60.0
CLOSE_S = 5.0

_PATH = PROTOCOLS["chat"]
_ID_CHARACTERS = 32
_log = logging.getLogger(__name__)


class _Offered(NamedTuple):
    id: str
    at: float
    body: bytes


class Recorder:
    """Records a share of the chat requests. `counts` tells what became of those chosen: written, dropped, failed."""

    def __init__(self, policy: RecordingPolicy, counts: Counter[str], clock: Callable[[], float] = time.time) -> None:
        self._counts = counts
        counts.update(written=0, dropped=0, failed=0)
        self._clock = clock
        self._below = int(policy.sample * 2**64)
        self._contents = (
            content(combined(policy.redact)) if policy.what == CONTENT else metadata(secrets.token_bytes(32))
        )
        self._folder = policy.folder
        self._segments = Segments(policy.folder, policy.max_bytes, policy.max_age_s, clock)
        self._queue: SimpleQueue[_Offered | None] = SimpleQueue()
        self._taken_in = 0
        """Bytes put by the data plane so far, and nobody else counts here; likewise `_worked_off` by the thread."""
        self._worked_off = 0
        self._thread = threading.Thread(target=self._work, name="recorder", daemon=True)

    def start(self) -> None:
        """Begin to write.

        Raises:
            RecordingRefused: the folder cannot be used.
        """
        try:
            self._segments.prepare()
        except OSError as error:
            raise RecordingRefused(f"the recording folder {self._folder} cannot be used: {error.strerror}") from error
        self._thread.start()

    def offer(self, request_id: bytes, path: bytes, body: bytes) -> None:
        """Called by the data plane for every request that a revision answers."""
        if path != _PATH:
            return
        digest = hashlib.sha256(request_id).digest()
        if int.from_bytes(digest[:8]) >= self._below:
            return
        if len(body) > MAX_BODY or self._taken_in - self._worked_off + len(body) > MAX_PENDING:
            self._counts["dropped"] += 1
            return
        self._taken_in += len(body)
        self._queue.put(_Offered(digest.hex()[:_ID_CHARACTERS], self._clock(), body))

    def close(self) -> None:
        """Write what is waiting, as far as it goes in a few seconds."""
        self._queue.put(None)
        self._thread.join(CLOSE_S)

    def _work(self) -> None:
        pruned_at = self._clock()
        while True:
            try:
                offered = self._queue.get(timeout=PRUNE_EVERY_S)
            except Empty:
                pass
            else:
                if offered is None:
                    break
                self._record(offered)
            if self._clock() - pruned_at > PRUNE_EVERY_S:
                pruned_at = self._clock()
                self._prune()
        self._segments.close()

    def _record(self, offered: _Offered) -> None:
        at = datetime.fromtimestamp(offered.at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        try:
            self._segments.append(line_of(offered.id, at, _PATH.decode(), self._contents(offered.body)))
            self._counts["written"] += 1
        except OSError as error:
            self._counts["failed"] += 1
            _log.warning("recording in %s: %s", self._folder, error.strerror)
        except Exception:  # noqa: BLE001 - whatever a client sent, the next request is recorded
            self._counts["failed"] += 1
        finally:
            self._worked_off += len(offered.body)

    def _prune(self) -> None:
        try:
            self._segments.prune()
        except OSError as error:
            _log.warning("recording in %s: old segments cannot be removed: %s", self._folder, error.strerror)
