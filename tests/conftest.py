"""Fixtures of real parts, shared by all rooms."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.runtimes import llama
from tests.runtimes.downloads import PrepareError
from tests.runtimes.prepare import prepare

# The same examples in every run, and none refused because a machine is busy.
settings.register_profile(
    "repeatable",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.load_profile("repeatable")

# What a shell runs in the background ignores Ctrl-C, and so does everything it starts; here Ctrl-C is sent.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

StartLlama = Callable[..., llama.LlamaServer]


@pytest.fixture(scope="session")
def runtimes() -> dict[str, Any]:
    """The manifest of the model server and the tiny models: {"server": {path, sha256, …}, "models": {name: …}}."""
    try:
        return prepare(tiny=True)
    except PrepareError as error:
        pytest.fail(f"the real model server cannot be had: {error}", pytrace=False)


@pytest.fixture(scope="session")
def llama_server(runtimes: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartLlama]:
    """A factory of running servers: `llama_server("tiny-a", parallel=2, …)`; all are stopped at the end.

    The first argument is a model name of the manifest or a path; the others are those of `llama.start`.
    """
    folder = tmp_path_factory.mktemp("llama-server")
    running: list[llama.LlamaServer] = []

    def start(model: str | Path = "tiny-a", **settings: Any) -> llama.LlamaServer:
        path = model if isinstance(model, Path) else Path(runtimes["models"][model]["path"])
        log = folder / f"{len(running)}-{path.stem}.log"
        running.append(llama.start(Path(runtimes["server"]["path"]), path, log, **settings))
        return running[-1]

    yield start
    for server in running:
        server.stop()
