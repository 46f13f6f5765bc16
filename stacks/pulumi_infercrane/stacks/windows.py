"""Traffic windows of a router as files of a folder: canary steps, and the watch afterwards, are decided on them."""

import asyncio
import json
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from pulumi_infercrane.components.supervision.files import folder_of
from pulumi_infercrane.components.supervision.observing import observe
from pulumi_infercrane.guard import SigningKey, signed_window
from pulumi_infercrane.guard.evidence.window import SUFFIX
from pulumi_infercrane.guard.files import write_whole
from pulumi_infercrane.router.control.client import ControlClient
from pulumi_infercrane.stacks.config import StackConfig
from pulumi_infercrane.stacks.project import Project

LastExit = Callable[[str], float | None]
"""Unix time at which the server of a revision (by digest) ended last; None when it never did, or nobody knows."""


def unwatched(_revision: str) -> None:
    """For servers that somebody else starts again: a router does not see it."""


async def take(
    router: ControlClient,
    service: str,
    folder: Path,
    last_exit: LastExit = unwatched,
    key: SigningKey | None = None,
) -> tuple[Path, ...]:
    """Close the open window and write every closed one, signed where there is a key; the router keeps none of them.

    Killed at any point, the next call goes on: a file that is there is left as it is, since a decision may rest on it.

    Raises:
        RouterError: the router is silent, or does not know the service.
        OSError: the folder cannot be written; the router still has what was not.
    """
    written = []
    closed = await router.close_window(service)
    _make(folder)
    for name in closed:
        window = with_restarts(await router.window(service, name), last_exit)
        signed = signed_window(window, key) if key else window
        written.append(_write_once(folder / f"{service}.{name}{SUFFIX}", signed))
        await router.forget_window(service, name)
    return tuple(written)


def take_all(project: Project, config: StackConfig, key: SigningKey | None = None) -> tuple[Path, ...]:
    """What the router of a stack counted so far, in the folder of the stack; its own servers are watched for restarts.

    Raises:
        RouterError, OSError: as `take`.
    """
    place, names = project.place, {spec.digest: f"{spec.name}-{spec.digest[7:15]}" for spec in config.revisions}

    def last_exit(revision: str) -> float | None:
        seen = observe(folder_of(place.root, names[revision])) if revision in names else None
        return seen.last_exit["at"] if seen and seen.last_exit else None

    async def taken() -> tuple[Path, ...]:
        async with ControlClient(place.control) as router:
            return await take(router, config.service, place.windows, last_exit, key)

    return asyncio.run(taken())


def with_restarts(window: Mapping[str, Any], last_exit: LastExit) -> dict[str, Any]:
    """A window in which the servers that ended while it was open count as restarted, once each."""
    begin, end = (datetime.fromisoformat(window[name]).timestamp() for name in ("started_at", "ended_at"))

    def restarts(revision: str) -> int:
        exited = last_exit(revision)
        return int(exited is not None and begin <= exited < end)

    bindings = [{**binding, "restarts": restarts(binding["revision"])} for binding in window["bindings"]]
    return {**window, "bindings": bindings}


def _make(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)


def _write_once(path: Path, window: Mapping[str, Any]) -> Path:
    if not path.exists():
        write_whole(path, json.dumps(window, separators=(",", ":")).encode() + b"\n")
    return path
