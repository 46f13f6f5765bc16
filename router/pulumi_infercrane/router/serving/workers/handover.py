"""What a supervisor leaves to the program that replaces it, in the same process: descriptors, workers, counts.

A document in memory, whose descriptor is named by the environment: counts are too long for a variable.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import NamedTuple

from pulumi_infercrane.router.serving.workers import totals

HANDOVER = "INFERCRANE_ROUTER_HANDOVER"


class Left(NamedTuple):
    """A worker that goes on: its process, and the descriptor of our end of its channel."""

    pid: int
    channel: int


@dataclass(frozen=True)
class Handover:
    """Descriptors stay open; `paths` are those of sockets to remove at the end."""

    data: tuple[int, ...]
    control: int
    status: int | None
    lock: int
    paths: tuple[str, ...]
    workers: tuple[Left, ...]
    ends: Mapping[str, int]
    ended: totals.Families
    counting: tuple[int, ...] = ()
    """Processes of the workers that count for traffic windows."""

    def descriptors(self) -> tuple[int, ...]:
        status = () if self.status is None else (self.status,)
        return (*self.data, self.control, *status, self.lock, *(left.channel for left in self.workers))


def leave(handover: Handover) -> str:
    """The value of the environment variable. Everything handed over survives a change of program from here on."""
    memory = os.memfd_create("infercrane-handover")
    with os.fdopen(os.dup(memory), "wb") as file:
        file.write(json.dumps(asdict(handover)).encode())
    for descriptor in (memory, *handover.descriptors()):
        os.set_inheritable(descriptor, True)
    return str(memory)


def take(environment: Mapping[str, str]) -> Handover | None:
    """What the program before left; None when there was none."""
    if HANDOVER not in environment:
        return None
    with os.fdopen(int(environment[HANDOVER]), "rb") as file:
        file.seek(0)
        document = json.load(file)
    found = Handover(
        tuple(document["data"]),
        document["control"],
        document["status"],
        document["lock"],
        tuple(document["paths"]),
        tuple(Left(*left) for left in document["workers"]),
        document["ends"],
        {name: totals.Family(*family) for name, family in document["ended"].items()},
        tuple(document.get("counting", ())),
    )
    for descriptor in found.descriptors():
        os.set_inheritable(descriptor, False)
    return found
