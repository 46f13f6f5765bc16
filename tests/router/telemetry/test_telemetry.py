"""Telling never makes a request wait, and never ends with one listener's fault."""

import threading
from collections import Counter
from collections.abc import Sequence

from pulumi_infercrane.router.protocol.observer import Outcome
from pulumi_infercrane.router.telemetry.requests import Ended
from pulumi_infercrane.router.telemetry.telemetry import MAX_BATCH, MAX_PENDING, Telemetry


class Listening:
    def __init__(self, *, fails: bool = False) -> None:
        self.heard: list[Ended] = []
        self.calls = 0
        self.go_on = threading.Event()
        self.go_on.set()
        self.closed = False
        self._fails = fails

    def note(self, ended: Ended) -> Ended:
        return ended

    def tell(self, batch: Sequence[Ended]) -> None:
        self.go_on.wait(5)
        self.calls += 1
        if self._fails:
            raise OSError(28, "No space left on device")
        self.heard += batch

    def close(self) -> None:
        self.closed = True


def test_a_listener_that_fails_is_counted_and_the_other_one_hears_all() -> None:
    failing, hearing, counts = Listening(fails=True), Listening(), Counter[str]()
    telemetry = Telemetry([failing, hearing], counts, lambda: 0.0)
    for number in range(3):
        telemetry.asked(b"id-%d" % number, None, b"").end(Outcome.COMPLETE, 200)
    telemetry.close()
    assert [ended.asked.request_id for ended in hearing.heard] == [b"id-0", b"id-1", b"id-2"]
    assert counts == {"told": 3, "failed": 3, "dropped": 0}
    assert failing.closed and hearing.closed


def test_what_a_slow_listener_cannot_take_is_dropped_and_counted() -> None:
    slow, counts = Listening(), Counter[str]()
    slow.go_on.clear()
    telemetry = Telemetry([slow], counts, lambda: 0.0)
    asked = telemetry.asked(b"id", None, b"")
    for _ in range(MAX_PENDING + MAX_BATCH + 10):
        asked.end(Outcome.COMPLETE, 200)
    slow.go_on.set()
    telemetry.close()
    assert counts["dropped"] + counts["told"] == MAX_PENDING + MAX_BATCH + 10
    assert counts["dropped"] >= 10  # that many may be in the listener's hands


def test_what_ends_together_is_told_together_and_in_order() -> None:
    hearing = Listening()
    telemetry = Telemetry([hearing], Counter(), lambda: 0.0)
    for number in range(3 * MAX_BATCH):
        telemetry.asked(b"%d" % number, None, b"").end(Outcome.COMPLETE, 200)
    telemetry.close()
    assert [int(ended.asked.request_id) for ended in hearing.heard] == list(range(3 * MAX_BATCH))
    assert 3 <= hearing.calls <= 5
