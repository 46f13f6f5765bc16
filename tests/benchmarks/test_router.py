"""The router's benchmark: its page shows the committed cells, its rows hold ours against peers, all processes count."""

import os
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import processes
from benchmarks.peers.peer import Peer, Place, serving
from benchmarks.router import goals, load, page, report
from benchmarks.router.plan import (
    BARE,
    DIRECT,
    FEW,
    MANY,
    MEMORY,
    ONE,
    OURS,
    STREAM,
    TWO,
    WHOLE,
    WORKERS,
    Cell,
    Failed,
    Plan,
)
from benchmarks.router.proxies import PEERS, data_planes
from benchmarks.router.report import Report

NOTHING = Cell(
    cpu_us=1, per_s=1, broken=0, ttft_ms=0, ttft_p99_ms=0, delay_ms=0, delay_p99_ms=0, memory_mib=0, foreign_cores=0
)


def cells(*cpu_us, **more):
    """One a round."""
    return [replace(NOTHING, cpu_us=one, **more) for one in cpu_us]


def found(planes, peers=(), **more):
    return Report("a machine", "2026-11-30", Plan(peers=peers), {}, (), 9900, planes, **more)


def row(planes, metric, peers=()):
    (one,) = (row for row in goals.rows(found(planes, peers)) if row.metric.startswith(metric))
    return one


# --- the committed run ------------------------------------------------------------------------------------------


def test_the_page_shows_the_committed_run():
    text = page.PAGE.read_text()
    assert page.render(text, report.read()) == text, "python -m benchmarks.router.page writes it"


def test_the_committed_run_comes_back_as_it_is_written(tmp_path):
    report.write(report.read(), tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == report.RESULTS.read_text()


def test_every_peer_took_part_or_is_said_to_be_left_out():
    run = report.read()
    assert {*run.versions, *run.left_out} == set(PEERS)


def test_a_page_without_its_markers_is_refused():
    with pytest.raises(ValueError, match="markers of the tables are missing"):
        page.render("# Performance\n", report.read())


# --- rows -------------------------------------------------------------------------------------------------------


def test_medians_are_compared_and_the_bare_one_is_not():
    planes = {OURS: {WHOLE: cells(30, 90, 31)}, BARE: {WHOLE: cells(1)}, "nginx": {WHOLE: cells(9, 10, 99)}}
    one = row(planes, "CPU per small request", ("nginx",))
    assert (one.ours, one.peer, one.ratio, one.holds) == (31, 10, 3.1, False)


@pytest.mark.parametrize(
    ("kind", "metric", "bars"),
    [
        (STREAM, "CPU per streamed event, 1000", {"nginx": 1.25, "envoy": 0.7, "vllm-router": 0.85, "smg": 0.7}),
        (FEW, "CPU per streamed event, 10", {}),
        (WHOLE, "CPU per small request", dict(goals.PER_REQUEST)),
    ],
)
def test_each_peer_has_its_bar(kind, metric, bars):
    planes = {name: {kind: cells(1)} for name in (OURS, *PEERS)}
    shown = [one for one in goals.rows(found(planes, tuple(PEERS))) if one.metric.startswith(metric)]
    assert {one.metric.rpartition(": ")[2]: one.goal for one in shown} == {name: bars.get(name) for name in PEERS}


def test_a_peer_that_was_left_out_has_no_rows():
    planes = {OURS: {STREAM: cells(1), WHOLE: cells(1)}}
    metrics = [one.metric for one in goals.rows(found(planes, ("nginx", "smg")))]
    assert metrics == ["memory with 1000 streams, MiB", "requests of ours that broke"]


def test_what_is_added_is_on_top_of_the_model_server():
    planes = {
        OURS: {STREAM: cells(1, ttft_ms=0.5, delay_ms=0.3)},
        DIRECT: {STREAM: cells(1, ttft_ms=0.25, delay_ms=0.25)},
    }
    assert row(planes, "added time to first event").ours == 0.25
    assert row(planes, "added delay").holds is True


def test_memory_has_a_bar_for_each_number_of_streams():
    planes = {OURS: {kind: cells(1, memory_mib=45) for kind in (MEMORY, STREAM, MANY)}}
    assert [one.holds for one in goals.rows(found(planes)) if one.metric.startswith("memory")] == [False, False, True]


@pytest.mark.parametrize(("of_two", "holds"), [(1800, True), (1000, False)])
def test_two_workers_must_do_more_than_one(of_two, holds):
    planes = {ONE: {WORKERS: cells(50, per_s=1000)}, TWO: {WORKERS: cells(52, per_s=of_two)}}
    assert row(planes, "time per small request, 2 workers").holds is holds
    assert row(planes, "CPU per small request, 2 workers").ratio == pytest.approx(1.04)


def test_what_breaks_anywhere_in_ours_counts_and_in_peers_does_not():
    planes = {
        OURS: {STREAM: cells(1, 1, broken=1)},
        TWO: {WORKERS: cells(1, broken=3)},
        "smg": {STREAM: cells(1, broken=9)},
    }
    assert row(planes, "requests of ours that broke").ours == 5


# --- the page ---------------------------------------------------------------------------------------------------


def drawn(planes, peers=(), **more):
    return page.render(page.BEGIN + page.END, found(planes, peers, **more))


def test_the_page_says_when_others_used_the_machine():
    assert "Others used at most 0.10 cores" in drawn({OURS: {WHOLE: cells(1, foreign_cores=0.1)}})
    assert "up to 1.3 cores: not the figures of a quiet one" in drawn({OURS: {WHOLE: cells(1, 1, foreign_cores=1.3)}})


def test_the_page_names_who_was_left_out():
    run = replace(found({OURS: {WHOLE: cells(1)}}, ("smg",)), left_out=("smg",))
    assert "could not be started or measured: smg." in page.render(page.BEGIN + page.END, run)


def test_a_line_has_median_spread_and_the_part_that_ours_takes():
    text = drawn({OURS: {WHOLE: cells(20)}, "nginx": {WHOLE: cells(9, 10, 14)}}, ("nginx",))
    assert re.search(r"^\| nginx \|.*\| 10 \(9 to 14\) \| 2 \|", text, re.MULTILINE)


def test_slow_peers_get_few_streams_and_ours_both():
    planes = data_planes(tuple(PEERS))
    assert [name for name in PEERS if FEW in planes[name].kinds] == ["litellm", "starlette + httpx"]
    assert {STREAM, FEW} < set(planes[OURS].kinds)


# --- what is measured -------------------------------------------------------------------------------------------

FORKING = """
import subprocess, sys, threading, time
threading.Thread(target=time.sleep, args=(30,), daemon=True).start()
subprocess.Popen([sys.executable, "-c", "while True: pass"])
print("started", flush=True)
time.sleep(30)
"""


@pytest.fixture
def forking():
    """A process with a thread, and a child that is busy."""
    core = min(os.sched_getaffinity(0))
    with processes.running(processes.start([sys.executable, "-c", FORKING], [core], subprocess.PIPE)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"started\n"
        yield process, core
        process.stdout.close()


def test_children_and_threads_stay_on_the_core_and_count(forking):
    process, core = forking
    assert len(processes.tree(process.pid)) == 2
    assert len(processes.tasks(process.pid)) >= 3
    assert processes.strays(process.pid, [core]) == set()
    assert processes.strays(process.pid, []) == {core}
    assert processes.memory_mib(process.pid) > 5


def test_children_end_with_the_process(forking):
    process, _ = forking
    (child,) = processes.tree(process.pid)[1:]
    with processes.running(process):
        pass
    deadline = time.monotonic() + 5
    while _runs(child) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not _runs(child)


def _runs(pid):
    """A dead one may wait for somebody to fetch its exit code."""
    status = Path(f"/proc/{pid}/status")
    return status.exists() and "State:\tZ" not in status.read_text()


def test_a_process_that_has_ended_uses_nothing(forking):
    process, core = forking
    with processes.running(process):
        pass
    assert processes.cpu_s(process.pid) == 0 == processes.memory_mib(process.pid)
    assert processes.strays(process.pid, [core]) == set()


@pytest.mark.parametrize(
    ("does", "why"), [("exit(1)", "ended with 1"), ("import time; time.sleep(30)", "still open after 0.1 s")]
)
def test_a_load_that_does_not_end_well_is_a_failure_of_the_data_plane(does, why):
    tool = processes.start([sys.executable, "-c", does], sorted(os.sched_getaffinity(0)), subprocess.PIPE)
    with processes.running(tool), pytest.raises(Failed, match=why):
        load.report_of(tool, finish_s=0.1 if "sleep" in does else 10)
    tool.communicate()


def test_a_peer_is_told_its_place_and_no_proxy(tmp_path, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    says = "import os; print(os.environ['UPSTREAM'], os.environ.get('HTTP_PROXY'))"
    peer = Peer(lambda place: [sys.executable, "-c", says], lambda: "")
    with serving(peer, Place("http://127.0.0.1:1", 2, tmp_path, 3), [min(os.sched_getaffinity(0))]) as process:
        process.wait(10)
    assert (tmp_path / "log").read_text() == "http://127.0.0.1:1 None\n"
