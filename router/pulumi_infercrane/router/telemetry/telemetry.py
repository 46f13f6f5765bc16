"""Hands what listeners note to a thread of its own, so that no request ever waits for a disk or a network.

They note in the thread of the event loop: two threads that want the interpreter at the same time cost more than that.
"""

import asyncio
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any, NamedTuple

from pulumi_infercrane.router.protocol.request import Head
from pulumi_infercrane.router.telemetry.access_log import AccessLog
from pulumi_infercrane.router.telemetry.requests import Asked, Ended, Listener
from pulumi_infercrane.router.telemetry.trace_context import span_under

BATCH = 64
"""Requests noted together: what noting needs is then fetched from memory once, not once per request."""
HELD_S = 0.05
"""How long a request waits for others to be noted with."""
MAX_BATCHES = 500
"""That may wait for the thread; what is more is dropped and counted."""
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


class Batch(NamedTuple):
    """What every listener has noted of so many requests."""

    requests: int
    noted: list[Any]


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
        self._ended: list[Ended] = []
        """Not noted yet."""
        self._timer: asyncio.TimerHandle | None = None
        self._queue: SimpleQueue[Batch | None] = SimpleQueue()
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
        """A request has ended. Called in the thread of the event loop."""
        ended.at, ended.seconds = self._wall_clock(), self._clock() - ended.asked.at
        self._ended.append(ended)
        if len(self._ended) >= BATCH:
            self._hand_over()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(HELD_S, self._time_is_up)

    def close(self) -> None:
        """Tell what is waiting, as far as it goes in a few seconds."""
        if self._timer is not None:
            self._timer.cancel()
        self._hand_over()
        self._queue.put(None)
        self._thread.join(CLOSE_S)
        for listener in self._listeners:
            listener.close()

    def _time_is_up(self) -> None:
        self._timer = None
        self._hand_over()

    def _hand_over(self) -> None:
        ended, self._ended = self._ended, []
        if self._queue.qsize() >= MAX_BATCHES:
            self._counts["dropped"] += len(ended)
        elif ended:
            self._queue.put(Batch(len(ended), [listener.note(ended) for listener in self._listeners]))

    def _work(self) -> None:
        while batch := self._queue.get():
            for listener, noted in zip(self._listeners, batch.noted, strict=True):
                try:
                    listener.tell(noted)
                except Exception:  # noqa: BLE001 - the next requests are told all the same
                    if not self._counts["failed"]:
                        _log.exception("requests could not be told; further ones are only counted")
                    self._counts["failed"] += batch.requests
            self._counts["told"] += batch.requests
