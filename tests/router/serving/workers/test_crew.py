"""Keeping workers that do as told: here a few lines of Python instead of a router."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pulumi_infercrane.router.counting.counters import Counted
from pulumi_infercrane.router.counting.traffic import Load
from pulumi_infercrane.router.errors import WorkerFailed
from pulumi_infercrane.router.serving.workers import crew as crew_module
from pulumi_infercrane.router.serving.workers.channel import Message
from pulumi_infercrane.router.serving.workers.crew import Crew
from pulumi_infercrane.router.tables.schema import read_declared
from pulumi_infercrane.router.tables.table import RouteTable
from tests.router.conftest import R1, declared, eventually, revision

TABLE = RouteTable("chat", 1, read_declared(declared({R1: revision("r1", "http://a")})))

_WORKER = """
import json, os, socket, sys
channel = socket.socket(fileno=int(os.environ["INFERCRANE_ROUTER_WORKER"].split(",")[0])).makefile("rwb", buffering=0)
say = lambda message: channel.write(json.dumps(message).encode() + b"\\n")
counts = '# TYPE infercrane_router_requests_total counter\\ninfercrane_router_requests_total{outcome="ok"} 5\\n'
metrics = counts + '# TYPE infercrane_router_inflight gauge\\ninfercrane_router_inflight{} 2\\n'
says = sys.argv[3:] == ["counts"]
counted = [["chat", 1, {}]] if says else []
say({"hello": 1} | ({"counts": True} if says else {}))
for line in channel:
    message = json.loads(line)
    if message["do"] == sys.argv[1]:
        continue
    if message["do"] == sys.argv[2]:
        sys.exit()
    if message["do"] == "count" and not says:
        sys.exit()
    say({"id": message["id"], "loads": [["chat", "r1", 2, 1.5, 1]], "metrics": metrics, "counted": counted})
    if message["do"] == "stop":
        say({"last": {"metrics": counts}, "counted": counted})
        break
"""


@asynccontextmanager
async def keeping(
    size: int, *, ignores: str = "", ends_at: str = "", counts: bool = True, started: list[Message]
) -> AsyncIterator[Crew]:
    """A crew of workers that do not answer one question, or end at another."""
    one = Crew(size, (sys.executable, "-c", _WORKER, ignores, ends_at, *(["counts"] if counts else [])), {})

    def state() -> Message:
        started.append({"tables": {}, "keys": None})
        return started[-1]

    try:
        with Path(os.devnull).open() as anything:
            await one.start((anything.fileno(),), anything.fileno(), state)
            yield one
    finally:
        await one.stop(5, asyncio.Event())


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("ANSWER_S", 0.3), ("LOOK_EVERY_S", 0.02), ("HANG_S", 0.1), ("AGAIN_S", 0.01)):
        monkeypatch.setattr(crew_module, name, value)


async def test_a_silent_worker_is_dead_when_the_change_is_acknowledged(quick: None) -> None:
    started: list[Message] = []
    async with keeping(2, ignores="table", started=started) as crew:
        before = {member.pid for member in crew.members}
        await crew.go_by(TABLE)
        assert not before & {member.pid for member in crew.members}
        await eventually(lambda: len(started) == 4)  # the new ones begin with what there is now
        assert (crew.ends["silent"], crew.ends["died"]) == (2, 0)


async def test_a_worker_that_hangs_is_found_without_a_change(quick: None) -> None:
    async with keeping(1, ignores="nothing", started=[]) as crew:
        watching = asyncio.create_task(crew.watch())
        await eventually(lambda: crew.ends["silent"] > 0)
        watching.cancel()


async def test_a_worker_that_ends_over_a_change_holds_nothing_up(quick: None) -> None:
    async with keeping(1, ends_at="table", started=[]) as crew:
        await asyncio.wait_for(crew.go_by(TABLE), 5)
        await eventually(lambda: crew.ends["died"] == 1 and crew.serving)


async def test_what_workers_say_is_added_and_outlives_them(quick: None) -> None:
    async with keeping(2, ends_at="keys", started=[]) as crew:
        assert await crew.loads() == {("chat", "r1"): Load(4, 1.5, 2)}
        text = await crew.metrics("")
        assert 'infercrane_router_requests_total{outcome="ok"} 10\n' in text
        assert "infercrane_router_inflight{} 4\n" in text
        await crew.take_keys([])
        await eventually(lambda: [member.serving.is_set() for member in crew.members] == [True, True])
        assert crew.ends["died"] == 2
        text = await crew.metrics("")
    assert 'infercrane_router_requests_total{outcome="ok"} 20\n' in text  # of the dead and of their successors
    assert 'infercrane_router_worker_ends_total{reason="died"} 2\n' in text


async def test_workers_that_never_serve_are_an_error_at_the_start(quick: None) -> None:
    with pytest.raises(WorkerFailed):
        async with keeping(1, ends_at="start", started=[]):
            pass


async def test_a_worker_that_cannot_be_started_is_tried_again(quick: None) -> None:
    async with keeping(1, ends_at="table", started=[]) as crew:
        command, crew._command = crew._command, ("/nowhere/python",)
        await crew.go_by(TABLE)
        await asyncio.sleep(0.05)
        assert not crew.serving
        crew._command = command
        await eventually(lambda: crew.serving)


async def test_what_workers_counted_is_told_as_they_say_it_the_last_time_too(quick: None) -> None:
    told: list[Counted] = []
    lost: list[None] = []
    async with keeping(2, started=[]) as crew:
        crew.on_counted, crew.on_lost = told.append, lambda: lost.append(None)
        assert crew.all_count
        await crew.count("chat")
        assert told == [Counted("chat", 1, {})] * 2
    assert (len(told), lost) == (2 + 4, [])


@pytest.mark.parametrize("how", ["ends", "hangs"])
async def test_a_worker_that_is_gone_without_a_word_has_lost_what_it_counted(quick: None, how: str) -> None:
    lost: list[None] = []
    at = {"ends_at": "count"} if how == "ends" else {"ignores": "count"}
    async with keeping(2, **at, started=[]) as crew:
        crew.on_lost = lambda: lost.append(None)
        await crew.count("chat")
        assert len(lost) == 2
        await eventually(lambda: [member.serving.is_set() for member in crew.members] == [True, True])


async def test_a_worker_of_an_older_program_is_not_asked_what_it_would_not_understand(quick: None) -> None:
    async with keeping(2, counts=False, started=[]) as crew:
        assert not crew.all_count
        await crew.count("chat")
        await crew.go_by(TABLE)
        assert crew.ends["died"] == 0
