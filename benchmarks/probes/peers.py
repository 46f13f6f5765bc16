"""Data planes in front of one model server: ours, the proxies we export to, and routers from the package index.

Each is set up as carefully as we know how: no retries, no buffering, timers of `SILENCE_S` where it has such timers.
The proxies run what `infercrane router export` writes. Routers live in environments of their own in the cache.
"""

import asyncio
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from pulumi_infercrane.components.supervision.ports import free_port
from pulumi_infercrane.router import Flip
from pulumi_infercrane.router.export._deliver import deliver
from pulumi_infercrane.router.export._place import read_place
from tests.engine.engine import cache_folder
from tests.router.conftest import R1, RouterProcess, declared, revision
from tests.router.export.conftest import table_of
from tests.router.export.proxies import prepare, running
from tests.router.probes.streams import SILENCE_S

TIMERS = {"first_byte_s": SILENCE_S, "gap_s": SILENCE_S, "client_stall_s": 5}
STOP_S = 10
LITELLM_KEY = "sk-probes-0123456789abcdef0123456789abcdef"

Runs = contextlib.AbstractContextManager[int]
"""Started on entering; the port it listens on."""


@dataclass(frozen=True)
class Peer:
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


def packaged(requirement: str, command: Callable[[Path, str, int, Path], list[str]]) -> Callable[[str, Path], Runs]:
    """A program of the package index. `command` takes its environment, the URL, the port and the folder."""

    @contextlib.contextmanager
    def start(url: str, folder: Path) -> Iterator[int]:
        environment, port = installed(requirement), free_port()
        settings = {"UPSTREAM": url, "SILENCE_S": str(SILENCE_S), "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                command(environment / "bin", url, port, folder),
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=_clean() | settings,
                start_new_session=True,
            )
        try:
            yield port
        finally:
            process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    return start


def installed(requirement: str) -> Path:
    """Its environment, made once.

    Raises:
        subprocess.CalledProcessError: it cannot be installed here.
    """
    place = cache_folder() / "peers" / re.sub(r"\W+", "-", requirement)
    if not (place / "ready").exists():
        uv = shutil.which("uv") or cache_folder() / "uv" / "bin" / "uv"
        subprocess.run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, place], check=True)
        into = ["--python", place / "bin" / "python"]
        subprocess.run([uv, "pip", "install", "--quiet", *into, *requirement.split()], check=True)
        (place / "ready").touch()
    return place


def _clean() -> Mapping[str, str]:
    """A proxy variable would capture what goes to loopback."""
    return {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}


def _router(*program: str) -> Callable[[Path, str, int, Path], list[str]]:
    def command(scripts: Path, url: str, port: int, folder: Path) -> list[str]:
        place = ["--host", "127.0.0.1", "--port", str(port), "--prometheus-port", str(free_port())]
        behind = ["--worker-urls", url, "--policy", "round_robin", "--worker-startup-check-interval", "1"]
        care = ["--disable-retries", "--disable-circuit-breaker", "--log-level", "error"]
        return [str(scripts / program[0]), *program[1:], *place, *behind, *care]

    return command


def _litellm(scripts: Path, url: str, port: int, folder: Path) -> list[str]:
    parameters = {"model": "openai/chat", "api_base": f"{url}/v1", "api_key": "sk-upstream", "timeout": SILENCE_S}
    settings = {
        "model_list": [{"model_name": "chat", "litellm_params": {**parameters, "stream_timeout": SILENCE_S}}],
        "general_settings": {"master_key": LITELLM_KEY},
        "litellm_settings": {"telemetry": False, "num_retries": 0, "max_retries": 0},
        "router_settings": {"num_retries": 0, "disable_cooldowns": True},
    }
    path = folder / "litellm.yaml"
    path.write_text(json.dumps(settings))
    return [str(scripts / "litellm"), "--config", str(path), "--host", "127.0.0.1", "--port", str(port)]


def _starlette(scripts: Path, url: str, port: int, folder: Path) -> list[str]:
    app = ["starlette_proxy:app", "--app-dir", str(Path(__file__).parent)]
    return [str(scripts / "uvicorn"), *app, "--host", "127.0.0.1", "--port", str(port), "--no-access-log"]


def _said(*command: str, pattern: str = r"\d+\.\d+\.\d+") -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(pattern, done.stdout + done.stderr)
    return found[0] if found else "?"


def _pinned(requirement: str) -> Callable[[], str]:
    versions = ", ".join(re.findall(r"==([\d.]+)", requirement))
    return lambda: versions


STARLETTE = "starlette==1.10.0 httpx==0.28.1 uvicorn==0.54.0 uvloop httptools"
VLLM, SGLANG, LITELLM = "vllm-router==0.1.17", "sglang-router==0.3.2", "litellm[proxy]==1.108.7"

PEERS: Mapping[str, Peer] = MappingProxyType(
    {
        "ours": Peer(ours, lambda: ""),
        "nginx": Peer(exported("nginx"), lambda: _said(str(prepare("nginx")), "-v")),
        "haproxy": Peer(exported("haproxy"), lambda: _said(str(prepare("haproxy")), "-v")),
        "envoy": Peer(exported("envoy"), lambda: _said(str(prepare("envoy")), "--version")),
        "vllm-router": Peer(packaged(VLLM, _router("vllm-router")), _pinned(VLLM)),
        "sglang-router": Peer(packaged(SGLANG, _router("sglang-router", "launch")), _pinned(SGLANG)),
        "litellm": Peer(packaged(LITELLM, _litellm), _pinned(LITELLM), (f"Authorization: Bearer {LITELLM_KEY}",)),
        "starlette + httpx": Peer(packaged(STARLETTE, _starlette), _pinned(STARLETTE)),
    }
)
