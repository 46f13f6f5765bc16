"""Compares the truths: installation, engine, router, ledger, journal. Changes nothing."""

import asyncio
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Literal

from pulumi_infercrane.components.supervision.observing import observe
from pulumi_infercrane.guard import GuardError, Ledger
from pulumi_infercrane.router.control.client import ControlClient, LiveService, RouterError
from pulumi_infercrane.stacks.config import StackConfig
from pulumi_infercrane.stacks.engine import MINIMUM
from pulumi_infercrane.stacks.operations.journal import Journal
from pulumi_infercrane.stacks.project import Project

State = Literal["ok", "warning", "problem"]


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    check: str
    state: State
    detail: str
    remedy: str = ""


def examine(project: Project, config: StackConfig) -> list[Finding]:
    """Every check, in the order in which a failure explains the ones after it."""
    live = _ask_router(project, config)
    checks: list[Callable[[], Iterator[Finding]]] = [
        _namespace,
        _engine,
        _provider,
        lambda: _policy(config),
        lambda: _router(config, live),
        lambda: _ledger(project, config, live),
        lambda: _processes(project, config),
        lambda: _journal(project),
    ]
    return [finding for check in checks for finding in check()]


def _namespace() -> Iterator[Finding]:
    """A regular package `pulumi_infercrane` anywhere on the path would hide all four portions."""
    spec = import_module("pulumi_infercrane").__spec__
    if spec is not None and spec.origin is not None:
        yield Finding(
            "namespace", "problem", f"{spec.origin} hides the packages of this project", "uninstall what ships it"
        )
    else:
        yield Finding("namespace", "ok", f"pulumi-infercrane {version('pulumi-infercrane')}")


def _engine() -> Iterator[Finding]:
    found = shutil.which("pulumi")
    if found is None:
        yield Finding("engine", "problem", "no `pulumi` on PATH", "install the Pulumi CLI")
        return
    answer = subprocess.run([found, "version"], capture_output=True, text=True, check=False, timeout=30)
    said = answer.stdout.strip() or answer.stderr.strip()
    parts = re.match(r"v?(\d+)\.(\d+)\.(\d+)", said)
    if parts is None or tuple(int(part) for part in parts.groups()) < MINIMUM:
        needed = ".".join(map(str, MINIMUM))
        yield Finding("engine", "problem", f"{found} is {said or 'of unknown version'}", f"install {needed} or newer")
    else:
        yield Finding("engine", "ok", f"pulumi {said}")


def _provider() -> Iterator[Finding]:
    """The engine takes the first `pulumi-resource-infercrane` on PATH and does not look at its version."""
    name = "pulumi-resource-infercrane"
    ours = Path(sys.prefix) / "bin" / name
    if not ours.exists():
        yield Finding("provider", "problem", f"{ours} is missing", "reinstall pulumi-infercrane")
        return
    first = shutil.which(name)
    if first and Path(first).resolve() != ours.resolve():
        remedy = "plain `pulumi up` would use that one; put this environment first on PATH"
        yield Finding("provider", "warning", f"{first} comes before {ours}", remedy)
    else:
        yield Finding("provider", "ok", str(ours))


def _policy(config: StackConfig) -> Iterator[Finding]:
    from pulumi_infercrane.stacks.policy_file import read_policy

    try:
        read_policy(config.policy, config.policy.name)
    except GuardError as error:
        yield Finding("policy", "problem", str(error))
    else:
        yield Finding("policy", "ok", config.policy.name)


def _ask_router(project: Project, config: StackConfig) -> LiveService | RouterError:
    async def ask() -> LiveService:
        async with ControlClient(project.place.control) as router:
            return await router.get(config.service)

    try:
        return asyncio.run(ask())
    except RouterError as error:
        return error


def _router(config: StackConfig, live: LiveService | RouterError) -> Iterator[Finding]:
    if isinstance(live, RouterError):
        yield Finding("router", "problem", str(live), "run `infercrane up`: it starts what is missing")
        return
    declared = {spec.digest for spec in config.revisions}
    if live.active and live.active not in declared:
        yield Finding("router", "problem", f"serves {live.active}, which is not declared", "declare it again")
    else:
        yield Finding(
            "router", "ok", f"{config.name_of(live.active) or 'nothing'} serves, generation {live.generation}"
        )


def _ledger(project: Project, config: StackConfig, live: LiveService | RouterError) -> Iterator[Finding]:
    """The last decision that moved the route must be about what the router serves."""
    flipped_to = ""
    try:
        for entry in Ledger(project.place.ledger).entries():
            if entry.decision["action"] == "flip":
                flipped_to = entry.decision["candidate"]
    except GuardError as error:
        yield Finding("ledger", "problem", str(error), "restore it from a copy; nothing is decided on a broken ledger")
        return
    if not isinstance(live, RouterError) and flipped_to and live.active != flipped_to:
        decided, served = config.name_of(flipped_to), config.name_of(live.active) or "nothing"
        detail = f"last decided on {decided}, the router serves {served}"
        yield Finding(
            "ledger", "warning", detail, "the route was moved by hand, or the update did not finish: `infercrane up`"
        )
    else:
        yield Finding("ledger", "ok", str(project.place.ledger))


def _processes(project: Project, config: StackConfig) -> Iterator[Finding]:
    """A process of a revision that is no longer declared: an update was killed before it could record it."""
    declared = {f"{config.service}-router", *(f"{spec.name}-{spec.digest[7:15]}" for spec in config.revisions)}
    strangers = []
    for folder in sorted((project.place.root / "processes").glob("[!.]*/")):
        seen = observe(folder)
        if seen is not None and seen.alive and folder.name not in declared:
            strangers.append(folder)
    for folder in strangers:
        detail = f"{folder.name} runs and is not declared ({folder})"
        yield Finding("processes", "warning", detail, "declare it again and retire it with `infercrane up`")
    if not strangers:
        yield Finding("processes", "ok", "nothing runs that is not declared")


def _journal(project: Project) -> Iterator[Finding]:
    path = project.operations / "ops.sqlite"
    if not path.exists():
        yield Finding("journal", "ok", "no operation yet")
        return
    journal = Journal(path)
    try:
        unfinished = journal.unfinished(project.qualified)
    finally:
        journal.close()
    if unfinished:
        detail = f"operation {unfinished.id} ({unfinished.kind}) is {unfinished.state}"
        yield Finding("journal", "warning", detail, "it runs, or its command line died; the next `infercrane up` tells")
    else:
        yield Finding("journal", "ok", "no unfinished operation")
