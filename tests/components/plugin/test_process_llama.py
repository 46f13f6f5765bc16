"""Process with a real llama-server: ready only after a generation, failures by their cause."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest

from pulumi_infercrane.components.plugin import wire
from pulumi_infercrane.components.runtimes import Launch
from pulumi_infercrane.components.runtimes.llama_cpp import RUNTIME
from pulumi_infercrane.components.supervision.observing import observe

pytestmark = pytest.mark.runtime
URN = "urn:pulumi:dev::proj::infercrane:index:Process::llama"


@pytest.fixture
def inputs(place: Path, runtimes: dict[str, Any]) -> Callable[..., dict[str, Any]]:
    """Inputs for a llama-server with a model of the manifest, or a path."""

    def make(model: str, **settings: Any) -> dict[str, Any]:
        path = runtimes["models"][model]["path"] if model in runtimes["models"] else model
        launch = Launch(runtimes["server"]["path"], path, "chat")
        chosen = RUNTIME.parse_settings({"max_context_len": 512} | settings)
        return {
            "name": "llama",
            "place": str(place),
            "argv": list(RUNTIME.command(launch, chosen, [])),
            "runtime": "llama.cpp",
            "readiness": {"model": "chat"},
        }

    return make


def test_it_answers_as_soon_as_create_returns(provider: Any, inputs: Any) -> None:
    created = provider.create(URN, provider.checked(URN, inputs("tiny-a", max_concurrency=3)))
    url = wire.decode(created.properties)["url"]
    answer = httpx.post(f"{url}/v1/completions", json={"prompt": "the", "max_tokens": 2}, trust_env=False)
    assert answer.json()["choices"][0]["finish_reason"] == "length"
    listed = httpx.get(f"{url}/v1/models", trust_env=False).json()["data"][0]
    assert (listed["id"], listed["meta"]["n_ctx"]) == ("chat", 512)


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ("tiny-corrupt", "model_corrupt"),
        ("/nowhere/model.gguf", "model_path_missing"),
        (__file__, "model_corrupt"),
        ("tiny-answers-500", "generation_failed"),
    ],
)
def test_a_failed_start_names_its_cause_and_leaves_nothing(
    provider: Any, inputs: Any, partial_failure: Any, model: str, reason: str
) -> None:
    for _ in range(3):
        with pytest.raises(grpc.RpcError) as caught:
            provider.create(URN, provider.checked(URN, inputs(model)))
        detail = partial_failure(caught.value)
        if detail.reasons[0].startswith(reason) or "exiting due to" in detail.reasons[1]:
            break  # else the server's logger, a thread, did not get to its last lines: it said nothing about the cause
    assert detail.reasons[0].startswith(f"{reason}: llama: ")
    assert "last log lines" in detail.reasons[1]
    assert not observe(Path(detail.id)).alive


def test_a_flag_this_build_does_not_know_is_the_cause(provider: Any, inputs: Any, partial_failure: Any) -> None:
    asked = inputs("tiny-a")
    with pytest.raises(grpc.RpcError) as caught:
        provider.create(URN, provider.checked(URN, asked | {"argv": [*asked["argv"], "--frobnicate"]}))
    assert partial_failure(caught.value).reasons[0].startswith("unknown_engine_flag")
