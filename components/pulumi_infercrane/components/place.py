"""Where a stack keeps what outlives `pulumi up` on this machine: sockets, logs, the route table, the ledger."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pulumi_infercrane.components.errors import ComponentError

MAX_SOCKET_PATH = 100
"""Bytes; the kernel takes 108 including the terminating zero."""


class PlaceTooDeep(ComponentError):
    """The state directory is too long for a unix socket in it."""

    code = "place_too_deep"


@dataclass(frozen=True)
class Place:
    """The folder of one stack below the state directory."""

    root: Path

    @property
    def control(self) -> Path:
        """Unix socket of the router's control listener."""
        return self.root / "router.sock"

    @property
    def router(self) -> Path:
        """Folder in which the router persists its tables."""
        return self.root / "router"

    @property
    def windows(self) -> Path:
        """Folder of the router's traffic windows."""
        return self.root / "windows"

    @property
    def ledger(self) -> Path:
        return self.root / "ledger.jsonl"


def state_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """`INFERCRANE_STATE_DIR`, else `$XDG_STATE_HOME/infercrane`, else `~/.local/state/infercrane`."""
    chosen = environment.get("INFERCRANE_STATE_DIR")
    if chosen:
        return Path(chosen).expanduser().absolute()
    base = environment.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(base).expanduser().absolute() / "infercrane"


def place_of(project: str, stack: str, state: Path | None = None) -> Place:
    """The place of a stack; neither name may hold an `@`, so no two stacks share one.

    Raises:
        PlaceTooDeep: naming the path and the variable that moves it.
    """
    place = Place((state or state_directory()) / f"{stack}@{project}")
    length = len(os.fsencode(place.control))
    if length > MAX_SOCKET_PATH:
        raise PlaceTooDeep(
            f"{place.control} has {length} bytes, a socket path may have {MAX_SOCKET_PATH}: "
            "set INFERCRANE_STATE_DIR to a shorter folder"
        )
    return place
