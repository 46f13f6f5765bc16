"""Bringing together what workers count: a window is whole only when every one of them can tell."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from pulumi_infercrane.router.counting import live_windows
from pulumi_infercrane.router.counting.counters import Counted, Counters
from pulumi_infercrane.router.counting.live_windows import LiveWindows
from pulumi_infercrane.router.counting.traffic import TrafficBook
from pulumi_infercrane.router.counting.windows import Windows
from tests.router.conftest import R2, eventually
from tests.router.counting.test_window_journal import counts
from tests.router.counting.test_windows_kept import TABLE


class Workers:
    """One worker that has completed a request whenever it is asked, and one that may be of an older program."""

    def __init__(self) -> None:
        self.on_counted: Any = None
        self.on_lost: Any = None
        self.all_count = True
        self.asked: list[str] = []

    async def count(self, service: str = "") -> None:
        self.asked.append(service)
        self.on_counted(Counted("chat", 7, {R2: counts(0.1)}))


@pytest.fixture
def workers() -> Workers:
    return Workers()


@pytest.fixture
def live(workers: Workers, tmp_path: Path) -> LiveWindows:
    start, ticks = datetime(2026, 11, 30, 4, tzinfo=UTC), iter(range(10_000))
    windows = Windows(tmp_path, lambda: start + timedelta(seconds=next(ticks)))
    return LiveWindows(windows, Counters(TrafficBook(lambda: 0.0)), cast("Any", workers))


def lost(live: LiveWindows) -> list[str]:
    """Of each closed window."""
    return [live.kept.document("chat", name).get("lost", "") for name in live.kept.names("chat")]


async def test_a_window_in_which_a_worker_cannot_tell_is_not_whole(live: LiveWindows, workers: Workers) -> None:
    live.follow({"chat": TABLE})
    await live.close(TABLE)
    workers.all_count = False
    await live.look()
    await live.close(TABLE)
    workers.all_count = True  # it has left, after it answered something more
    await live.look()
    await live.look()
    await live.close(TABLE)
    assert lost(live) == ["", "worker", "worker", ""]
    documents = [live.kept.document("chat", name) for name in live.kept.names("chat")]
    assert [one["bindings"][1]["completed"] for one in documents] == [1, 2, 1, 2]


async def test_a_route_that_changes_beside_such_a_worker_begins_no_whole_window(
    live: LiveWindows, workers: Workers
) -> None:
    workers.all_count = False
    live.follow({"chat": TABLE})
    workers.all_count = True
    await live.close(TABLE)
    assert lost(live)[0] == "worker"


async def test_nobody_is_asked_while_nothing_is_counted(live: LiveWindows, workers: Workers) -> None:
    live.follow({})
    await live.look()
    assert workers.asked == []


async def test_looking_goes_on_after_a_fault(
    live: LiveWindows, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fault(service: str = "") -> None:
        workers.asked.append(service)
        raise RuntimeError("a fault")

    monkeypatch.setattr(live_windows, "LOOK_EVERY_S", 0.001)
    monkeypatch.setattr(workers, "count", fault)
    live.follow({"chat": TABLE})
    keeping = asyncio.create_task(live.keep())
    await eventually(lambda: len(workers.asked) > 2)
    keeping.cancel()
