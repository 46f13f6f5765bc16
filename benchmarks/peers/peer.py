"""A data plane of others, from a package: how it is started in front of a model server."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.processes import running, start
from tests.engine.engine import cache_folder


@dataclass(frozen=True)
class Place:
    """What a peer is started with. `silence_s` is how long the model server may be silent, where it has such timers."""

    upstream: str
    """The URL of the model server. It answers as the model `chat`."""
    port: int
    folder: Path
    """Of its own, empty."""
    silence_s: float


@dataclass(frozen=True)
class Peer:
    """`command` writes what it needs into its folder. It may download, and raises what `UNAVAILABLE` names."""

    command: Callable[[Place], list[str]]
    version: Callable[[], str]
    headers: tuple[str, ...] = ()
    """What every client sends."""
    slow: bool = False
    """A thousand streams are out of its reach."""


@contextmanager
def serving(peer: Peer, place: Place, cores: Sequence[int]) -> Iterator[subprocess.Popen[bytes]]:
    """It runs, but need not listen yet; what it says is in the file `log`."""
    settings = {"UPSTREAM": place.upstream, "SILENCE_S": str(place.silence_s), "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    with (place.folder / "log").open("wb") as log:
        process = start(peer.command(place), cores, log, {**_without_proxies(), **settings})
    with running(process):
        yield process


def _without_proxies() -> Mapping[str, str]:
    """A proxy variable would capture what goes to loopback."""
    return {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}


def installed(requirement: str) -> Path:
    """The scripts of its environment, made once in the cache.

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
    return place / "bin"


def pinned(requirement: str) -> Callable[[], str]:
    """The versions that a requirement names."""
    versions = ", ".join(re.findall(r"==([\d.]+)", requirement))
    return lambda: versions


def said(program: str | Path, argument: str) -> str:
    """The version a program says it is."""
    done = subprocess.run([program, argument], capture_output=True, text=True, check=False)
    found = re.search(r"\d+\.\d+\.\d+", done.stdout + done.stderr)
    return found[0] if found else "?"
