"""The data planes side by side: our router in its setups, its peers, none; where each runs, and what is measured."""

import functools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers import applications, proxies, routers
from benchmarks.peers.peer import Peer, Place, serving
from benchmarks.router.load import Serving, until_it_answers
from benchmarks.router.ours import MANY_SERVICES, our_router
from benchmarks.router.plan import BARE, DIRECT, FEW, LARGE, MEMORY, ONE, OURS, RENAMING, STREAM, TWO, WHOLE, WORKERS
from pulumi_infercrane.components.supervision.ports import free_port

PEERS: Mapping[str, Peer] = {**proxies.PEERS, **routers.PEERS, **applications.PEERS}
SILENCE_S = 3600

CORES = sorted(os.sched_getaffinity(0))
PROXY_CORES, TOOL_CORES = CORES[:1], (CORES * 2)[1:2]
WORKER_CORES, WORKER_TOOL_CORES = (CORES[:2], CORES[2:4]) if len(CORES) >= 4 else (CORES, CORES)
"""Two cores have to be shared with the tools, by one worker as by two."""


@dataclass(frozen=True)
class DataPlane:
    """`start` takes a folder and the port of the model server. `kinds` are its cells, memory first."""

    start: Callable[[Path, int], AbstractContextManager[Serving]]
    kinds: tuple[str, ...]


def data_planes(peers: Sequence[str]) -> dict[str, DataPlane]:
    """Ours, the peers of these names, and none."""
    alone = functools.partial(our_router, cores=PROXY_CORES)
    workers = functools.partial(our_router, cores=WORKER_CORES, everything=True)
    return {
        OURS: DataPlane(functools.partial(alone, everything=True), (MEMORY, STREAM, FEW, WHOLE)),
        BARE: DataPlane(alone, (STREAM, FEW, WHOLE)),
        RENAMING: DataPlane(functools.partial(alone, answer_as_alias=True), (STREAM, WHOLE)),
        **{name: DataPlane(functools.partial(_peer, PEERS[name]), _kinds(PEERS[name])) for name in peers},
        LARGE: DataPlane(functools.partial(alone, services=MANY_SERVICES), (WHOLE,)),
        DIRECT: DataPlane(_none, (STREAM,)),
        ONE: DataPlane(functools.partial(workers, workers=1), (WORKERS,)),
        TWO: DataPlane(functools.partial(workers, workers=2), (WORKERS,)),
    }


def _kinds(peer: Peer) -> tuple[str, ...]:
    return (FEW if peer.slow else STREAM, WHOLE)


@contextmanager
def _peer(peer: Peer, folder: Path, upstream: int) -> Iterator[Serving]:
    place = Place(f"http://127.0.0.1:{upstream}", free_port(), folder, SILENCE_S)
    with serving(peer, place, PROXY_CORES) as process:
        found = Serving(process.pid, place.port, PROXY_CORES, "".join(peer.headers))
        until_it_answers(process, found)
        yield found


@contextmanager
def _none(_folder: Path, upstream: int) -> Iterator[Serving]:
    yield Serving(0, upstream)
