"""The load tools, and one cell: load on a data plane, and what it used meanwhile."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from benchmarks.processes import cpu_s, machine_busy_s, memory_mib, running, start, strays
from benchmarks.router.plan import QUIET_CORES, Cell, Failed, Load
from pulumi_infercrane.components.supervision.ports import free_port
from tests.engine.engine import cache_folder

SOURCES = Path(__file__).parents[1] / "router_load"
SETTLE_S, START_S, FINISH_S = 0.5, 120, 60
MAX_TRIES = 2


@dataclass(frozen=True)
class Serving:
    """A data plane that answers on loopback. No process of its own is 0."""

    pid: int
    port: int
    cores: Sequence[int] = ()
    header: str = ""
    """What every client sends."""


@dataclass(frozen=True)
class Stand:
    """A model server, the load tools, and the cores of both."""

    tools: Path
    upstream: Serving


@contextmanager
def stand(cores: Sequence[int], events: int = 100, interval_us: int = 50_000, resting: bool = False) -> Iterator[Stand]:
    """Streams have `events` events. Tools that do not rest never sleep while small requests are about."""
    tools, port = compiled(), free_port()
    command: list[str | Path] = [tools / "upstream", str(port), str(events), str(interval_us)]
    with running(start([*command, *(["resting"] if resting else [])], cores)) as process:
        yield Stand(tools, Serving(process.pid, port, cores))


def until_it_answers(process: "subprocess.Popen[bytes]", proxy: Serving) -> None:
    """A small request of the load passes.

    Raises:
        Failed: it ended, or none does in time.
    """
    name, _, value = proxy.header.partition(": ")
    body = {"model": "chat", "messages": [{"role": "user", "content": "Are you there?"}]}
    deadline = time.monotonic() + START_S
    with httpx.Client(trust_env=False, headers={name: value} if name else {}) as client:
        while time.monotonic() < deadline and process.poll() is None:
            with suppress(httpx.TransportError):
                if client.post(f"http://127.0.0.1:{proxy.port}/v1/chat/completions", json=body).status_code == 200:
                    return
            time.sleep(0.1)
    raise Failed(f"no answer after {START_S} s" if process.poll() is None else f"it ended with {process.returncode}")


def quietest(measured: Callable[[], Cell]) -> Cell:
    """Measure again while others use the machine: foreign load changes even the ratios."""
    cells = []
    for _ in range(MAX_TRIES):
        cells.append(measured())
        if cells[-1].foreign_cores <= QUIET_CORES:
            break
    return min(cells, key=lambda cell: cell.foreign_cores)


def measure(proxy: Serving, on: Stand, load: Load) -> Cell:
    """Raises Failed."""
    time.sleep(SETTLE_S)
    command: list[str | Path] = [on.tools / "load", str(proxy.port), str(load.connections), load.answers]
    command += [str(load.ramp_s), str(load.measure_s), *([proxy.header] if proxy.header else [])]
    with running(start(command, on.upstream.cores, subprocess.PIPE)) as tool:
        assert tool.stdout is not None
        tool.stdout.readline()
        began, busy, used, helped = time.monotonic(), machine_busy_s(), cpu_s(proxy.pid), _of_tools(tool.pid, on)
        time.sleep(load.measure_s)
        elapsed, busy, used = time.monotonic() - began, machine_busy_s() - busy, cpu_s(proxy.pid) - used
        helped, memory, left = _of_tools(tool.pid, on) - helped, memory_mib(proxy.pid), strays(proxy.pid, proxy.cores)
        report = report_of(tool)
    if left:
        raise Failed(f"it may run on the cores {sorted(left)} too")
    return _cell(report, load, used / elapsed, memory, (busy - used - helped) / elapsed)


def _of_tools(tool: int, on: Stand) -> float:
    return cpu_s(tool) + cpu_s(on.upstream.pid)


def report_of(tool: "subprocess.Popen[bytes]", finish_s: float = FINISH_S) -> dict[str, Any]:
    """What the load tool says at its end.

    Raises:
        Failed: what is open does not end, or nothing listens any more.
    """
    try:
        said, _ = tool.communicate(timeout=finish_s)
    except subprocess.TimeoutExpired as late:
        raise Failed(f"requests are still open after {finish_s:g} s") from late
    if tool.returncode != 0:
        raise Failed(f"the load tool ended with {tool.returncode}: is nobody listening?")
    report: dict[str, Any] = json.loads(said.splitlines()[-1])
    return report


def _cell(report: dict[str, Any], load: Load, cores: float, memory: float, foreign: float) -> Cell:
    count = report["events"] if load.answers == "stream" else report["answers_measured"]
    if not count:
        raise Failed(f"it answered nothing, {report['broken']} requests broke")
    return Cell(
        cpu_us=cores * report["seconds"] / count * 1e6,
        per_s=count / report["seconds"],
        broken=report["broken"],
        ttft_ms=report["ttft_us"]["p50"] / 1000,
        ttft_p99_ms=report["ttft_us"]["p99"] / 1000,
        delay_ms=report["delay_us"]["p50"] / 1000,
        delay_p99_ms=report["delay_us"]["p99"] / 1000,
        memory_mib=memory,
        foreign_cores=foreign,
    )


def compiled() -> Path:
    """The folder of the load tools, built once per version of their source, outside the checkout."""
    sources = sorted(SOURCES.iterdir())
    version = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    folder = cache_folder() / "router_load" / version
    if not folder.exists():
        compiler = shutil.which("cc")
        if compiler is None:
            sys.exit("the load tools need a C compiler: no `cc` on PATH. On Debian: apt-get install gcc libc6-dev")
        building = folder.with_name(f"{version}.{os.getpid()}")
        building.mkdir(parents=True)
        for name in ("upstream", "load"):
            subprocess.run([compiler, "-O2", "-o", building / name, SOURCES / f"{name}.c"], check=True)
        building.rename(folder)
    return folder
