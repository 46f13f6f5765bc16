"""CPU per streamed event and memory of the router, beside nginx doing the same, in one run.

Every proxy gets one core, the load generator and the model server share the other. Rounds are interleaved; a row shows
the median of the rounds. A cell measured under foreign load is measured again. nginx relays the same streams without
what the router does besides: model names, request checks, outcomes, counters.

.venv/bin/python -m benchmarks.router
"""

import argparse
import asyncio
import hashlib
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.rows import Row, publish
from pulumi_infercrane.router.control import ControlClient, Flip

SOURCES = Path(__file__).parent / "router_load"
INTERVAL_US = 50_000
REVISION = "sha256:" + "a" * 64
NO_NGINX = "nginx is not installed: no peer to compare with. On Debian: apt-get install nginx-light"
SETTLE_S = 0.5
START_S = 15
CPU_GOAL = 1.25
QUIET_CORES = 0.2
MAX_TRIES = 2
PROXY_CORE, OTHERS = (sorted(os.sched_getaffinity(0)) * 2)[:2]


@dataclass(frozen=True)
class Plan:
    """Streams of `events` events, one per 50 ms, on `streams` connections; seconds; rounds per proxy."""

    streams: int = 1000
    events: int = 100
    ramp_s: float = 4
    measure_s: float = 5
    rounds: int = 5


@dataclass(frozen=True)
class Cell:
    """One proxy in one round."""

    cpu_us: float
    """Of all its processes, per event or per request."""
    answers: int
    broken: int
    ttft_ms: float
    delay_p99_ms: float
    memory_mib: float
    foreign_cores: float
    """Processor time of everybody else on the machine, in cores."""


def main(plan: Plan | None = None) -> None:
    with tempfile.TemporaryDirectory(prefix="icb") as folder:
        publish("router", measure(plan or Plan(), Path(folder)))


def measure(plan: Plan, folder: Path) -> list[Row]:
    tools = compile_tools()
    cells: dict[tuple[str, str], list[Cell]] = {}
    names = [name for name in PROXIES if name == "ours" or nginx()]
    if len(names) == 1:
        print(NO_NGINX)
    with model_server(tools, plan) as upstream:
        for number in range(plan.rounds):
            for name in names:
                print(f"round {number + 1} of {plan.rounds}: {name}", flush=True)
                with PROXIES[name](folder, upstream.port) as proxy:
                    for kind, cell in measure_proxy(proxy, upstream, tools, plan):
                        cells.setdefault((name, kind), []).append(cell)
    return rows(plan, cells)


def measure_proxy(proxy: "Process", upstream: "Process", tools: Path, plan: Plan) -> Iterator[tuple[str, Cell]]:
    """Memory first: the process is fresh."""
    few = Plan(streams=200, ramp_s=1, measure_s=1)
    requests = Plan(streams=32, ramp_s=0.5, measure_s=plan.measure_s / 4)
    yield "memory", run(proxy, upstream, tools, few, "stream")
    yield "stream", quietest(lambda: run(proxy, upstream, tools, plan, "stream"))
    yield "whole", quietest(lambda: run(proxy, upstream, tools, requests, "whole"))


def quietest(measured: Callable[[], Cell]) -> Cell:
    """Measure again while others use the machine: foreign load changes even the ratios."""
    cells = []
    for _ in range(MAX_TRIES):
        cells.append(measured())
        if cells[-1].foreign_cores <= QUIET_CORES:
            break
    return min(cells, key=lambda cell: cell.foreign_cores)


def run(proxy: "Process", upstream: "Process", tools: Path, plan: Plan, kind: str) -> Cell:
    time.sleep(SETTLE_S)
    command: list[str | Path] = [tools / "load", str(proxy.port), str(plan.streams), kind]
    command += [str(plan.ramp_s), str(plan.measure_s)]
    load = start(command, OTHERS, stdout=subprocess.PIPE)
    assert load.stdout is not None
    load.stdout.readline()
    began, busy, used = time.monotonic(), machine_busy_s(), cpu_s(proxy.pid)
    helpers = cpu_s(upstream.pid) + cpu_s(load.pid)
    time.sleep(plan.measure_s)
    elapsed, busy, used = time.monotonic() - began, machine_busy_s() - busy, cpu_s(proxy.pid) - used
    helpers, memory = cpu_s(upstream.pid) + cpu_s(load.pid) - helpers, memory_mib(proxy.pid)
    report = json.loads(load.communicate()[0].splitlines()[-1])
    operations = report["events"] if kind == "stream" else report["answers_measured"]
    return Cell(
        cpu_us=used / elapsed * report["seconds"] / operations * 1e6,
        answers=report["answers"],
        broken=report["broken"],
        ttft_ms=report["ttft_us"]["p50"] / 1000,
        delay_p99_ms=report["delay_us"]["p99"] / 1000,
        memory_mib=memory,
        foreign_cores=(busy - used - helpers) / elapsed,
    )


def rows(plan: Plan, cells: dict[tuple[str, str], list[Cell]]) -> list[Row]:
    def median(name: str, kind: str, field: str) -> float | None:
        found = [getattr(cell, field) for cell in cells.get((name, kind), [])]
        return statistics.median(found) if found else None

    def row(metric: str, kind: str, field: str, goal: float | None = None) -> Row:
        return Row(metric, median("ours", kind, field) or 0.0, median("nginx", kind, field), goal)

    many = f"{plan.streams} streams"
    ours = [cell for (name, _), found in cells.items() if name == "ours" for cell in found]
    print_spread(cells)
    return [
        row(f"CPU per streamed event, {many}, us", "stream", "cpu_us", CPU_GOAL if nginx() else None),
        row(f"time to first event, {many}, median, ms", "stream", "ttft_ms"),
        row(f"delay of an event, {many}, p99, ms", "stream", "delay_p99_ms"),
        row(f"memory with {many}, MiB", "stream", "memory_mib"),
        row("memory with 200 streams, MiB", "memory", "memory_mib"),
        row("CPU per small request, 32 connections, us", "whole", "cpu_us"),
        Row("streams and requests that broke", sum(cell.broken for cell in ours), goal=0),
    ]


def print_spread(cells: dict[tuple[str, str], list[Cell]]) -> None:
    """Rounds under heavy foreign load say little: show the load beside the spread."""
    for (name, kind), found in cells.items():
        cpu, foreign = [cell.cpu_us for cell in found], max(cell.foreign_cores for cell in found)
        print(f"{name:6}{kind:7} CPU us {min(cpu):.1f} to {max(cpu):.1f}, foreign load up to {foreign:.2f} cores")


@dataclass(frozen=True)
class Process:
    """Something that listens on loopback."""

    pid: int
    port: int


@contextmanager
def model_server(tools: Path, plan: Plan) -> Iterator[Process]:
    port = free_port()
    with running([tools / "upstream", str(port), str(plan.events), str(INTERVAL_US)], OTHERS, port) as process:
        yield process


@contextmanager
def our_router(folder: Path, upstream: int) -> Iterator[Process]:
    port, place = free_port(), Path(tempfile.mkdtemp(dir=folder))
    serve = [sys.executable, "-m", "pulumi_infercrane", "router", "serve", "--listen", f"127.0.0.1:{port}"]
    serve += ["--control", str(place / "control"), "--state", str(place / "state")]
    with running(serve, PROXY_CORE, port) as process:
        asyncio.run(route(place / "control", upstream))
        yield process


async def route(control: Path, upstream: int) -> None:
    upstreams = [{"id": "r1-0", "url": f"http://127.0.0.1:{upstream}"}]
    revision = {"label": "r1", "upstream_model": "m", "dialect": "vllm", "upstreams": upstreams}
    async with ControlClient(control) as router:
        await router.put(
            "m", {"aliases": ["m"], "protocols": ["chat"], "revisions": {REVISION: revision}}, if_match=None
        )
        await router.flip("m", Flip("", REVISION, "benchmark"))


@contextmanager
def nginx_proxy(folder: Path, upstream: int) -> Iterator[Process]:
    port, place = free_port(), Path(tempfile.mkdtemp(dir=folder))
    configuration = place / "nginx.conf"
    configuration.write_text(NGINX.format(place=place, port=port, upstream=upstream))
    with running([nginx(), "-c", configuration, "-e", place / "error.log"], PROXY_CORE, port) as process:
        yield process


NGINX = """
worker_processes 1; worker_rlimit_nofile 20000; daemon off; master_process off; pid {place}/pid;
error_log {place}/error.log warn;
events {{ worker_connections 8192; }}
http {{
  access_log off; keepalive_requests 1000000; keepalive_timeout 75s;
  client_body_temp_path {place}/body; proxy_temp_path {place}/proxy; fastcgi_temp_path {place}/fastcgi;
  uwsgi_temp_path {place}/uwsgi; scgi_temp_path {place}/scgi;
  upstream model {{ server 127.0.0.1:{upstream}; keepalive 1024; keepalive_requests 1000000; }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{
      proxy_pass http://model; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;
      proxy_read_timeout 3600s; proxy_send_timeout 3600s; proxy_next_upstream off;
    }}
  }}
}}
"""

PROXIES = {"ours": our_router, "nginx": nginx_proxy}


def compile_tools() -> Path:
    """Build the load tools once per version of their source, outside the checkout."""
    sources = sorted(SOURCES.iterdir())
    version = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    base = os.environ.get("INFERCRANE_CACHE") or Path.home() / ".cache" / "pulumi-infercrane"
    folder = Path(base) / "router_load" / version
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


def nginx() -> str:
    """Path of nginx, or empty. Debian keeps it where only root's PATH looks."""
    return shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin") or ""


def start(command: Sequence[str | Path], core: int, stdout: int | None = None) -> "subprocess.Popen[str]":
    """Start pinned to a core, so that every thread of it stays there."""
    pinned = [sys.executable, "-c", PIN, str(core), *map(str, command)]
    return subprocess.Popen(pinned, stdout=stdout or subprocess.DEVNULL, text=True)


PIN = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])}); os.execvp(sys.argv[2], sys.argv[2:])"


@contextmanager
def running(command: Sequence[str | Path], core: int, port: int) -> Iterator[Process]:
    process = start(command, core)
    try:
        wait_for_port(port)
        yield Process(process.pid, port)
    finally:
        process.terminate()
        process.wait(timeout=30)


def wait_for_port(port: int) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    sys.exit(f"nothing listens on port {port} after {START_S} s")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def cpu_s(pid: int) -> float:
    """Processor time of all threads of a process, to the nanosecond."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


def machine_busy_s() -> float:
    """Processor time of everybody."""
    user, nice, system, _, _, irq, soft, steal = map(int, Path("/proc/stat").read_text().split("\n")[0].split()[1:9])
    return (user + nice + system + irq + soft + steal) / os.sysconf("SC_CLK_TCK")


def memory_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def chosen_plan() -> Plan:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rounds", type=int, default=Plan.rounds)
    arguments.add_argument("--streams", type=int, default=Plan.streams)
    arguments.add_argument("--measure", type=float, default=Plan.measure_s, metavar="SECONDS")
    chosen = arguments.parse_args()
    return Plan(streams=chosen.streams, rounds=chosen.rounds, measure_s=chosen.measure)


if __name__ == "__main__":
    main(chosen_plan())
