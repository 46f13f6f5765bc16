"""Hands what listeners note to a thread of its own, so that no request ever waits for a disk or a network.

They note in the thread of the data plane: two threads that want the interpreter at the same time cost more than that.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any

from pulumi_infercrane.router.protocol.request import Head
from pulumi_infercrane.router.telemetry.access_log import AccessLog
from pulumi_infercrane.router.telemetry.requests import Asked, Ended, Listener
from pulumi_infercrane.router.telemetry.trace_context import span_under

MAX_PENDING = 50_000
"""Requests that may wait for the thread; what is more is dropped and counted."""
PAUSE_S = 0.05
"""How long more is gathered after the first: waking for each request costs more than telling it."""
MAX_BATCH = 512
"""Told in one go."""
CLOSE_S = 5.0

_log = logging.getLogger(__name__)


def listeners(access_log: str, *, traces: bool) -> list[Listener[Any]]:
    """Those that are wanted, ready to listen.

    Raises:
        AccessLogRefused: the file cannot be written.
    """
    found: list[Listener[Any]] = []
    if access_log:
        log = AccessLog(access_log)
        log.open()
        found.append(log)
    if traces:
        from pulumi_infercrane.router.telemetry.spans import Spans

        found.append(Spans())
    return found


class Telemetry:
    """`trace_sample` is the share of the traces that begin here and are kept; None makes no spans.

    `counts` tells what became of the requests: told, dropped, and failed once for every listener that failed.
    """

    def __init__(
        self,
        listeners: Sequence[Listener[Any]],
        counts: Counter[str],
        clock: Callable[[], float],
        trace_sample: float | None = None,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._counts = counts
        counts.update(told=0, dropped=0, failed=0)
        self._trace_sample = trace_sample
        self._listeners = listeners
        self._clock = clock
        self._wall_clock = wall_clock
        self._queue: SimpleQueue[list[Any] | None] = SimpleQueue()
        """For each request what each listener noted."""
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name="telemetry", daemon=True)
        self._thread.start()

    def asked(self, request_id: bytes, head: Head | None, peer: bytes, model: str = "", key: str = "") -> Asked:
        """What is remembered of a request that came now; `head` is None when it could not be read."""
        asked = Asked(self.tell, self._clock(), request_id, b"", b"", peer, model, key)
        if head is not None:
            asked.method, asked.path = head.method, head.path
        if self._trace_sample is not None:
            traceparent = head.headers.first.get(b"traceparent") if head is not None else None
            asked.span = span_under(traceparent, self._trace_sample)
        return asked

    def tell(self, ended: Ended) -> None:
        """Called by the data plane when a request has ended."""
        if self._queue.qsize() >= MAX_PENDING:
            self._counts["dropped"] += 1
            return
        ended.at, ended.seconds = self._wall_clock(), self._clock() - ended.asked.at
        self._queue.put([listener.note(ended) for listener in self._listeners])

    def close(self) -> None:
        """Tell what is waiting, as far as it goes in a few seconds."""
        self._queue.put(None)
        self._closing.set()
        self._thread.join(CLOSE_S)
        for listener in self._listeners:
            listener.close()

    def _work(self) -> None:
        while batch := self._next():
            for listener, noted in zip(self._listeners, zip(*batch, strict=True), strict=True):
                try:
                    listener.tell(noted)
                except Exception:  # noqa: BLE001 - the next requests are told all the same
                    if not self._counts["failed"]:
                        _log.exception("requests could not be told; further ones are only counted")
                    self._counts["failed"] += len(batch)
            self._counts["told"] += len(batch)

    def _next(self) -> list[list[Any]]:
        """What has come; nothing when nothing will."""
        first = self._queue.get()
        if self._queue.qsize() < MAX_BATCH:
            self._closing.wait(PAUSE_S)
        batch = []
        while first is not None:
            batch.append(first)
            if len(batch) == MAX_BATCH or self._queue.empty():
                return batch
            first = self._queue.get()
        if batch:
            self._queue.put(None)  # for the next time
        return batch
