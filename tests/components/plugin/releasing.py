"""A Release against a real router, and what the engine keeps between its calls."""

import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pulumi_infercrane.components.plugin.resource import (
    CheckRequest,
    Context,
    CreateRequest,
    DiffRequest,
    ReadRequest,
    UpdateRequest,
)
from pulumi_infercrane.components.plugin.resources.release import Release
from pulumi_infercrane.components.plugin.resources.route import Route
from pulumi_infercrane.guard import reference_folder
from pulumi_infercrane.router.control.client import ControlClient
from tests.guard.conftest import POLICY, Folder

URN = "urn:pulumi:dev::lab::infercrane:index:Release::chat"
SERVE = [sys.executable, "-m", "pulumi_infercrane", "router", "serve", "--listen", "127.0.0.1:0"]


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder with a path short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="ic-") as folder:
        yield Path(folder)


def answers(path: Path) -> bool:
    """Whether somebody accepts connections; the file is there a moment earlier."""
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


@pytest.fixture
def router(short: Path) -> Iterator[Path]:
    """Control socket of a running router."""
    control = short / "router.sock"
    process = subprocess.Popen([*SERVE, "--control", str(control), "--state", str(short / "state")])
    deadline = time.monotonic() + 15
    while not answers(control):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    yield control
    process.terminate()
    process.wait()


@dataclass
class Run:
    """What the engine keeps between its calls, and the calls in its order."""

    control: Path
    folder: Path
    evidence: Folder
    release: Release = field(default_factory=Release)
    inputs: dict[str, Any] = field(default_factory=dict)
    outputs: dict[str, Any] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    policy: str = ""
    """What the policy says beside the usual."""

    @property
    def context(self) -> Context:
        async def log(severity: str, message: str, urn: str = "") -> None:
            self.said.append(f"{severity}: {message}")

        return Context(log=log, root_directory=self.folder)

    def declared(self, **changes: Any) -> dict[str, Any]:
        r1, r2 = self.evidence.baseline, self.evidence.candidate
        folder = self.evidence.root
        references = reference_folder(folder) if folder.is_dir() else ()
        news = {
            "service": "chat",
            "stack": "lab/dev",
            "candidate": r1,
            "revisions": [r1, r2],
            "initialActive": r1,
            "route": {"control": str(self.control)},
            "policy": {"source": "policy.yaml", "text": "bootstrap: true\n" + POLICY + self.policy},
            "evidence": [{"path": one.path, "sha256": one.sha256} for one in references],
            "evidenceFolder": str(folder),
            "ledger": str(self.folder / "ledger.jsonl"),
            "windows": str(self.folder / "windows"),
            "asOf": "2026-11-30T05:00:00Z",
        }
        return news | changes

    async def route(self) -> None:
        """Tell the router about both revisions, as the Route resource does."""
        route = Route()
        inputs = route_inputs(self.control, self.evidence.baseline, self.evidence.candidate)
        await route.create(CreateRequest(self.context, URN, "chat", inputs, preview=False, timeout_s=0))

    async def check(self, **changes: Any) -> dict[str, Any]:
        request = CheckRequest(
            self.context, URN, "chat", self.inputs or None, self.outputs or None, self.declared(**changes)
        )
        result = await self.release.check(request)
        assert not result.failures, result.failures
        return dict(result.inputs)

    async def problems(self, **changes: Any) -> list[tuple[str, str]]:
        request = CheckRequest(
            self.context, URN, "chat", self.inputs or None, self.outputs or None, self.declared(**changes)
        )
        return list((await self.release.check(request)).failures)

    async def create(self, **changes: Any) -> None:
        inputs = await self.check(**changes)
        made = await self.release.create(CreateRequest(self.context, URN, "chat", inputs, preview=False, timeout_s=0))
        assert made.id == "release/chat"
        self.inputs, self.outputs = inputs, dict(made.outputs)

    async def changed(self, inputs: dict[str, Any]) -> list[str]:
        request = DiffRequest(self.context, "release/chat", URN, self.inputs, self.outputs, inputs)
        return list((await self.release.diff(request)).changed)

    async def update(self, inputs: dict[str, Any], preview: bool = False) -> None:
        request = UpdateRequest(
            self.context, "release/chat", URN, self.inputs, self.outputs, inputs, preview=preview, timeout_s=0
        )
        outputs = dict((await self.release.update(request)).outputs)
        if not preview:
            self.inputs, self.outputs = inputs, outputs

    async def refresh(self) -> None:
        read = await self.release.read(ReadRequest(self.context, "release/chat", URN, self.inputs, self.outputs))
        assert read.id == "release/chat"
        self.inputs, self.outputs = dict(read.inputs), dict(read.outputs)

    async def served(self) -> str:
        async with ControlClient(self.control) as client:
            return (await client.get("chat")).active


def route_inputs(control: Path, *digests: str) -> dict[str, Any]:
    revisions = [
        {
            "digest": digest,
            "label": f"r{number}",
            "model": "chat",
            "dialect": "llama.cpp",
            "urls": [f"http://127.0.0.1:{number}"],
        }
        for number, digest in enumerate(digests, start=1)
    ]
    return {
        "control": str(control),
        "service": "chat",
        "aliases": ["chat"],
        "protocols": ["chat"],
        "revisions": revisions,
        "drainS": 1,
    }


@pytest.fixture
async def run(router: Path, tmp_path: Path) -> Run:
    """Both revisions are known to the router, none serves."""
    run = Run(router, tmp_path, Folder(tmp_path / "evidence"))
    await run.route()
    return run
