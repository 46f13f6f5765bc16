"""CPU per streamed event and per request, delays and memory of the router, beside nginx doing the same, in one run.

Every proxy gets one core, the load generator and the model server share the other and never sleep. Rounds are
interleaved; a row shows the median of the rounds. A cell measured under foreign load is measured again. nginx relays
the same streams without what the router does besides: model names, request checks, outcomes, counters. "Added" is what
comes on top of the model server asked directly.

.venv/bin/python -m benchmarks.router
"""

import argparse
import asyncio
import hashlib
import json
import os
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.rows import Row, publish
from pulumi_infercrane.components.supervision.ports import free_port
from pulumi_infercrane.router.control import ControlClient, Flip

SOURCES = Path(__file__).parent / "router_load"
NO_NGINX = "nginx is not installed: no peer to compare with. On Debian: apt-get install nginx-light"
SETTLE_S = 0.5
START_S = 15
MANY_STREAMS = 10_000
MANY_SERVICES, REVISIONS_EACH = 1_000, 4
QUIET_CORES = 0.2
MAX_TRIES = 2
PROXY_CORE, OTHERS = (sorted(os.sched_getaffinity(0)) * 2)[:2]


@dataclass(frozen=True)
class Plan:
    """Streams of `events` events, one per `interval_us`, on `streams` connections; seconds; rounds per proxy."""

    streams: int = 1000
    events: int = 100
    ramp_s: float = 4
    measure_s: float = 5
    rounds: int = 5
    interval_us: int = 50_000


@dataclass(frozen=True)
class Cell:
    """One proxy in one round."""

    cpu_us: float
    """Of all its processes, per event or per request."""
    answers: int
    broken: int
    ttft_ms: float
    ttft_p99_ms: float
    delay_ms: float
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
    names = [name for name in PROXIES if name != "nginx" or nginx()]
    if "nginx" not in names:
        print(NO_NGINX)
    with model_server(tools, plan) as upstream:
        for number in range(plan.rounds):
            for name in names:
                print(f"round {number + 1} of {plan.rounds}: {name}", flush=True)
                with PROXIES[name](folder, upstream.port) as proxy:
                    for kind in KINDS[name]:
                        cells.setdefault((name, kind), []).append(measure_kind(kind, proxy, upstream, tools, plan))
    return [*rows(plan, cells), memory_of_many(tools, folder)]


def measure_kind(kind: str, proxy: "Process", upstream: "Process", tools: Path, plan: Plan) -> Cell:
    if kind == "memory":
        return run(proxy, upstream, tools, Plan(streams=200, ramp_s=1, measure_s=1), "stream")
    if kind == "whole":
        plan = Plan(streams=32, ramp_s=0.5, measure_s=plan.measure_s / 4)
    return quietest(lambda: run(proxy, upstream, tools, plan, kind))


def memory_of_many(tools: Path, folder: Path) -> Row:
    """Once, with few events per stream: what they cost is measured elsewhere. A stream takes two open files."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    plan = Plan(streams=min(MANY_STREAMS, files // 2 - 100), ramp_s=12, measure_s=2, events=20, interval_us=1_000_000)
    print(f"memory with {plan.streams} streams", flush=True)
    with model_server(tools, plan) as upstream, our_router(folder, upstream.port) as proxy:
        cell = run(proxy, upstream, tools, plan, "stream")
    return Row(f"memory with {plan.streams} streams, MiB", cell.memory_mib, goal=150)


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
        ttft_p99_ms=report["ttft_us"]["p99"] / 1000,
        delay_ms=report["delay_us"]["p50"] / 1000,
        delay_p99_ms=report["delay_us"]["p99"] / 1000,
        memory_mib=memory,
        foreign_cores=(busy - used - helpers) / elapsed,
    )


def rows(plan: Plan, cells: dict[tuple[str, str], list[Cell]]) -> list[Row]:
    def median(name: str, kind: str, field: str) -> float | None:
        found = [getattr(cell, field) for cell in cells.get((name, kind), [])]
        return statistics.median(found) if found else None

    def row(metric: str, kind: str, field: str, goal: float | None = None, peer: str = "nginx") -> Row:
        return Row(metric, median("ours", kind, field) or 0.0, median(peer, kind, field), goal)

    def added(metric: str, field: str, goal: float) -> Row:
        return Row(metric, (median("ours", "stream", field) or 0) - (median("direct", "stream", field) or 0), goal=goal)

    many = f"{plan.streams} streams"
    ours = [cell for (name, _), found in cells.items() if name == "ours" for cell in found]
    print_spread(cells)
    return [
        row(f"CPU per streamed event, {many}, us", "stream", "cpu_us", 1.25 if nginx() else None),
        added(f"added time to first event, {many}, median, ms", "ttft_ms", 0.3),
        row(f"time to first event, {many}, p99, ms", "stream", "ttft_p99_ms", 2 if nginx() else None),
        added(f"added delay of an event, {many}, median, ms", "delay_ms", 0.1),
        row(f"delay of an event, {many}, p99, ms", "stream", "delay_p99_ms"),
        row("CPU per small request, 32 connections, us", "whole", "cpu_us", 3 if nginx() else None),
        Row(
            f"the same with {MANY_SERVICES} services of {REVISIONS_EACH} revisions beside it, us",
            median("large", "whole", "cpu_us") or 0.0,
            median("ours", "whole", "cpu_us"),
            goal=1.1,
        ),
        row("memory with 200 streams, MiB", "memory", "memory_mib", 32, peer="none"),
        row(f"memory with {many}, MiB", "stream", "memory_mib", 40, peer="none"),
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
    with running([tools / "upstream", str(port), str(plan.events), str(plan.interval_us)], OTHERS, port) as process:
        yield process


@contextmanager
def our_router(folder: Path, upstream: int, services: int = 0) -> Iterator[Process]:
    port, place = free_port(), Path(tempfile.mkdtemp(dir=folder))
    serve = [sys.executable, "-m", "pulumi_infercrane", "router", "serve", "--listen", f"127.0.0.1:{port}"]
    serve += ["--control", str(place / "control"), "--state", str(place / "state")]
    with running(serve, PROXY_CORE, port) as process:
        wait_for(socket.AF_UNIX, str(place / "control"))
        asyncio.run(route(place / "control", upstream, services))
        yield process


def router_with_large_table(folder: Path, upstream: int) -> AbstractContextManager[Process]:
    return our_router(folder, upstream, MANY_SERVICES)


async def route(control: Path, upstream: int, services: int = 0) -> None:
    """The service `m`, and `services` more that nobody asks for."""
    async with ControlClient(control) as router:
        for name in (*(f"other-{number}" for number in range(services)), "m"):
            labels = ["r1"] if name == "m" else [f"r{number + 1}" for number in range(REVISIONS_EACH)]
            await router.put(name, service(name, labels, upstream), if_match=None)
        await router.flip("m", Flip("", digest("r1"), "benchmark"))


def service(name: str, labels: Sequence[str], upstream: int) -> dict[str, object]:
    upstreams = [{"id": "r1-0", "url": f"http://127.0.0.1:{upstream}"}]
    revision = {"upstream_model": "m", "dialect": "vllm", "upstreams": upstreams}
    revisions = {digest(label): {"label": label, **revision} for label in labels}
    return {"aliases": [name], "protocols": ["chat"], "revisions": revisions}


def digest(label: str) -> str:
    return f"sha256:{hashlib.sha256(label.encode()).hexdigest()}"


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


@contextmanager
def no_proxy(_folder: Path, upstream: int) -> Iterator[Process]:
    yield Process(os.getpid(), upstream)


PROXIES = {"ours": our_router, "nginx": nginx_proxy, "large": router_with_large_table, "direct": no_proxy}
KINDS = {
    "ours": ("memory", "stream", "whole"),  # memory first: the process is fresh
    "nginx": ("memory", "stream", "whole"),
    "large": ("whole",),
    "direct": ("stream",),
}


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
        wait_for(socket.AF_INET, ("127.0.0.1", port))
        yield Process(process.pid, port)
    finally:
        process.terminate()
        process.wait(timeout=30)


def wait_for(family: int, address: tuple[str, int] | str) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        with socket.socket(family) as probe, suppress(OSError):
            probe.connect(address)
            return
        time.sleep(0.05)
    sys.exit(f"nothing listens on {address} after {START_S} s")


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
