"""Data planes in front of one model server: ours, the proxies we export to, and routers from the package index.

Each is set up as carefully as we know how: no retries, no buffering, timers of `SILENCE_S` where it has such timers.
The proxies run what `infercrane router export` writes.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from benchmarks.peers import applications, proxies, routers
from benchmarks.peers.peer import Peer, Place, serving
from pulumi_infercrane.components.supervision.ports import free_port
from pulumi_infercrane.router import Flip
from pulumi_infercrane.router.export._deliver import deliver
from pulumi_infercrane.router.export._place import read_place
from tests.router.conftest import R1, RouterProcess, declared, revision
from tests.router.export.conftest import table_of
from tests.router.export.proxies import running
from tests.router.probes.streams import SILENCE_S

TIMERS = {"first_byte_s": SILENCE_S, "gap_s": SILENCE_S, "client_stall_s": 5}

Runs = contextlib.AbstractContextManager[int]
"""Started on entering; the port it listens on."""


@dataclass(frozen=True)
class Asked:
    """`start` takes the URL of the model server and a folder of its own. `headers` are what every client sends."""

    start: Callable[[str, Path], Runs]
    version: Callable[[], str]
    headers: tuple[str, ...] = ()


@contextlib.contextmanager
def ours(url: str, folder: Path) -> Iterator[int]:
    process = RouterProcess(folder).wait_ready()

    async def route() -> None:
        async with process.client() as control:
            table = declared({R1: revision("r1", url, model="chat")}, timers=TIMERS)
            await control.put("chat", table, if_match=None)
            await control.flip("chat", Flip("", R1, "probes"))

    try:
        asyncio.run(route())
        yield process.port
    finally:
        process.kill()


def exported(target: str) -> Callable[[str, Path], Runs]:
    @contextlib.contextmanager
    def start(url: str, folder: Path) -> Iterator[int]:
        place = read_place(folder / target, f"127.0.0.1:{free_port()}")
        deliver(target, table_of({R1: revision("r1", url, model="chat")}, R1, timers=TIMERS), place)
        with running(target, place):
            yield place.listen.port

    return start


def packaged(peer: Peer) -> Asked:
    @contextlib.contextmanager
    def start(url: str, folder: Path) -> Iterator[int]:
        place = Place(url, free_port(), folder, SILENCE_S)
        with serving(peer, place, sorted(os.sched_getaffinity(0))):
            yield place.port

    return Asked(start, peer.version, peer.headers)


PEERS: Mapping[str, Asked] = MappingProxyType(
    {
        "ours": Asked(ours, lambda: ""),
        **{name: Asked(exported(name), peer.version) for name, peer in proxies.PEERS.items()},
        **{name: packaged(peer) for name, peer in {**routers.PEERS, **applications.PEERS}.items()},
    }
)
