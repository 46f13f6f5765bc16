"""What a service speaks: every declared protocol passes as it is, nothing else exists."""

import json
from typing import Any

import pytest

from pulumi_infercrane.router.protocol.observer import Outcome
from pulumi_infercrane.router.protocol.paths import PROTOCOLS
from tests.router.client import Client, request
from tests.router.conftest import R1, Running, revision
from tests.router.upstream import Call, Upstream, event, whole

ANSWERS: dict[str, Any] = {
    "chat": {"choices": [{"index": 0, "message": {"content": "hello"}, "finish_reason": "stop"}]},
    "completions": {"choices": [{"index": 0, "text": "hello", "finish_reason": "length"}]},
    "embeddings": {"object": "list", "data": [{"index": 0, "embedding": [0.5]}], "usage": {"prompt_tokens": 3}},
    "responses": {"object": "response", "status": "completed", "error": None, "output": [], "usage": None},
    "tokenize": {"tokens": [1, 2], "count": 2},
    "detokenize": {"prompt": "hello"},
    "score": {"object": "list", "data": [{"index": 0, "object": "score", "score": 1}], "usage": {"prompt_tokens": 3}},
    "rerank": {"results": [{"index": 0, "relevance_score": 0.5}], "usage": {"total_tokens": 3}},
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_declared_protocol_passes_as_it_is(
    router: Running, client: Client, upstream: Upstream, protocol: str
) -> None:
    async def say(call: Call) -> None:
        await call.send(whole(ANSWERS[protocol]))

    upstream.script = say
    await router.put({R1: revision("r1", upstream.url)}, protocols=[protocol])
    answer = await client.ask(request(b'{"x": 1e400, "model":"chat", "y":[]}', path=PROTOCOLS[protocol].decode()))
    assert (answer.status, answer.body) == (200, json.dumps(ANSWERS[protocol]).encode())
    assert upstream.calls[0].head.startswith(b"POST %b HTTP/1.1\r\n" % PROTOCOLS[protocol])
    assert upstream.calls[0].body == b'{"x": 1e400, "model":"org/model", "y":[]}'
    assert await router.outcome() == Outcome.COMPLETE


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_protocol_that_is_not_declared_does_not_exist(
    router: Running, client: Client, upstream: Upstream, protocol: str
) -> None:
    others = [name for name in PROTOCOLS if name != protocol]
    await router.put({R1: revision("r1", upstream.url)}, protocols=others)
    answer = await client.ask(request(b'{"model":"chat"}', path=PROTOCOLS[protocol].decode()))
    assert (answer.status, answer.error, upstream.attempts) == (404, "unsupported_endpoint", 0)


@pytest.mark.parametrize(
    "path",
    [
        "/v1/batches",
        "/v1/chat/completions/batch",
        "/v1/files",
        "/v1/responses/resp_1",
        "/v1/responses/resp_1/cancel",
        "/v1/images/generations",
    ],
)
async def test_batches_files_and_kept_answers_do_not_exist(
    router: Running, client: Client, upstream: Upstream, path: str
) -> None:
    await router.put({R1: revision("r1", upstream.url)}, protocols=list(PROTOCOLS))
    answer = await client.ask(request(b'{"model":"chat"}', path=path))
    assert (answer.status, answer.error, upstream.attempts) == (404, "unsupported_endpoint", 0)


@pytest.mark.parametrize(
    ("last", "outcome"),
    [
        ("response.completed", Outcome.COMPLETE),
        ("response.incomplete", Outcome.COMPLETE),
        ("response.failed", Outcome.ERROR_EVENT),
        ("response.output_text.delta", Outcome.TRUNCATED),
    ],
)
async def test_a_stream_of_responses_is_judged_by_its_last_event(
    router: Running, client: Client, upstream: Upstream, last: str, outcome: Outcome
) -> None:
    kinds = ("response.created", "response.output_text.delta", last)
    events = [f"event: {kind}\n".encode() + event({"type": kind, "delta": "a"}) for kind in kinds]

    async def stream(call: Call) -> None:
        await call.stream(*events)
        await call.send(b"0\r\n\r\n")

    upstream.script = stream
    answer = await client.ask(request(b'{"model":"chat","stream":true}', path="/v1/responses"))
    assert (answer.status, answer.body, answer.whole) == (200, b"".join(events), True)
    assert await router.outcome() == outcome


@pytest.mark.parametrize(
    ("name", "status"), [("chat", 200), ("a%2Fb", 200), ("a/b", 200), ("other", 404), ("chat/", 404), ("%ff", 404)]
)
async def test_one_model_by_its_name(
    router: Running, client: Client, upstream: Upstream, name: str, status: int
) -> None:
    await router.put({R1: revision("r1", upstream.url)}, aliases=["a/b", "chat"])
    answer = await client.ask(f"GET /v1/models/{name} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    assert answer.status == status
    if status == 200:
        assert json.loads(answer.body)["id"] == name.replace("%2F", "/")
    else:
        assert answer.error == "model_not_found"
    assert upstream.attempts == 0


async def test_the_models_are_only_read(router: Running, client: Client) -> None:
    answer = await client.ask(b"DELETE /v1/models/chat HTTP/1.1\r\nHost: a\r\n\r\n")
    assert (answer.status, answer.error, answer.header("allow")) == (405, "method_not_allowed", "GET, HEAD")
