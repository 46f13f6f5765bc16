"""Exported tables in the real HAProxy, nginx and Envoy: accepted, served, flipped under load."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from time import monotonic

import aiohttp
import pytest

from pulumi_infercrane.router.export._deliver import Delivered, deliver
from pulumi_infercrane.router.export._place import Place
from pulumi_infercrane.router.export._view import models
from pulumi_infercrane.router.tables.table import RouteTable
from tests.router.client import Client, chat, request
from tests.router.conftest import R1, R2, R3, eventually, revision
from tests.router.export.conftest import table_of
from tests.router.export.load import fetch, load, speak
from tests.router.export.proxies import PROGRAMS, check, running
from tests.router.export.test_render import FLIPPED
from tests.router.upstream import Call, Script, Upstream, delta, whole

pytestmark = pytest.mark.proxies

StartUpstream = Callable[[], Awaitable[Upstream]]
Places = Callable[[str], Place]
TARGETS = sorted(PROGRAMS)
NAMES = {R1: "r1", R2: "r2", R3: "r3"}
FLIPS = 4


async def speaking(start_upstream: StartUpstream, name: str) -> Upstream:
    upstream = await start_upstream()
    speak(upstream, name)
    return upstream


async def write(target: str, table: RouteTable, place: Place) -> Delivered:
    return await asyncio.to_thread(deliver, target, table, place)


@pytest.mark.parametrize("target", TARGETS)
def test_the_proxy_accepts_what_is_written(target: str, place: Places) -> None:
    at = place(target)
    awkward = ['a"b', "c'd", "$e{f}", "%[g]", "h\\i", "j#k;l"]
    keys = {} if target == "nginx" else {"key_ref": "env:A_KEY"}
    second = revision("b.2/x-Y_z", "http://127.0.0.1:9002", "http://[::1]:9003")
    for upstream in second["upstreams"]:
        upstream |= keys
    table = table_of({R1: revision("r1", "http://127.0.0.1:9001"), R2: second}, R1, aliases=awkward, pins=[R2])
    deliver(target, table, at)
    check(target, at)
    deliver(target, replace(table_of({R1: revision("r1", "http://127.0.0.1:9001")}), generation=2), at)
    check(target, at)


@pytest.mark.parametrize("target", TARGETS)
async def test_what_is_asked_for_comes_and_nothing_else(
    target: str, place: Places, start_upstream: StartUpstream
) -> None:
    first, second = [await speaking(start_upstream, name) for name in ("r1", "r2")]
    at = place(target)
    table = table_of(
        {R1: revision("r1", first.url), R2: revision("r2", second.url), R3: revision("r3", second.url)},
        R1,
        pins=[R2],
        aliases=["chat", "a\"b'c$d"],
        protocols=["chat"],
    )
    await write(target, table, at)
    with running(target, at):
        async with aiohttp.ClientSession(f"http://127.0.0.1:{at.listen.port}") as session:
            await a_stream_passes(session)
            await a_pin_is_honoured_or_refused(session)
            await only_declared_paths_exist(session)
            await the_models_are_the_aliases(session, table)
        await what_is_private_stays(at, first)


async def a_stream_passes(session: aiohttp.ClientSession) -> None:
    fetched = await fetch(session, stream=True)
    assert (fetched.revision, fetched.names) == (R1, {"r1"})


async def a_pin_is_honoured_or_refused(session: aiohttp.ClientSession) -> None:
    pinned = await fetch(session, stream=True, **{"X-InferCrane-Revision": R2})
    assert (pinned.revision, pinned.names) == (R2, {"r2"})
    for other in (R3, "sha256:none"):
        async with session.post("/v1/chat/completions", json={}, headers={"X-InferCrane-Revision": other}) as answer:
            assert (answer.status, (await answer.json())["error"]["code"]) == (404, "unknown_revision")


async def only_declared_paths_exist(session: aiohttp.ClientSession) -> None:
    for path in ("/v1/embeddings", "/sleep", "/metrics", "/v1/chat/completions/", "/"):
        async with session.post(path, json={}) as answer:
            assert (answer.status, (await answer.json())["error"]["code"]) == (404, "unsupported_endpoint"), path
    async with session.get("/v1/chat/completions") as answer:
        assert answer.status == 405


async def the_models_are_the_aliases(session: aiohttp.ClientSession, table: RouteTable) -> None:
    async with session.get("/v1/models") as answer:
        assert await answer.text() == models(table)
        assert [model["id"] for model in (await answer.json())["data"]] == ["a\"b'c$d", "chat"]
        assert (answer.headers["X-InferCrane-Revision"], answer.headers["X-InferCrane-Generation"]) == (R1, "1")


async def what_is_private_stays(at: Place, upstream: Upstream) -> None:
    headers = ("Authorization: Bearer secret", "Cookie: secret", "X-Api-Key: secret", "X-InferCrane-Attempt: 9")
    async with await Client.connect(at.listen.port) as client:
        answer = await client.ask(chat(False, *headers))
    assert answer.status == 200
    assert b"secret" not in upstream.calls[-1].head
    assert upstream.calls[-1].header("X-InferCrane-Attempt") is None
    assert answer.all("x-request-id") == [upstream.calls[-1].header("X-Request-Id")]


@pytest.mark.parametrize("target", TARGETS)
async def test_a_flip_under_load_fails_nothing(target: str, place: Places, start_upstream: StartUpstream) -> None:
    first, second = [await speaking(start_upstream, name) for name in ("r1", "r2")]
    at = place(target)
    table = table_of({R1: revision("r1", first.url), R2: revision("r2", second.url)}, R1)
    await write(target, table, at)
    moments: list[tuple[float, str]] = []
    with running(target, at):
        async with load(at.listen.port) as found:
            for number in range(FLIPS):
                await asyncio.sleep(0.7)
                table = replace(table, generation=table.generation + 1, active=(R2, R1)[number % 2])
                assert (await write(target, table, at)).live
                moments.append((monotonic(), table.active))
            await asyncio.sleep(0.3)
    assert not found.failed
    assert all(one.names == {NAMES[one.revision]} for one in found.done)
    for moment, active in moments:
        assert found.spanning(moment)
        settled = [one for one in found.asked_after(moment + 0.1) if one.began < moment + 0.5]
        assert settled
        assert {one.revision for one in settled} == {active}


@pytest.mark.parametrize("target", TARGETS)
async def test_a_new_revision_and_its_flip_in_one_step(
    target: str, place: Places, start_upstream: StartUpstream
) -> None:
    """Whoever follows the generations may see several at once: also that the old revision is gone."""
    first, second = [await speaking(start_upstream, name) for name in ("r1", "r2")]
    at = place(target)
    await write(target, table_of({R1: revision("r1", first.url)}, R1), at)
    with running(target, at):
        async with load(at.listen.port) as found:
            await asyncio.sleep(0.5)
            await write(target, table_of({R2: revision("r2", second.url)}, R2, 2), at)
            moment = monotonic()
            await asyncio.sleep(1)
    assert not found.failed
    assert found.spanning(moment)
    assert all(one.names == {NAMES[one.revision]} for one in found.done)
    assert {one.revision for one in found.asked_after(moment + 0.1)} == {R2}


@pytest.mark.parametrize("target", TARGETS)
async def test_a_client_that_leaves_is_told_upstream(target: str, place: Places, upstream: Upstream) -> None:
    at = place(target)
    await write(target, table_of({R1: revision("r1", upstream.url)}, R1), at)

    async def begin(call: Call) -> None:
        await call.stream(delta("a"))
        await call.until_told()

    with running(target, at):
        cases = ((begin, chat()), (Call.until_told, chat()), (Call.until_told, chat(stream=False)))
        for number, (script, asked) in enumerate(cases):
            upstream.script = script
            async with await Client.connect(at.listen.port) as client:
                await client.send(asked)
                call = await upstream.call(number)
                await (client.head() if script is begin else asyncio.sleep(0.05))
            await eventually(lambda call=call: call.told_at is not None)


@pytest.mark.parametrize("target", TARGETS)
async def test_a_cut_stream_is_seen_to_be_cut(target: str, place: Places, upstream: Upstream) -> None:
    at = place(target)
    await write(target, table_of({R1: revision("r1", upstream.url)}, R1), at)

    async def cut(call: Call) -> None:
        await call.stream(delta("a"))
        await asyncio.sleep(0.05)
        call.reset()

    upstream.script = cut
    with running(target, at):
        async with await Client.connect(at.listen.port) as client:
            answer = await client.ask(chat())
    assert (answer.status, answer.whole) == (200, False)
    assert delta("a") in answer.raw
    assert b"DONE" not in answer.raw
    assert upstream.attempts == 1


async def close(call: Call) -> None:
    call.reset()


async def overloaded(call: Call) -> None:
    await call.send(whole({"error": "busy"}, "503 Service Unavailable", b"Retry-After: 7\r\n"))


@pytest.mark.parametrize(("script", "status"), [(close, 0), (overloaded, 503)])
@pytest.mark.parametrize("target", TARGETS)
async def test_nothing_is_asked_twice(
    target: str, script: Script, status: int, place: Places, start_upstream: StartUpstream
) -> None:
    """Not even where another replica could answer."""
    replicas = [await start_upstream(), await start_upstream()]
    at = place(target)
    await write(target, table_of({R1: revision("r1", *(one.url for one in replicas))}, R1), at)
    for one in replicas:
        one.script = script
    with running(target, at):
        async with await Client.connect(at.listen.port) as client:
            answer = await client.ask(request(b'{"model": "chat"}'))
    assert sum(one.attempts for one in replicas) == 1
    if status:
        assert (answer.status, answer.header("retry-after"), answer.body) == (503, "7", b'{"error": "busy"}')
    else:
        assert answer.status in (502, 503)


@pytest.mark.parametrize("target", ["haproxy", "envoy"])
async def test_the_key_of_an_upstream_comes_from_the_environment(
    target: str, place: Places, upstream: Upstream
) -> None:
    at = place(target)
    entry = revision("r1", upstream.url)
    entry["upstreams"][0]["key_ref"] = "env:UPSTREAM_KEY"
    await write(target, table_of({R1: entry}, R1), at)
    with running(target, at, UPSTREAM_KEY="k%[e]y$1"):
        async with await Client.connect(at.listen.port) as client:
            assert (await client.ask(chat(False, "Authorization: Bearer mine"))).status == 200
    assert upstream.calls[0].header("Authorization") == "Bearer k%[e]y$1"
    assert all(b"k%[e]y$1" not in file.read_bytes() for file in at.folder.iterdir() if file.is_file())


@pytest.mark.parametrize("target", TARGETS)
async def test_before_the_first_flip_there_is_no_route(target: str, place: Places, upstream: Upstream) -> None:
    at = place(target)
    table = table_of({R1: revision("r1", upstream.url)})
    await write(target, table, at)
    with running(target, at):
        async with aiohttp.ClientSession(f"http://127.0.0.1:{at.listen.port}") as session:
            async with session.post("/v1/chat/completions", json={}) as answer:
                assert (answer.status, (await answer.json())["error"]["code"]) == (503, "no_route")
            speak(upstream, "r1")
            await write(target, replace(table, active=R1, generation=2), at)
            assert (await fetch(session, stream=True)).revision == R1


@pytest.mark.parametrize("target", TARGETS)
async def test_weights_divide_requests_and_change_like_a_flip(
    target: str, place: Places, start_upstream: StartUpstream
) -> None:
    first, second = [await speaking(start_upstream, name) for name in ("r1", "r2")]
    at = place(target)
    revisions = {R1: revision("r1", first.url), R2: revision("r2", second.url, balance="least_inflight")}
    table = table_of(revisions, R1, pinning=True, session_header="x-session")
    await write(target, table, at)
    with running(target, at):
        async with aiohttp.ClientSession(f"http://127.0.0.1:{at.listen.port}") as session:
            counts = []
            for number, percent in enumerate((0, 10, 100), start=2):
                weighted = replace(table, generation=number, weights={R1: 100 - percent, R2: percent})
                assert (await write(target, weighted, at)).written == (FLIPPED[target],)
                asked = [await fetch(session, stream=False) for _ in range(300)]
                counts.append(sum(one.revision == R2 for one in asked))
            assert (await fetch(session, stream=False, **{"X-InferCrane-Revision": "r1"})).revision == R1
            if target != "envoy":
                half = replace(table, generation=9, weights={R1: 50, R2: 50})
                await write(target, half, at)
                for name in "abcdefgh":
                    assert (
                        len({(await fetch(session, stream=False, **{"X-Session": name})).revision for _ in "123"}) == 1
                    )
    assert counts[0] == 0
    assert 8 <= counts[1] <= 62, "of 300 at 10 %, missed once in a million"
    assert counts[2] == 300
