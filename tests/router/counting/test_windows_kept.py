"""Windows over the end of a process: what was counted is kept, and what is missing is said."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
import pytest

from pulumi_infercrane.guard import read_window
from pulumi_infercrane.guard.evidence.window import Window
from pulumi_infercrane.router.counting.counters import Counted
from pulumi_infercrane.router.counting.windows import Windows
from pulumi_infercrane.router.errors import StateNotWritten
from pulumi_infercrane.router.tables.schema import read_declared
from pulumi_infercrane.router.tables.table import RouteTable
from tests.router.conftest import R1, R2, declared, revision
from tests.router.counting.test_window_journal import counts

START = datetime(2026, 11, 30, 4, tzinfo=UTC)
DECLARED = read_declared(declared({R1: revision("r1", "http://a"), R2: revision("r2", "http://b")}))
TABLE = RouteTable("chat", 7, DECLARED, active=R1, weights={R1: 95, R2: 5}, weights_decision_id="step")


class Clock:
    """Seconds since the start."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.tick = 0.0
        """How long a look at it takes."""

    def __call__(self) -> datetime:
        self.seconds += self.tick
        return START + timedelta(seconds=self.seconds)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def started(tmp_path: Path, clock: Clock):
    def start(table: RouteTable | None = TABLE, *, handed_over: bool = False) -> Windows:
        windows = Windows(tmp_path / "windows", clock)
        windows.resume(handed_over=handed_over)
        windows.follow({table.service: table} if table else {})
        return windows

    return start


def count(windows: Windows, *e2e_s: float, generation: int = 7, **failures: int) -> None:
    windows.add(Counted("chat", generation, {R2: counts(*e2e_s, **failures)}))


def look(windows: Windows, clock: Clock, seconds: float, *e2e_s: float) -> None:
    """All processes have told what they counted until so many seconds after the start."""
    clock.seconds = seconds
    if e2e_s:
        count(windows, *e2e_s)
    windows.whole(clock())


def read_all(windows: Windows) -> list[Window]:
    found = [read_window(orjson.dumps(windows.document("chat", name))) for name in windows.names("chat")]
    assert [one.problem for one in found] == [None] * len(found)
    return [one.window for one in found if one.window]


def spans(windows: Windows) -> list[tuple[float, float, str, int]]:
    """Begin and end of each closed window in seconds, whose counts are missing, and completed requests."""
    return [
        (
            (one.started - START).total_seconds(),
            (one.ended - START).total_seconds(),
            one.lost,
            one.bindings[R2].completed,
        )
        for one in read_all(windows)
    ]


def test_a_router_that_was_killed_has_what_it_last_wrote_and_says_what_is_missing(started, clock: Clock) -> None:
    look(started(), clock, 10, 0.1, 0.2)
    clock.seconds = 12
    windows = started()
    assert spans(windows) == [(0, 10, "", 2), (10, 12, "router", 0)]
    look(windows, clock, 20, 0.3)
    windows.close(TABLE)
    assert spans(windows)[2:] == [(12, 20, "", 1)]


def test_one_that_was_killed_before_it_wrote_anything_has_only_what_is_missing(started, clock: Clock) -> None:
    started()
    clock.seconds = 3
    assert spans(started()) == [(0, 3, "router", 0)]


def test_a_router_that_ended_in_good_order_lacks_only_the_time_it_did_not_run(started, clock: Clock) -> None:
    windows = started()
    look(windows, clock, 10, 0.1)
    clock.seconds = 11
    windows.end()
    clock.seconds = 60
    windows = started()
    assert spans(windows) == [(0, 11, "", 1)]
    look(windows, clock, 70)
    windows.close(TABLE)
    assert spans(windows)[1:] == [(60, 70, "", 0)]


def test_a_program_that_was_handed_over_goes_on_with_the_same_window(started, clock: Clock) -> None:
    look(started(), clock, 10, 0.1)
    windows = started(handed_over=True)
    look(windows, clock, 20, 0.2)
    windows.close(TABLE)
    assert spans(windows) == [(0, 20, "", 2)]


def test_closed_windows_are_there_after_a_restart_until_they_are_taken(started, clock: Clock) -> None:
    windows = started()
    look(windows, clock, 10)
    windows.close(TABLE)
    (name,) = windows.names("chat")
    windows.end()
    windows = started()
    assert windows.names("chat") == (name,)
    windows.forget("chat", name)
    windows.end()
    assert started().names("chat") == ()


def test_a_service_that_was_counted_because_somebody_asked_is_counted_again(started, clock: Clock) -> None:
    table = replace(TABLE, weights={}, weights_decision_id="")
    windows = started(table)
    assert windows.counting == ()
    windows.begin(table)
    windows.end()
    assert started(table).counting == ("chat",)


def test_a_lost_worker_ends_the_window_where_it_was_whole(started, clock: Clock) -> None:
    windows = started()
    look(windows, clock, 10, 0.1)
    clock.seconds = 11
    windows.lose()
    windows.lose()
    look(windows, clock, 12, 0.2)
    look(windows, clock, 14, 0.3)
    windows.close(TABLE)
    assert spans(windows) == [(0, 10, "", 1), (10, 12, "worker", 1), (12, 14, "", 1)]


def test_a_router_that_is_killed_while_something_is_missing_says_so_once(started, clock: Clock) -> None:
    windows = started()
    look(windows, clock, 10)
    windows.lose()
    clock.seconds = 13
    assert [span[:3] for span in spans(started())] == [(0, 10, ""), (10, 13, "worker")]


def test_a_route_that_changed_while_nobody_counted_makes_that_window_void(started, clock: Clock) -> None:
    look(started(), clock, 10)
    clock.seconds = 12
    windows = started(replace(TABLE, generation=8))
    assert [one.generations for one in read_all(windows)] == [(7, 7), (7, 8)]


def test_a_worker_that_knows_the_new_route_first_counts_for_the_window_of_that_route(started, clock: Clock) -> None:
    windows, after = started(), replace(TABLE, generation=8)
    clock.seconds = 10
    count(windows, 0.2, generation=8)
    count(windows, 0.1)
    windows.follow({"chat": after})
    count(windows, 0.3)
    look(windows, clock, 20)
    windows.close(after)
    assert spans(windows) == [(0, 10, "", 1), (10, 20, "", 1)]


def test_what_cannot_be_written_is_missing_and_the_window_after_it_is_whole(
    started, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    windows = started()
    look(windows, clock, 10, 0.1)
    clock.seconds = 11
    with monkeypatch.context() as broken:
        broken.setattr("os.pwrite", full)
        count(windows, 0.2)
        look(windows, clock, 12, 0.3)
        with pytest.raises(StateNotWritten, match="No space"):
            windows.close(TABLE)
    look(windows, clock, 14)
    look(windows, clock, 20, 0.4)
    windows.close(TABLE)
    assert spans(windows) == [(0, 10, "", 1), (10, 14, "router", 0), (14, 20, "", 1)]
    clock.seconds = 21
    with monkeypatch.context() as broken:
        broken.setattr("os.pwrite", full)
        windows.end()
    clock.seconds = 22
    assert spans(started())[3:] == [(20, 22, "router", 0)]


def test_a_service_that_is_gone_leaves_nothing_open(started, clock: Clock, tmp_path: Path) -> None:
    look(started(), clock, 10)
    windows = started(None)
    assert windows.counting == ()
    assert not list(tmp_path.glob("windows/*/open.jsonl"))


def test_a_clock_that_was_set_back_over_the_restart_makes_no_windows_overlap(started, clock: Clock) -> None:
    look(started(), clock, 100)
    clock.seconds = 50
    windows = started()
    clock.seconds = 110
    windows.close(TABLE)
    found = read_all(windows)
    assert [one.ended for one in found[:-1]] == [one.started for one in found[1:]]
    assert found[1].lost == "router"


def test_the_window_after_a_loss_begins_where_the_loss_ends_though_time_goes_on(started, clock: Clock) -> None:
    look(started(), clock, 10)
    clock.tick = 0.001
    windows = started()
    windows.close(TABLE)
    found = read_all(windows)
    assert [one.ended for one in found[:-1]] == [one.started for one in found[1:]]
    assert [one.lost for one in found] == ["", "router", ""]
