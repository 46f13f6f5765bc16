"""Telling never makes a request wait, and never ends with one listener's fault."""

import threading
from collections import Counter
from collections.abc import Sequence

from pulumi_infercrane.router.protocol.observer import Outcome
from pulumi_infercrane.router.telemetry.requests import Ended
from pulumi_infercrane.router.telemetry.telemetry import BATCH, MAX_BATCHES, Telemetry
from tests.router.conftest import eventually


class Listening:
    def __init__(self, *, fails: bool = False) -> None:
        self.heard: list[Ended] = []
        self.calls = 0
        self.go_on = threading.Event()
        self.go_on.set()
        self.closed = False
        self._fails = fails

    def note(self, ended: Sequence[Ended]) -> Sequence[Ended]:
        return ended

    def tell(self, noted: Sequence[Ended]) -> None:
        self.go_on.wait(5)
        self.calls += 1
        if self._fails:
            raise OSError(28, "No space left on device")
        self.heard += noted

    def close(self) -> None:
        self.closed = True


def ending(telemetry: Telemetry, count: int) -> None:
    """So many requests come and end."""
    for number in range(count):
        telemetry.asked(b"%d" % number, None, b"").end(Outcome.COMPLETE, 200)


async def test_a_listener_that_fails_is_counted_and_the_other_one_hears_all() -> None:
    failing, hearing, counts = Listening(fails=True), Listening(), Counter[str]()
    telemetry = Telemetry([failing, hearing], counts, lambda: 0.0)
    ending(telemetry, 3)
    telemetry.close()
    assert [ended.asked.request_id for ended in hearing.heard] == [b"0", b"1", b"2"]
    assert counts == {"told": 3, "failed": 3, "dropped": 0}
    assert failing.closed and hearing.closed


async def test_what_a_slow_listener_cannot_take_is_dropped_and_counted() -> None:
    slow, counts = Listening(), Counter[str]()
    slow.go_on.clear()
    telemetry = Telemetry([slow], counts, lambda: 0.0)
    ending(telemetry, BATCH * (MAX_BATCHES + 3))
    slow.go_on.set()
    telemetry.close()
    assert counts["dropped"] + counts["told"] == BATCH * (MAX_BATCHES + 3)
    assert counts["dropped"] >= 2 * BATCH  # one batch may be in the listener's hands


async def test_what_ends_together_is_told_together_and_in_order() -> None:
    hearing = Listening()
    telemetry = Telemetry([hearing], Counter(), lambda: 0.0)
    ending(telemetry, 3 * BATCH + 1)
    telemetry.close()
    assert [int(ended.asked.request_id) for ended in hearing.heard] == list(range(3 * BATCH + 1))
    assert hearing.calls == 4


async def test_a_single_request_is_told_soon() -> None:
    hearing = Listening()
    telemetry = Telemetry([hearing], Counter(), lambda: 0.0)
    for calls in (1, 2):
        ending(telemetry, 1)
        assert hearing.calls == calls - 1
        await eventually(lambda calls=calls: hearing.calls == calls)  # type: ignore[misc]
    telemetry.close()
