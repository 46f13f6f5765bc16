"""Start and stop one real llama-server on loopback, ready only after it has generated."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx

from pulumi_infercrane.components.supervision.ports import free_port

READY_SECONDS = 10.0
STOP_SECONDS = 10.0
ATTEMPTS_TO_BIND = 3
LOG_TAIL = 2000
UNWANTED_VARIABLES = ("LLAMA_", "VLLM_", "HF_", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


class StartError(Exception):
    """The server ended or stayed silent before it was ready; the message carries the end of its log."""

    code = "start_failed"


@dataclass(frozen=True)
class LlamaServer:
    """A running server: `url` has no path, `model` is the name it serves under."""

    url: str
    model: str
    model_path: Path
    log: Path
    process: subprocess.Popen[bytes]

    def stop(self) -> int:
        """End it politely, then firmly; returns the exit code. Safe to call twice."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()
        return self.process.wait()

    def kill(self) -> int:
        """End it as a crash does."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        return self.process.wait()


def start(
    executable: Path,
    model_path: Path,
    log: Path,
    *,
    model: str = "chat",
    context: int = 2048,
    parallel: int = 2,
    threads: int = 1,
    generates: bool = True,
    extra: Sequence[str] = (),
) -> LlamaServer:
    """Start a server and wait until it is ready; `context` is the total over the `parallel` slots.

    `generates=False` skips the readiness generation, for servers that look healthy and are not.
    Raises StartError.
    """
    settings = ["-c", str(context), "--parallel", str(parallel), "--threads", str(threads), "--cache-ram", "0"]
    fixed = ["--fit", "off", "--metrics", "--no-webui", *extra]
    for _ in range(ATTEMPTS_TO_BIND):
        port = free_port()
        place = ["-m", str(model_path), "--alias", model, "--host", "127.0.0.1", "--port", str(port)]
        process = _spawn([str(executable), *place, *settings, *fixed], log)
        server = LlamaServer(f"http://127.0.0.1:{port}", model, model_path, log, process)
        if _becomes_ready(server, generates):
            return server
        if "couldn't bind" not in _tail(log):
            break
    raise StartError(f"llama-server exited with {process.returncode} before it was ready:\n{_tail(log)}")


def _spawn(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as sink:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=_clean(os.environ),
        )


def _clean(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if not name.upper().startswith(UNWANTED_VARIABLES)}


def _becomes_ready(server: LlamaServer, generates: bool) -> bool:
    """True when ready, False when the process ended; StartError at the deadline."""
    deadline = time.monotonic() + READY_SECONDS
    with httpx.Client(base_url=server.url, trust_env=False, timeout=READY_SECONDS) as client:
        while time.monotonic() < deadline:
            if server.process.poll() is not None:
                return False
            if _is_ready(client, server.model, generates):
                return True
            time.sleep(0.05)
    server.kill()
    raise StartError(f"llama-server was not ready within {READY_SECONDS:.0f} s:\n{_tail(server.log)}")


def _is_ready(client: httpx.Client, model: str, generates: bool) -> bool:
    try:
        if client.get("/health").status_code != 200:
            return False
        names = [entry["id"] for entry in client.get("/v1/models").json()["data"]]
        return model in names and (not generates or _generates(client, model))
    except httpx.TransportError:
        return False


def _generates(client: httpx.Client, model: str) -> bool:
    messages = [{"role": "user", "content": "hello"}]
    answer = client.post(
        "/v1/chat/completions", json={"model": model, "messages": messages, "max_tokens": 2, "temperature": 0}
    )
    return answer.status_code == 200 and answer.json()["choices"][0]["finish_reason"] in ("stop", "length")


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-LOG_TAIL:]
