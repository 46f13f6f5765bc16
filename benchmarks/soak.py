"""Flips every second under open streams, for minutes: nothing fails, nothing is counted wrong, no stream changes sides.

Keys with budgets, limits, and an access log that is rotated every minute are on. Rewrites its table in docs/probes.md.

.venv/bin/python -m benchmarks.soak --minutes 10 --streams 500
"""

import argparse
import asyncio
import re
import tempfile
from bisect import bisect
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from io import BytesIO
from operator import itemgetter
from pathlib import Path
from time import monotonic
from typing import Any

import httpx

from benchmarks.processes import memory_mib
from benchmarks.rows import Row, publish
from pulumi_infercrane.router import ControlClient, Flip
from pulumi_infercrane.router.clients.keys import Grant, KeyLimits
from tests.router.conftest import R1, R2, RouterProcess, declared, revision
from tests.router.export.load import Fetched, Load, load, speak
from tests.router.upstream import Upstream

PAGE = Path(__file__).parents[1] / "docs" / "probes.md"
BEGIN, END = "<!-- measured: soak -->\n", "<!-- end -->\n"
EVENTS, PAUSE_S, BETWEEN_S = 40, 0.2, 1.0
"""A stream spans several flips."""
ROTATED_EVERY = 60
"""Flips."""
LOG = "access.jsonl"
PLENTY = 1_000_000_000
KEY = Grant("soak", ("chat",), limits=KeyLimits(PLENTY, PLENTY, PLENTY))
EVERYTHING: Mapping[str, Any] = {
    "limits": {"max_inflight": 100_000, "max_inflight_per_revision": 100_000},
    "timers": {"total_s": 600},
    "pinning": True,
    "session_header": "x-session",
}
"""None of it is ever reached."""
NAMES = {R1: "r1", R2: "r2"}


@dataclass
class Seen:
    """What happened beside the load."""

    flips: list[tuple[float, str]] = field(default_factory=list)
    """When each was acknowledged, and what is active since."""
    memory: list[float] = field(default_factory=list)
    told: int = 0
    """Lines of the access log."""


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--minutes", type=float, default=10)
    arguments.add_argument("--streams", type=int, default=500)
    chosen = arguments.parse_args()
    found = asyncio.run(soak(chosen.minutes * 60, chosen.streams))
    publish("soak", found)
    before, _, rest = PAGE.read_text().partition(BEGIN)
    said = f"{chosen.streams} streams, {chosen.minutes:g} minutes"
    PAGE.write_text(before + BEGIN + table(said, found) + END + rest.partition(END)[2])


def table(said: str, found: Sequence[Row]) -> str:
    lines = [f"| {said} | |\n", "|---|---|\n"]
    lines += [f"| {row.metric} | {row.ours:,.0f} |\n" for row in found if row.peer is None]
    return "".join([*lines, *(f"| {row.metric} | {row.ours:.1f}, {row.peer:.1f} |\n" for row in found if row.peer)])


async def soak(seconds: float, streams: int) -> Sequence[Row]:
    async with AsyncExitStack() as closing:
        upstreams = {R1: Upstream(), R2: Upstream()}
        for digest, upstream in upstreams.items():
            await upstream.start()
            closing.push_async_callback(upstream.stop)
            speak(upstream, NAMES[digest], EVENTS, PAUSE_S)
        folder = Path(closing.enter_context(tempfile.TemporaryDirectory(prefix="ics")))
        options = ("--require-keys", "--access-log", str(folder / LOG))
        process = RouterProcess(folder, options=options).wait_ready()
        closing.callback(process.kill)
        async with process.client() as control:
            both = {digest: revision(NAMES[digest], one.url, model="chat") for digest, one in upstreams.items()}
            await control.put("chat", {**declared(both), **EVERYTHING}, if_match=None)
            await control.flip("chat", Flip("", R1, "begin"))
            headers = {"Authorization": f"Bearer {(await control.new_key(KEY)).secret}"}
            async with load(process.port, streams, small=streams // 50, headers=headers) as found:
                seen = await flipping(control, seconds, process.process.pid, folder)
            counted = outcomes(await metrics(process.control))
        process.terminate()
        await process.ended()
        seen.told += rotated(folder) + rotated(folder)
        asked = sum(len(upstream.calls) for upstream in upstreams.values())
    return rows(found, seen, counted, asked)


async def flipping(control: ControlClient, seconds: float, pid: int, folder: Path) -> Seen:
    seen, active, until = Seen(), R1, monotonic() + seconds
    while monotonic() < until:
        await asyncio.sleep(BETWEEN_S)
        before, active = active, R2 if active == R1 else R1
        await control.flip("chat", Flip(before, active, f"flip-{len(seen.flips)}"))
        seen.flips.append((monotonic(), active))
        seen.memory.append(memory_mib(pid))
        if len(seen.flips) % ROTATED_EVERY == 0:
            seen.told += rotated(folder)
    return seen


def rotated(folder: Path) -> int:
    """Move the log away, and count the one that was moved the last time, to which nobody writes any more."""
    log, earlier = folder / LOG, folder / f"{LOG}.1"
    with earlier.open("rb") if earlier.exists() else BytesIO() as lines:
        count = sum(1 for _ in lines)
    earlier.unlink(missing_ok=True)
    if log.exists():
        log.rename(earlier)
    return count


async def metrics(control: Path) -> str:
    transport = httpx.AsyncHTTPTransport(uds=str(control))
    async with httpx.AsyncClient(transport=transport, base_url="http://router") as client:
        return (await client.get("/metrics")).text


def outcomes(metrics: str) -> Counter[str]:
    """Requests by outcome, over both revisions."""
    found: Counter[str] = Counter()
    for outcome, count in re.findall(r'requests_total\{[^}]*outcome="(\w+)"[^}]*\} (\d+)', metrics):
        found[outcome] += int(count)
    return found


def rows(found: Load, seen: Seen, counted: Counter[str], asked: int) -> Sequence[Row]:
    whole = len(found.done)
    spanning = sum(any(one.began < moment < one.ended for moment, _ in seen.flips) for one in found.done if one.stream)
    late = seen.memory[len(seen.memory) // 2 :]
    old = sum(behind(one, seen.flips) for one in found.done)
    other_outcomes = counted.total() - counted["complete"]
    return [
        Row("flips", len(seen.flips)),
        Row("requests that ended whole", whole),
        Row("streams that spanned a flip", spanning),
        Row("requests that failed", len(found.failed), goal=0),
        Row("answers of two revisions, or of another than they say", sum(map(mixed, found.done)), goal=0),
        Row("answers of the old revision, asked for after a flip", old, goal=0),
        Row("requests the router counts otherwise", abs(counted["complete"] - whole) + other_outcomes, goal=0),
        Row("requests without a line in the access log, or with two", abs(seen.told - whole), goal=0),
        Row("requests the upstreams got more than once, or never", abs(asked - whole), goal=0),
        Row("memory at the end and at the half, MiB", seen.memory[-1], late[0], goal=1.1),
    ]


def mixed(one: Fetched) -> bool:
    return one.names != {NAMES[one.revision]}


def behind(one: Fetched, flips: Sequence[tuple[float, str]]) -> bool:
    """Whether it was asked for soon after a flip, and answered by the revision before."""
    number = bisect(flips, one.began, key=itemgetter(0)) - 1
    if number < 0 or one.began > flips[number][0] + BETWEEN_S / 2:
        return False
    return one.revision != flips[number][1]


if __name__ == "__main__":
    main()
