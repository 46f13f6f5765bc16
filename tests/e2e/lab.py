"""A service on real parts for one test: the real engine, the real router, real model servers with tiny models."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import yaml

from pulumi_infercrane.components.place import Place
from pulumi_infercrane.components.supervision.ports import free_port
from pulumi_infercrane.components.supervision.stopping import stop_all
from tests.engine.engine import Engine

STACK = "dev"
SERVICE = "chat"
TIMEOUT_S = 180
POLICY = """\
schema: infercrane.policy/v1
service: chat
bootstrap: true
required_kinds: [benchmark]
min_duration_s: 0
rules:
  - {id: benchmark.error_fraction, class: H, limit: 0.1}
"""


@dataclass(frozen=True)
class Answer:
    """What a command came to."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        parsed: dict[str, Any] = json.loads(self.out)
        return parsed

    @property
    def text(self) -> str:
        return self.out + self.err


@dataclass
class Lab:
    """A project with one stack; `close` ends every process and removes every file."""

    engine: Engine
    runtimes: Mapping[str, Any]
    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="ic-")))
    port: int = 0
    router: Mapping[str, Any] = field(default_factory=dict)
    """What its router is started with, besides its address."""

    def __post_init__(self) -> None:
        self.port = free_port()
        self.project = self.folder / "project"
        self.project.mkdir()
        (self.project / "Pulumi.yaml").write_text(
            yaml.safe_dump({"name": "lab", "runtime": {"name": "python", "options": {"virtualenv": sys.prefix}}})
        )
        (self.project / "__main__.py").write_text("from pulumi_infercrane.stacks.program import main\n\nmain()\n")
        (self.project / "policy.yaml").write_text(POLICY)
        self.environment = self.engine.environment(self.folder / "home", self.folder / "backend") | {
            "INFERCRANE_STATE_DIR": str(self.folder / "s"),
        }
        self.pulumi("stack", "init", STACK)

    @property
    def place(self) -> Place:
        return Place(self.folder / "s" / f"{STACK}@lab")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def evidence(self) -> Path:
        return self.project / "evidence"

    def revision(self, model: str = "tiny-a", **changes: Any) -> dict[str, Any]:
        """A revision of a tiny model; `changes` go into its settings."""
        server, weights = self.runtimes["server"], self.runtimes["models"][model]
        settings = {"max_context_len": 512, "max_concurrency": 2, "threads": 1} | changes
        return {
            "model": {"path": weights["path"], "sha256": weights["sha256"]},
            "runtime": {
                "engine": "llama.cpp",
                "version": server["version"],
                "executable": server["path"],
                "sha256": server["sha256"],
                "settings": settings,
            },
        }

    def declare(self, revisions: Mapping[str, Any], candidate: str | None = None, **more: Any) -> None:
        """Write the stack's settings, as a user would edit them. `more` are keys without their namespace."""
        file = self.project / f"Pulumi.{STACK}.yaml"
        kept = (yaml.safe_load(file.read_text()) or {}) if file.exists() else {}
        values = {
            "service": SERVICE,
            "revisions": dict(revisions),
            "router": {"listen": f"127.0.0.1:{self.port}", "drainS": 2.0, **self.router},
            **({"candidate": candidate} if candidate else {}),
            **more,
        }
        config = {f"infercrane:{key}": value for key, value in values.items() if value is not None}
        file.write_text(yaml.safe_dump(kept | {"config": config}, sort_keys=False))

    def infercrane(self, *arguments: str, code: int | None = 0, **environment: str) -> Answer:
        """Run the command line; `code` is the exit code that must come out, None for any."""
        command = [*self._command(arguments)]
        done = subprocess.run(
            command,
            env=self.environment | environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        answer = Answer(done.returncode, done.stdout, done.stderr)
        if code is not None and answer.code != code:
            raise AssertionError(f"infercrane {' '.join(arguments)} ended with {answer.code}:\n{answer.text}")
        return answer

    def guard(self, *arguments: str) -> Answer:
        """The guard's own commands know no project."""
        command = [sys.executable, "-m", "pulumi_infercrane", *arguments]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)
        return Answer(done.returncode, done.stdout, done.stderr)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start the command line and leave it to the test."""
        pipe = subprocess.PIPE
        return subprocess.Popen(self._command(arguments), env=self.environment, stdout=pipe, stderr=pipe, text=True)

    def up(self, code: int | None = 0) -> dict[str, Any]:
        return self.infercrane("up", "--json", "-s", STACK, code=code).document

    def status(self) -> dict[str, Any]:
        return self.infercrane("release", "status", "--json", "-s", STACK).document

    def collect(self, requests: int = 40, signing_key: Path | None = None) -> None:
        """Measure the candidate and the active revision."""
        signing = ["--sign-with", str(signing_key)] if signing_key else []
        self.infercrane("collect", "-s", STACK, "--kind", "benchmark", "--requests", str(requests), *signing)

    def measured(self, signing_key: Path | None = None) -> dict[str, Any]:
        """r1 serves, r2 runs beside it and was measured: everything a promotion needs."""
        revisions = {"r1": self.revision(), "r2": self.revision(max_concurrency=4)}
        self.declare({"r1": revisions["r1"]})
        self.up()
        self.declare(revisions, "r2")
        self.up(code=4)
        self.collect(signing_key=signing_key)
        return revisions

    def promoted(self) -> dict[str, Any]:
        """r1 serves, r2 was measured and took over: the state most stories begin in."""
        revisions = self.measured()
        self.up()
        return revisions

    def pulumi(self, *arguments: str, code: int | None = 0, **environment: str) -> Answer:
        program = shutil.which("pulumi", path=self.environment["PATH"])
        assert program
        done = subprocess.run(
            [program, *arguments, "--non-interactive", "--color", "never"],
            cwd=self.project,
            env=self.environment | environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        if code is not None and done.returncode != code:
            raise AssertionError(
                f"pulumi {' '.join(arguments)} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
            )
        return Answer(done.returncode, done.stdout, done.stderr)

    def control(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        """Talk to the router's control listener directly, as somebody in the night would."""
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(self.place.control)), trust_env=False) as client:
            return client.request(method, f"http://router{path}", json=body, headers=headers)

    def chat(self, **more: Any) -> httpx.Response:
        """One answer through the stable address."""
        body = {"model": SERVICE, "max_tokens": 8, "messages": [{"role": "user", "content": "the model"}]} | more
        with httpx.Client(trust_env=False, timeout=30) as client:
            return client.post(f"{self.url}/chat/completions", json=body)

    def served_by(self) -> str:
        """Name of the revision that answers."""
        answer = self.chat()
        assert answer.status_code == 200, answer.text
        digest = answer.headers["x-infercrane-revision"]
        return next(name for name, revision in self.status()["revisions"].items() if revision["digest"] == digest)

    def processes(self) -> set[int]:
        """Every process that was started for this lab: it names the lab's folder, or runs in it."""
        mine = str(self.folder)
        running = [entry for entry in Path("/proc").glob("[0-9]*") if int(entry.name) != os.getpid()]
        return {int(entry.name) for entry in running if mine in _command_line(entry) or mine in _working_folder(entry)}

    def servers(self) -> list[int]:
        """The model servers among them."""
        return [pid for pid in self.processes() if "--model" in _command_line(Path(f"/proc/{pid}"))]

    def close(self) -> None:
        for place in (self.folder / "s").glob("*@*"):
            stop_all(place)
        for pid in self.processes():
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.folder)

    def _command(self, arguments: tuple[str, ...]) -> list[str]:
        return [sys.executable, "-m", "pulumi_infercrane", *arguments, "-C", str(self.project)]


@contextmanager
def taken_port() -> Iterator[int]:
    """A port somebody else listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def _command_line(process: Path) -> str:
    try:
        return (process / "cmdline").read_text(errors="replace")
    except OSError:
        return ""


def _working_folder(process: Path) -> str:
    try:
        return str((process / "cwd").readlink())
    except OSError:
        return ""
