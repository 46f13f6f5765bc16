"""The real server: ready after a generation, honest when it cannot start, gone after the test."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.runtimes import llama, models
from tests.runtimes.llama import LlamaServer, StartError

pytestmark = pytest.mark.runtime
Start = Callable[..., LlamaServer]


def ask(server: LlamaServer, prompt: str) -> httpx.Response:
    body = {"model": server.model, "messages": [{"role": "user", "content": prompt}], "max_tokens": 8, "temperature": 0}
    return httpx.post(f"{server.url}/v1/chat/completions", json=body, trust_env=False)


def text(server: LlamaServer) -> str:
    content: str = ask(server, "the model").json()["choices"][0]["message"]["content"]
    return content


def test_greedy_text_belongs_to_the_weights(llama_server: Start) -> None:
    assert text(llama_server("tiny-a")) == text(llama_server("tiny-a", parallel=1)) != text(llama_server("tiny-b"))


def test_quantised_weights_run_on_this_processor(llama_server: Start, runtimes: dict[str, Any], tmp_path: Path) -> None:
    for quantization in ("Q8_0", "Q4_1"):
        path = tmp_path / f"{quantization}.gguf"
        models.write_variant(path, Path(runtimes["models"]["tiny-a"]["path"]), quantization=quantization)
        assert text(llama_server(path))


def test_corrupt_model_fails_with_the_log(llama_server: Start) -> None:
    with pytest.raises(StartError, match=r"exited with 1 before it was ready:(.|\n)*tiny-corrupt"):
        llama_server("tiny-corrupt")


def test_healthy_looking_model_answers_500(llama_server: Start) -> None:
    server = llama_server("tiny-answers-500", generates=False)
    assert httpx.get(f"{server.url}/health", trust_env=False).status_code == 200
    assert ask(server, "the model").status_code == 500


def test_stop_ends_the_process(runtimes: dict[str, Any], tmp_path: Path) -> None:
    model = Path(runtimes["models"]["tiny-a"]["path"])
    server = llama.start(Path(runtimes["server"]["path"]), model, tmp_path / "log")
    assert server.stop() == 0
    with pytest.raises(httpx.ConnectError):
        ask(server, "the")
