"""Traffic windows of several processes: one window of all of them, and no request of it lost without a word."""

import asyncio
import json
import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from pulumi_infercrane.guard import read_window
from pulumi_infercrane.guard.evidence.window import Window
from pulumi_infercrane.router.control.client import Weights
from tests.router.client import Client, chat
from tests.router.conftest import R1, R2, RouterProcess, eventually
from tests.router.serving.test_server import put_and_flip
from tests.router.serving.workers.test_workers import answered_by, eventually_async, metric, under_load, workers
from tests.router.upstream import Upstream

pytestmark = pytest.mark.processes

Start = Callable[..., RouterProcess]
HALF = {R1: 50, R2: 50}


async def shared(process: RouterProcess, upstream: Upstream) -> RouterProcess:
    """R1 serves, and shares the traffic with R2."""
    await put_and_flip(process.control, upstream)
    async with process.client() as control:
        await control.set_weights("chat", Weights(R1, HALF, "step"))
    return process


@pytest.fixture
async def two(start_process: Start, upstream: Upstream) -> RouterProcess:
    return await shared(start_process(options=("--workers", "2")).wait_ready(), upstream)


async def taken(process: RouterProcess) -> list[Window]:
    """The windows until now, taken away as the command line does."""
    await asyncio.sleep(0.002)
    found = []
    async with process.client() as control:
        for name in await control.close_window("chat"):
            found.append(read_window(json.dumps(await control.window("chat", name)).encode()))
            await control.forget_window("chat", name)
    assert [one.problem for one in found] == [None] * len(found)
    return [one.window for one in found if one.window]


async def ask(process: RouterProcess, number: int) -> list[str]:
    """Each on a connection of its own; who answered, by worker."""

    async def one() -> object:
        async with await Client.connect(process.port) as client:
            return await client.ask(chat())

    answers = [await asyncio.gather(*(one() for _ in range(20))) for _ in range(number // 20)]
    return sorted(answered_by([answer for some in answers for answer in some]))


def attempted(windows: list[Window], revisions: Mapping[str, int] = HALF) -> int:
    return sum(one.bindings[digest].attempted for one in windows for digest in revisions)


def assert_no_time_is_left_out(windows: list[Window]) -> None:
    assert [one.ended for one in windows[:-1]] == [one.started for one in windows[1:]]


async def test_a_window_holds_every_request_of_every_worker(two: RouterProcess) -> None:
    assert len(await ask(two, 200)) == 2
    (window,) = await taken(two)
    assert (attempted([window]), window.lost) == (200, "")
    assert {digest: one.weight for digest, one in window.bindings.items()} == HALF
    assert all(len(one.figures["e2e_s"]) == one.completed > 50 for one in window.bindings.values())
    await ask(two, 100)
    (second,) = await taken(two)
    assert (attempted([second]), second.started) == (100, window.ended)


async def test_without_a_canary_workers_count_once_somebody_asks(start_process: Start, upstream: Upstream) -> None:
    process = start_process(options=("--workers", "2")).wait_ready()
    await put_and_flip(process.control, upstream)
    await ask(process, 20)
    assert await taken(process) == []
    await ask(process, 40)
    (window,) = await taken(process)
    assert (window.bindings[R1].weight, window.bindings[R1].completed) == (100, 40)


async def test_a_change_of_the_route_under_load_leaves_each_request_in_at_most_one_window(two: RouterProcess) -> None:
    async with under_load(lambda: Client.connect(two.port)) as load:
        before = len(load.answers)
        async with two.client() as control:
            for number in range(10):
                share = 25 if number % 2 else 50
                await control.set_weights("chat", Weights(R1, {R1: 100 - share, R2: share}, f"step-{number}"))
                await asyncio.sleep(0.05)
    windows = await taken(two)
    assert_no_time_is_left_out(windows)
    assert not any(one.lost for one in windows)
    open_at_each_change = 8
    assert len(load.answers) - 11 * open_at_each_change <= attempted(windows) <= len(load.answers)
    assert before > 0


async def test_a_new_program_goes_on_with_the_window_and_loses_no_request(two: RouterProcess) -> None:
    async with under_load(lambda: Client.connect(two.port)) as load:
        before = workers(two)
        two.process.send_signal(signal.SIGHUP)
        await eventually(lambda: len(workers(two) - before) == 2, timeout_s=10)
        await eventually_async(lambda: metric(two, "workers"), lambda count: count >= 2)
    await eventually(lambda: not workers(two) & before, timeout_s=15)
    windows = await taken(two)
    assert (attempted(windows), [one.lost for one in windows]) == (len(load.answers), [""])


async def test_a_killed_worker_leaves_a_window_that_says_so(two: RouterProcess) -> None:
    await ask(two, 100)
    await asyncio.sleep(2.5)  # a look: what it counted until then is safe
    os.kill(min(workers(two)), signal.SIGKILL)
    await eventually_async(lambda: metric(two, "worker_ends_total"), lambda count: count == 1)
    windows = await taken(two)
    assert_no_time_is_left_out(windows)
    assert [one.lost for one in windows[:2]] == ["", "worker"]
    assert attempted(windows[:1]) == 100
    assert (windows[1].ended - windows[1].started).total_seconds() < 3
    await ask(two, 100)
    later = await taken(two)
    assert (attempted(later), {one.lost for one in later}) == (100, {""})


async def test_what_workers_counted_is_there_after_an_end_in_good_order(
    start_process: Start, two: RouterProcess
) -> None:
    await ask(two, 100)
    two.terminate()
    await two.ended()
    again = start_process(options=("--workers", "1")).wait_ready()
    windows = await taken(again)
    assert (attempted(windows), {one.lost for one in windows}) == (100, {""})


@pytest.mark.parametrize("options", [(), ("--workers", "2")], ids=["alone", "workers"])
async def test_a_killed_router_has_what_it_last_wrote(
    start_process: Start, upstream: Upstream, options: tuple[str, ...]
) -> None:
    process = await shared(start_process(options=options).wait_ready(), upstream)
    await ask(process, 100)
    await asyncio.sleep(2.5)
    left = workers(process)
    process.kill()
    await eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in left))
    again = start_process(options=options).wait_ready()
    await ask(again, 100)
    windows = await taken(again)
    assert_no_time_is_left_out(windows)
    assert [one.lost for one in windows] == ["", "router", ""]
    assert [attempted([one]) for one in windows] == [100, 0, 100]
