"""Our router as it is measured: bare, with everything configured, beside a large table, with workers."""

import asyncio
import hashlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from benchmarks.processes import running, start
from benchmarks.router.load import START_S, Serving, until_it_answers
from pulumi_infercrane.components.supervision.ports import free_port
from pulumi_infercrane.router.clients.keys import Grant, KeyLimits
from pulumi_infercrane.router.control.client import ControlClient, Flip
from pulumi_infercrane.router.errors import RouterUnreachable
from pulumi_infercrane.router.tables.schema import read_declared
from pulumi_infercrane.router.tables.store import TableStore, locked
from pulumi_infercrane.router.tables.table import RouteTable

MANY_SERVICES, REVISIONS_EACH = 1_000, 4
PLENTY = 1_000_000_000
KEY = Grant("load", ("chat",), limits=KeyLimits(PLENTY, PLENTY, PLENTY))
LIMITS = {"max_inflight": 100_000, "max_inflight_per_revision": 100_000}
EVERYTHING: Mapping[str, Any] = {"limits": LIMITS, "pinning": True, "session_header": "x-session"}
HEALTH = {"probe_s": 2, "slow_start_s": 5}


@contextmanager
def our_router(
    folder: Path,
    upstream: int,
    cores: Sequence[int],
    *,
    everything: bool = False,
    answer_as_alias: bool = False,
    services: int = 0,
    workers: int = 0,
) -> Iterator[Serving]:
    """It counts, observes, and keeps its histograms always.

    `everything` besides: a key with budgets, limits of the service (neither is ever reached), health probes, pins,
    sessions, an access log in a file, an address for metrics. Without traces and TLS. `services` beside the one that
    is asked.
    """
    port, control = free_port(), folder / "control"
    _write_others(folder / "state", services, upstream)
    serve = [sys.executable, "-m", "pulumi_infercrane", "router", "serve", "--listen", f"127.0.0.1:{port}"]
    serve += ["--control", str(control), "--state", str(folder / "state"), "--workers", str(workers)]
    if everything:
        serve += [
            "--require-keys",
            "--access-log",
            str(folder / "access.jsonl"),
            "--status",
            f"127.0.0.1:{free_port()}",
        ]
    with (folder / "log").open("wb") as log:
        process = start(serve, cores, log)
    with running(process):
        of_revision = {**({"health": HEALTH} if everything else {}), "answer_as_alias": answer_as_alias}
        header = asyncio.run(_routed(control, _service("chat", ["r1"], upstream, **of_revision), everything))
        found = Serving(process.pid, port, cores, header)
        until_it_answers(process, found)
        yield found


def _write_others(state: Path, services: int, upstream: int) -> None:
    """Services that nobody asks for, as an earlier router left them."""
    with locked(state):
        for name in (f"other-{number}" for number in range(services)):
            declared = read_declared(_service(name, [f"r{number + 1}" for number in range(REVISIONS_EACH)], upstream))
            TableStore(state).save(RouteTable(name, 1, declared, _digest("r1"), "benchmark"))


async def _routed(control: Path, table: Mapping[str, Any], everything: bool) -> str:
    """Serve `chat`. What clients have to send."""
    async with ControlClient(control) as router:
        await _until_it_listens(router)
        await router.put("chat", {**table, **(EVERYTHING if everything else {})}, if_match=None)
        await router.flip("chat", Flip("", _digest("r1"), "benchmark"))
        return f"Authorization: Bearer {(await router.new_key(KEY)).secret}" if everything else ""


async def _until_it_listens(router: ControlClient) -> None:
    async with asyncio.timeout(START_S):
        while True:
            with suppress(RouterUnreachable):
                await router.live()
                return
            await asyncio.sleep(0.05)


def _service(name: str, labels: Sequence[str], upstream: int, **more: Any) -> dict[str, Any]:
    upstreams = [{"id": "r1-0", "url": f"http://127.0.0.1:{upstream}"}]
    revision = {"upstream_model": "chat", "dialect": "vllm", "upstreams": upstreams, **more}
    revisions = {_digest(label): {"label": label, **revision} for label in labels}
    return {"aliases": [name], "protocols": ["chat"], "revisions": revisions}


def _digest(label: str) -> str:
    return f"sha256:{hashlib.sha256(label.encode()).hexdigest()}"
