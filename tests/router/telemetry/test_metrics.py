"""What Prometheus reads: counts by revision, statuses of failing answers, histograms that add up."""

import asyncio
import gc
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pulumi_infercrane.router.counting.traffic import TrafficBook
from pulumi_infercrane.router.histograms import EDGES, Histogram
from pulumi_infercrane.router.protocol.observer import Observer
from pulumi_infercrane.router.routing.routes import Routes
from pulumi_infercrane.router.serving.front import open_front
from pulumi_infercrane.router.serving.loop_watch import TICK_S, watch_loop
from pulumi_infercrane.router.telemetry.metrics import SLICE_S, in_slices, render
from tests.router.client import Client, chat
from tests.router.conftest import R1, R2, Running, eventually, revision
from tests.router.upstream import Call, Upstream, chunk, delta, whole


def shown(router: Running) -> str:
    return render(router.parts.relay.routes, router.parts.relay.traffic)


def open_files() -> int:
    text = render(Routes({}, {}), TrafficBook(time.monotonic))
    return int(re.findall(r"^infercrane_router_open_fds (\d+)$", text, re.MULTILINE)[0])


@pytest.mark.parametrize("status", ["400 Bad Request", "500 Internal Server Error"])
async def test_an_answer_with_an_error_is_counted_by_its_status(
    router: Running, upstream: Upstream, status: str
) -> None:
    async def fail(call: Call) -> None:
        await call.send(whole({"error": {"message": "no"}}, status))

    upstream.script = fail
    async with await router.client() as client:
        await client.ask(chat(False))
    await eventually(lambda: bool(router.outcomes()))
    labels = f'{{service="chat",revision="{R1}",status="{status[:3]}"}}'
    assert f"infercrane_router_http_errors_total{labels} 1\n" in shown(router)


async def test_durations_are_histograms_of_the_requests_there_were(router: Running, upstream: Upstream) -> None:
    async def answer(call: Call) -> None:
        await call.stream(delta())
        await call.end_stream()

    async with await router.client() as client:
        await client.ask(chat(False))
        upstream.script = answer
        await client.ask(chat())
    await eventually(lambda: sum(router.outcomes().values()) == 2)
    text = shown(router)
    assert re.findall(r'request_seconds_bucket{[^}]*le="\+Inf"} (\d+)', text) == ["2"]
    assert re.findall(r"request_seconds_count{[^}]*} (\d+)", text) == ["2"]
    assert re.findall(r"ttft_seconds_count{[^}]*} (\d+)", text) == ["1"]


def test_a_bucket_holds_what_is_at_most_its_edge() -> None:
    histogram = Histogram()
    for seconds in (0.001, 0.005, 0.0051, EDGES[-1] + 1):
        histogram.add(seconds)
    cumulative = dict(histogram.cumulative())
    assert (cumulative["0.005"], cumulative["0.01"], cumulative["600"], cumulative["+Inf"]) == (2, 3, 3, 4)
    assert (histogram.count, histogram.sum) == (4, pytest.approx(EDGES[-1] + 1.0111))


def test_durations_known_together_count_as_their_mean() -> None:
    histogram = Histogram()
    histogram.add_together(0.12, 4)
    cumulative = dict(histogram.cumulative())
    assert (cumulative["0.025"], cumulative["0.05"]) == (0, 4)
    assert (histogram.count, histogram.sum) == (4, 0.12)


async def test_without_a_count_there_is_no_histogram(router: Running, client: Client) -> None:
    assert "_bucket" not in shown(router)
    await client.ask(chat(False))
    assert set(re.findall(r"(\w+)_bucket{", shown(router))) == {
        "infercrane_router_request_seconds",
        "infercrane_router_upstream_connect_seconds",
    }


async def test_a_long_text_leaves_the_loop_to_others_between_its_slices() -> None:
    turns = 0

    def slow() -> Iterator[str]:
        for number in range(40):
            time.sleep(SLICE_S / 4)
            yield str(number)

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    other = asyncio.create_task(count_turns())
    assert await in_slices(slow()) == "".join(map(str, range(40)))
    other.cancel()
    assert turns >= 5


async def test_gaps_between_events_are_booked_once_for_what_was_read_together(
    router: Running, upstream: Upstream, client: Client
) -> None:
    async def answer(call: Call) -> None:
        await call.stream(delta())
        for _ in range(8):
            await asyncio.sleep(0.02)
            await call.send(chunk(delta()))
        await call.end_stream()

    upstream.script = answer
    await client.ask(chat())
    await eventually(lambda: bool(router.outcomes()))
    gaps = router.traffic().gaps
    assert gaps.count >= 8
    assert 0.15 < gaps.sum < 2
    assert f'event_gap_seconds_count{{service="chat",revision="{R1}"}} {gaps.count}' in shown(router)


def test_the_time_until_the_first_event_is_no_gap() -> None:
    now = iter([5.0, 5.0, 5.5, 7.0])
    observer, gaps = Observer(lambda: next(now)), Histogram()
    observer.begin(b"text/event-stream", b"")
    observer.note_gaps(gaps)
    for pieces in ([delta()], [delta(), delta()], [delta(), delta(), delta()]):
        observer.feed(pieces)
        observer.note_gaps(gaps)
    assert (gaps.count, gaps.sum) == (5, 2.0)


async def test_connections_to_an_address_are_counted_and_timed_when_they_are_made(
    router: Running, upstream: Upstream, client: Client
) -> None:
    await router.put({R1: revision("r1", upstream.url), R2: revision("r2", upstream.url)})
    labels = f'address="{upstream.url}"'
    assert f"upstream_connections{{{labels}}} 0\n" in shown(router)
    for _ in range(3):
        await client.ask(chat(False))
    assert f"upstream_connections{{{labels}}} 1\n" in shown(router)
    assert f"upstream_connect_seconds_count{{{labels}}} 1\n" in shown(router)
    await upstream.stop()
    await eventually(lambda: f"upstream_connections{{{labels}}} 0\n" in shown(router))


async def test_streams_a_drain_waits_for(router: Running, upstream: Upstream, client: Client) -> None:
    ended = asyncio.Event()

    async def answer(call: Call) -> None:
        await call.stream(delta())
        await ended.wait()
        await call.end_stream()

    upstream.script = answer
    await router.put({R1: revision("r1", upstream.url), R2: revision("r2", upstream.url)})
    await client.send(chat())
    await eventually(lambda: router.traffic(R1).inflight == 1)
    assert "draining_streams{" not in shown(router)
    await router.flip(R2)
    await router.parts.live.drain("chat", R1, 10)
    assert f'draining_streams{{service="chat",revision="{R1}"}} 1\n' in shown(router)
    ended.set()
    await client.answer()
    assert f'draining_streams{{service="chat",revision="{R1}"}} 0\n' in shown(router)


async def test_a_loop_that_is_held_is_seen(router: Running) -> None:
    stalls = router.parts.relay.traffic.loop_stall
    watching = asyncio.create_task(watch_loop(stalls))
    await asyncio.sleep(0)
    time.sleep(TICK_S + 0.3)
    await eventually(lambda: stalls.count > 0)
    watching.cancel()
    assert stalls.sum >= 0.25
    (over,) = re.findall(r'loop_stall_seconds_bucket{le="0.1"} (\d+)', shown(router))
    assert int(over) < stalls.count


async def test_collections_are_timed_while_clients_are_served(router: Running) -> None:
    pauses, before = router.parts.relay.traffic.gc_pause, list(gc.callbacks)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        front = await open_front(router.parts.relay, listener, None)
        gc.collect()
        seen = pauses.count
        front.stop_accepting()
        front.close()
    assert seen >= 1
    assert 0 < pauses.sum < 10
    assert gc.callbacks == before
    assert f"infercrane_router_gc_pause_seconds_count {pauses.count}\n" in shown(router)


def test_open_files_are_those_of_the_process(tmp_path: Path) -> None:
    before = open_files()
    with (tmp_path / "a").open("w"), (tmp_path / "b").open("w"):
        assert open_files() == before + 2
    assert open_files() == before


async def test_changes_of_tables_are_shown_by_result(router: Running) -> None:
    assert 'route_apply_total{service="chat",result="applied"} 2\n' in shown(router)
