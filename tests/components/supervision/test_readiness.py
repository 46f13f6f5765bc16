"""What a server says of itself is read whatever it is: one that talks nonsense is not ready."""

from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from pulumi_infercrane.components.supervision import readiness
from pulumi_infercrane.components.supervision.readiness import Probe

GOOD = {"/health": {}, "/models": {"data": [{"id": "tiny"}]}, "/chat": {"choices": [{"finish_reason": "stop"}]}}


async def stage(monkeypatch: pytest.MonkeyPatch, answers: Mapping[str, Any]) -> str:
    """How far a server gets that gives these answers; empty when it is ready."""

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json=answers[request.url.path])

    monkeypatch.setattr(httpx, "AsyncHTTPTransport", lambda uds: httpx.MockTransport(answer))
    probe = Probe("http://server", "/health", model="tiny", models_path="/models", generation_path="/chat")
    problem = await readiness.problem(probe)
    return problem.stage if problem else ""


async def test_a_server_that_does_as_it_should_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await stage(monkeypatch, GOOD) == ""


@pytest.mark.parametrize("data", [None, 5, "tiny", {"id": "tiny"}, ["tiny"], [[]]])
async def test_a_list_of_models_that_is_none_names_none(monkeypatch: pytest.MonkeyPatch, data: Any) -> None:
    assert await stage(monkeypatch, GOOD | {"/models": {"data": data}}) == "models"


@pytest.mark.parametrize("choices", [None, 5, "no", {"0": {}}, [], ["stop"], [[]], [{"finish_reason": {}}]])
async def test_an_answer_without_a_choice_is_none(monkeypatch: pytest.MonkeyPatch, choices: Any) -> None:
    assert await stage(monkeypatch, GOOD | {"/chat": {"choices": choices}}) == "generation"
