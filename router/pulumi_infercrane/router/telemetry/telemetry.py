"""Hands what has ended to listeners in a thread of its own, so that no request ever waits for a disk or a network."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from queue import SimpleQueue

from pulumi_infercrane.router.protocol.request import Head
from pulumi_infercrane.router.telemetry.access_log import AccessLog
from pulumi_infercrane.router.telemetry.requests import Asked, Ended, Listener, Told
from pulumi_infercrane.router.telemetry.trace_context import span_under

MAX_PENDING = 50_000
"""Requests that may wait for the thread; what is more is dropped and counted."""
PAUSE_S = 0.02
"""How long more is gathered after the first: waking for each request costs more than telling it."""
MAX_BATCH = 32
"""Told in one go: the data plane waits for as long when it wants the interpreter meanwhile."""
CLOSE_S = 5.0

_log = logging.getLogger(__name__)


def listeners(access_log: str, *, traces: bool) -> list[Listener]:
    """Those that are wanted, ready to listen.

    Raises:
        AccessLogRefused: the file cannot be written.
    """
    found: list[Listener] = []
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
        listeners: Sequence[Listener],
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
        self._queue: SimpleQueue[Told | None] = SimpleQueue()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name="telemetry", daemon=True)
        self._thread.start()

    def asked(self, request_id: bytes, head: Head | None, peer: bytes, model: str = "", key: str = "") -> Asked:
        """What is remembered of a request that came now; `head` is None when it could not be read."""
        method, path, traceparent = "", "", None
        if head is not None:
            method, path = head.method.decode("latin-1"), head.path.decode("latin-1")
            traceparent = head.headers.first.get(b"traceparent")
        span = None if self._trace_sample is None else span_under(traceparent, self._trace_sample)
        return Asked(
            self.tell, self._clock(), request_id.decode(), method, path, peer.decode("latin-1"), model, key, span
        )

    def tell(self, ended: Ended) -> None:
        """Called by the data plane when a request has ended."""
        if self._queue.qsize() >= MAX_PENDING:
            self._counts["dropped"] += 1
            return
        self._queue.put(Told(ended, self._wall_clock(), self._clock() - ended.asked.at))

    def close(self) -> None:
        """Tell what is waiting, as far as it goes in a few seconds."""
        self._queue.put(None)
        self._closing.set()
        self._thread.join(CLOSE_S)
        for listener in self._listeners:
            listener.close()

    def _work(self) -> None:
        while batch := self._next():
            for listener in self._listeners:
                try:
                    listener(batch)
                except Exception:  # noqa: BLE001 - the next requests are told all the same
                    if not self._counts["failed"]:
                        _log.exception("requests could not be told; further ones are only counted")
                    self._counts["failed"] += len(batch)
            self._counts["told"] += len(batch)

    def _next(self) -> list[Told]:
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
