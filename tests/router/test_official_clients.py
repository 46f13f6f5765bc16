"""The official OpenAI clients for Python and JavaScript, through the router, with a real llama-server behind it."""

import asyncio
import json
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from pulumi_infercrane.router.protocol.observer import Outcome
from tests.engine.engine import cache_folder
from tests.router.conftest import R1, R2, Running, StartRouter, eventually, revision
from tests.runtimes.downloads import replacing
from tests.runtimes.llama import LlamaServer

pytestmark = pytest.mark.runtime

JAVASCRIPT = "7.59.0"
LONG = 60_000
"""Tokens: the tiny model writes thousands a second."""
ENDLESS: Any = {"max_tokens": LONG, "extra_body": {"ignore_eos": True}}
HELLO: Any = [{"role": "user", "content": "the model"}]
PROTOCOLS = ["chat", "completions", "embeddings", "responses", "tokenize"]


@pytest.fixture
def llama(llama_server: Callable[..., LlamaServer]) -> LlamaServer:
    return llama_server("tiny-a", context=LONG, parallel=1)


@pytest.fixture
async def serving(start_router: StartRouter, llama: LlamaServer) -> Running:
    """`chat` by a llama-server that knows another name."""
    router = await start_router()
    await router.put({R1: revision("r1", llama.url, model=llama.model)}, aliases=["alias"], protocols=PROTOCOLS)
    await router.flip(R1)
    return router


@pytest.fixture
async def client(serving: Running) -> AsyncIterator[openai.AsyncOpenAI]:
    """With a key of its own."""
    async with speaking(serving.port, await serving.key()) as client:
        yield client


def speaking(port: int, key: str) -> openai.AsyncOpenAI:
    plain = openai.DefaultAsyncHttpxClient(trust_env=False)
    base = f"http://127.0.0.1:{port}/v1"
    return openai.AsyncOpenAI(base_url=base, api_key=key, max_retries=0, http_client=plain)


async def test_chat(client: openai.AsyncOpenAI, serving: Running) -> None:
    raw = await client.chat.completions.with_raw_response.create(
        model="alias", messages=HELLO, max_tokens=8, extra_headers={"X-Request-Id": "mine"}
    )
    answer = raw.parse()
    assert answer.choices[0].message.content
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 8
    assert (raw.headers["x-request-id"], raw.headers["x-infercrane-revision"]) == ("mine", R1)
    assert await serving.outcome() == Outcome.COMPLETE


async def test_a_chat_stream_with_usage(client: openai.AsyncOpenAI, serving: Running) -> None:
    stream = await client.chat.completions.create(
        model="alias", messages=HELLO, max_tokens=8, stream=True, stream_options={"include_usage": True}
    )
    events = [event async for event in stream]
    assert "".join(event.choices[0].delta.content or "" for event in events if event.choices)
    assert events[-1].usage is not None
    assert events[-1].usage.completion_tokens == 8
    assert await serving.outcome() == Outcome.COMPLETE
    assert serving.traffic().tokens["completion", "usage"] == 8


async def test_completions(client: openai.AsyncOpenAI) -> None:
    whole = await client.completions.create(model="alias", prompt="the model", max_tokens=8, temperature=0)
    stream = await client.completions.create(
        model="alias", prompt="the model", max_tokens=8, temperature=0, stream=True
    )
    assert "".join([event.choices[0].text async for event in stream]) == whole.choices[0].text != ""


async def test_responses(client: openai.AsyncOpenAI, serving: Running) -> None:
    answer = await client.responses.create(model="alias", input="the model", max_output_tokens=8)
    assert answer.output_text
    kinds = [
        event.type
        async for event in await client.responses.create(
            model="alias", input="the model", max_output_tokens=8, stream=True
        )
    ]
    assert kinds[0] == "response.created"
    assert kinds[-1] in ("response.completed", "response.incomplete")
    await eventually(lambda: serving.outcomes() == {Outcome.COMPLETE: 2})


async def test_embeddings(
    client: openai.AsyncOpenAI, serving: Running, llama: LlamaServer, llama_server: Callable[..., LlamaServer]
) -> None:
    embedding = llama_server("tiny-a", generates=False, extra=("--embeddings", "--pooling", "mean"))
    both = {R1: revision("r1", llama.url, model=llama.model), R2: revision("r2", embedding.url, model=embedding.model)}
    await serving.put(both, aliases=["alias"], protocols=PROTOCOLS)
    await serving.flip(R2)
    found = await client.embeddings.create(model="alias", input=["the model", "another"])
    assert len(found.data) == 2
    assert len(found.data[0].embedding) == len(found.data[1].embedding) > 0
    assert serving.outcomes(R2) == {Outcome.COMPLETE: 1}


async def test_models(client: openai.AsyncOpenAI) -> None:
    assert [model.id async for model in client.models.list()] == ["alias"]
    assert (await client.models.retrieve("alias")).id == "alias"


async def test_errors_are_those_the_client_knows(client: openai.AsyncOpenAI, serving: Running) -> None:
    with pytest.raises(openai.NotFoundError) as unknown:
        await client.chat.completions.create(model="other", messages=HELLO)
    assert unknown.value.code == "model_not_found"
    with pytest.raises(openai.NotFoundError) as undeclared:
        await client.batches.list()
    assert undeclared.value.code == "unsupported_endpoint"
    with pytest.raises(openai.BadRequestError) as long:
        await client.completions.create(model="alias", prompt="the model " * LONG)
    assert long.value.response.headers.get("x-infercrane-error") is None, "the engine's own words"
    async with speaking(serving.port, "wrong") as stranger:
        with pytest.raises(openai.AuthenticationError):
            await stranger.chat.completions.create(model="alias", messages=HELLO)


async def test_a_server_that_is_gone(client: openai.AsyncOpenAI, serving: Running, llama: LlamaServer) -> None:
    llama.kill()
    with pytest.raises(openai.InternalServerError) as gone:
        await client.chat.completions.create(model="alias", messages=HELLO)
    assert (gone.value.status_code, gone.value.code) == (503, "connect_failed")


async def test_a_server_that_dies_in_mid_stream(
    client: openai.AsyncOpenAI, serving: Running, llama: LlamaServer
) -> None:
    stream = await client.chat.completions.create(model="alias", messages=HELLO, stream=True, **ENDLESS)
    with pytest.raises(Exception, match=r"incomplete|peer closed|Connection") as cut:
        async for _ in stream:
            llama.kill()
    assert type(cut.value).__name__ in ("APIConnectionError", "RemoteProtocolError")
    assert await serving.outcome() == Outcome.TRUNCATED


async def test_a_stream_that_is_cancelled_stops_the_generation(
    client: openai.AsyncOpenAI, serving: Running, llama: LlamaServer
) -> None:
    stream = await client.chat.completions.create(model="alias", messages=HELLO, stream=True, **ENDLESS)
    async for _ in stream:
        break
    await stream.close()
    assert await serving.outcome() == Outcome.CLIENT_CANCELLED
    async with httpx.AsyncClient(trust_env=False) as http:
        async with asyncio.timeout(5):
            while "requests_processing 0" not in (await http.get(f"{llama.url}/metrics")).text:
                await asyncio.sleep(0.02)


async def test_what_is_no_protocol_of_openai_passes_where_it_is_declared(
    client: openai.AsyncOpenAI, serving: Running
) -> None:
    root = f"http://127.0.0.1:{serving.port}"
    tokens = await client.post(f"{root}/tokenize", body={"model": "alias", "content": "the model"}, cast_to=object)
    assert isinstance(tokens, dict)
    assert tokens["tokens"]
    await eventually(lambda: serving.outcomes() == {Outcome.COMPLETE: 1})


@pytest.fixture(scope="module")
def javascript() -> Path:
    """A folder with the package, fetched once."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("there is no node with npm on PATH")
    folder = cache_folder() / "openai-js" / JAVASCRIPT
    if not folder.exists():
        with replacing(folder) as made:
            made.mkdir()
            done = subprocess.run(
                [npm, "install", "--no-save", "--ignore-scripts", f"openai@{JAVASCRIPT}"],
                cwd=made, capture_output=True, text=True, check=False,
            )  # fmt: skip
            if done.returncode != 0:
                pytest.skip(f"openai@{JAVASCRIPT} cannot be fetched: {done.stderr[-300:]}")
    return folder


async def test_the_client_for_javascript(serving: Running, javascript: Path) -> None:
    script = javascript / "official.mjs"
    script.write_bytes(Path(__file__).with_name("official.mjs").read_bytes())
    arguments = [f"http://127.0.0.1:{serving.port}/v1", await serving.key()]
    process = await asyncio.create_subprocess_exec("node", str(script), *arguments, stdout=asyncio.subprocess.PIPE)
    said, _ = await asyncio.wait_for(process.communicate(), 60)
    found = json.loads(said)
    assert found.pop("text") == found.pop("streamed") != ""
    assert found == {
        "models": ["alias"],
        "unknown": [404, "model_not_found"],
        "stranger": 401,
        "usage": 8,
    }
    await eventually(lambda: serving.outcomes() == {Outcome.COMPLETE: 2, Outcome.CLIENT_CANCELLED: 1})
