"""Client keys on the data plane, on real sockets: who is let in, who is not, and what goes on to the upstream."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pulumi_infercrane.router.protocol.observer import Outcome
from tests.router.client import Answer, Client, chat, request
from tests.router.conftest import R1, R2, Running, StartRouter, eventually, revision
from tests.router.upstream import Call, Upstream, delta


def bearer(secret: str) -> str:
    return f"Authorization: Bearer {secret}"


def models(*headers: str, target: str = "/v1/models") -> bytes:
    return "\r\n".join([f"GET {target} HTTP/1.1", "Host: router", *headers, "", ""]).encode()


async def ask(router: Running, data: bytes) -> Answer:
    async with await router.client() as client:
        return await client.ask(data)


@pytest.fixture
async def secret(router: Running) -> AsyncIterator[str]:
    """A key for the service `chat`."""
    yield await router.key()


async def test_without_any_key_everybody_is_let_in(router: Running, client: Client) -> None:
    assert (await client.ask(chat())).whole
    assert (await client.ask(chat(True, "Authorization: Bearer anything"))).whole


async def test_from_the_first_key_on_a_request_needs_one(router: Running, client: Client, secret: str) -> None:
    answer = await client.ask(chat(True, bearer(secret)))
    assert answer.whole
    refused = await client.ask(chat())
    assert (refused.status, refused.error) == (401, "missing_api_key")
    assert refused.header("www-authenticate") == "Bearer"
    error = json.loads(refused.body)["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["type"] == "invalid_request_error"


async def test_a_router_that_requires_keys_lets_nobody_in_before_one_is_made(
    start_router: StartRouter, upstream: Upstream
) -> None:
    router = await start_router(require_keys=True)
    await router.put({R1: revision("r1", upstream.url)})
    await router.flip(R1)
    assert (await ask(router, chat())).error == "missing_api_key"
    assert (await ask(router, chat(True, bearer(await router.key())))).whole


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
async def test_the_scheme_has_no_case(router: Running, secret: str, scheme: str) -> None:
    assert (await ask(router, chat(True, f"Authorization: {scheme} {secret}"))).whole


@pytest.mark.parametrize(
    "header",
    [
        "Authorization:",
        "Authorization: Bearer",
        "Authorization: Bearer ic_wrong",
        "Authorization: Basic {secret}",
        "Authorization: {secret}",
        "Authorization: Bearer {secret} {secret}",
        "Authorization: Bearer {secret},",
        'Authorization: Bearer "{secret}"',
        "Authorization: Bearer " + "x" * 30_000,
        "Authorization: Bearer \xff\xfe",
        "Authorization: Bearer {secret}\r\nAuthorization: Bearer {secret}",
        "Authorization: Bearer ic_wrong\r\nAuthorization: Bearer {secret}",
    ],
    ids=lambda header: header[:40],
)
async def test_odd_headers_let_nobody_in(router: Running, upstream: Upstream, secret: str, header: str) -> None:
    body = json.dumps({"model": "chat"}).encode()
    answer = await ask(router, request(body, header.format(secret=secret)))
    assert (answer.status, answer.error) == (401, "invalid_api_key")
    assert upstream.attempts == 0


@pytest.mark.parametrize("name", ["X-Api-Key", "Api-Key", "X_Authorization", "Proxy-Authorization", "Cookie"])
async def test_a_key_counts_in_the_one_header_only(router: Running, secret: str, name: str) -> None:
    assert (await ask(router, chat(True, f"{name}: Bearer {secret}"))).error == "missing_api_key"


async def test_N11_no_key_of_a_client_goes_on_to_the_upstream(router: Running, upstream: Upstream, secret: str) -> None:
    headers = [bearer(secret), f"X-Api-Key: {secret}", f"api-key: {secret}", f"Cookie: key={secret}"]
    assert (await ask(router, chat(True, *headers))).whole
    assert secret.encode() not in upstream.calls[0].head + upstream.calls[0].body
    assert upstream.calls[0].header("authorization") is None


async def test_the_upstream_gets_its_own_key(start_router: StartRouter, upstream: Upstream) -> None:
    router = await start_router(environment={"R1_KEY": "sk-upstream"})
    declared = revision("r1", upstream.url)
    declared["upstreams"][0]["key_ref"] = "env:R1_KEY"
    await router.put({R1: declared})
    await router.flip(R1)
    assert (await ask(router, chat(True, bearer(await router.key())))).whole
    assert upstream.calls[0].header("authorization") == "Bearer sk-upstream"


@pytest.mark.parametrize("query", ["api_key={secret}", "x=1&API-Key=y", "key=", "access_token=a", "q={secret}"])
@pytest.mark.parametrize("keyed", [True, False])
async def test_a_key_in_the_url_is_refused_and_not_repeated(
    router: Running, upstream: Upstream, query: str, keyed: bool
) -> None:
    secret = await router.key() if keyed else "ic_something"
    body = json.dumps({"model": "chat"}).encode()
    path = f"/v1/chat/completions?{query.format(secret=secret)}"
    answer = await ask(router, request(body, bearer(secret), path=path))
    assert (answer.status, answer.error) == (400, "key_in_url")
    assert secret.encode() not in answer.body
    assert upstream.attempts == 0


async def test_other_queries_go_on(router: Running, upstream: Upstream) -> None:
    body = json.dumps({"model": "chat"}).encode()
    assert (await ask(router, request(body, path="/v1/chat/completions?topic_id=3&api-version=1"))).status == 200
    assert upstream.calls[0].head.startswith(b"POST /v1/chat/completions?topic_id=3&api-version=1 ")


async def test_without_a_key_no_body_is_read(router: Running, client: Client, secret: str) -> None:
    await client.send(request(b"x" * 4_000_000)[:2000])
    assert (await client.answer()).error == "missing_api_key"
    assert await client.until_closed() == b""


async def test_a_key_is_for_its_services(router: Running, upstream: Upstream) -> None:
    await router.put({R2: revision("r2", upstream.url)}, service="other", aliases=["other"])
    await router.flip(R2, service="other")
    secret = await router.key("one")
    refused = await ask(router, chat(True, bearer(secret), model="other"))
    assert (refused.status, refused.error) == (403, "service_not_allowed")
    assert json.loads(refused.body)["error"]["type"] == "permission_error"
    listed = await ask(router, models(bearer(secret)))
    assert [model["id"] for model in json.loads(listed.body)["data"]] == ["chat"]
    every = await router.key("every", services=("*",))
    assert (await ask(router, chat(True, bearer(every), model="other"))).whole
    assert len(json.loads((await ask(router, models(bearer(every)))).body)["data"]) == 2
    assert (await ask(router, models())).error == "missing_api_key"


async def test_a_refused_head_request_has_no_body_and_leaves_the_connection_usable(
    router: Running, client: Client, secret: str
) -> None:
    await client.send(models().replace(b"GET", b"HEAD"))
    refused = await client.answer(body=False)
    assert (refused.status, refused.header("x-infercrane-error")) == (401, "missing_api_key")
    assert (await client.ask(models(bearer(secret)))).status == 200


async def test_R11_a_revision_is_pinned_only_by_a_key_that_may(router: Running, upstream: Upstream) -> None:
    await router.put({R1: revision("r1", upstream.url), R2: revision("r2", upstream.url)}, pins=[R2])
    pin = f"X-InferCrane-Revision: {R2}"
    refused = await ask(router, chat(True, bearer(await router.key("plain")), pin))
    assert (refused.status, refused.error) == (403, "pin_not_allowed")
    allowed = await ask(router, chat(True, bearer(await router.key("pinning", pin=True)), pin))
    assert allowed.header("x-infercrane-revision") == R2


async def test_K4_both_secrets_of_a_rotation_until_the_old_one_ends(router: Running, secret: str) -> None:
    _, new = await router.parts.keys.rotate("ci", old_valid_s=100)
    for one in (secret, new):
        assert (await ask(router, chat(True, bearer(one)))).whole
    router.parts.relay.wall_clock = in_seconds(101)
    assert (await ask(router, chat(True, bearer(secret)))).error == "expired_api_key"
    assert (await ask(router, chat(True, bearer(new)))).whole


def in_seconds(seconds: float):
    moment = (datetime.now(UTC) + timedelta(seconds=seconds)).timestamp()
    return lambda: moment


async def test_K4_a_key_that_expires(router: Running) -> None:
    secret = await router.key(expires_at="2096-01-01T00:00:00Z")
    assert (await ask(router, chat(True, bearer(secret)))).whole
    router.parts.relay.wall_clock = in_seconds(100 * 366 * 86_400)
    refused = await ask(router, chat(True, bearer(secret)))
    assert (refused.status, refused.error) == (401, "expired_api_key")


async def test_a_clock_that_is_set_back_revives_no_revoked_key(router: Running, secret: str) -> None:
    await router.parts.keys.revoke("ci")
    router.parts.relay.wall_clock = in_seconds(-1e9)
    assert (await ask(router, chat(True, bearer(secret)))).error == "invalid_api_key"


async def test_K4_revoked_while_streaming_the_stream_goes_on_and_the_next_request_does_not(
    router: Running, client: Client, upstream: Upstream, secret: str
) -> None:
    async def first_event(call: Call) -> None:
        await call.stream(delta())

    upstream.script = first_event
    await client.send(chat(True, bearer(secret)))
    call = await upstream.call()
    await router.parts.keys.revoke("ci")
    await call.send(b"")
    await call.end_stream()
    assert (await client.answer()).whole
    assert (await client.ask(chat(True, bearer(secret)))).error == "invalid_api_key"


async def test_revoking_the_last_key_opens_nothing(router: Running, secret: str) -> None:
    await router.parts.keys.revoke("ci")
    assert (await ask(router, chat())).error == "missing_api_key"


async def test_keys_survive_a_restart(
    router: Running, upstream: Upstream, start_router: StartRouter, secret: str
) -> None:
    again = await start_router()
    assert (await ask(again, chat(True, bearer(secret)))).whole
    assert (await ask(again, chat())).error == "missing_api_key"


async def test_losing_the_files_opens_nothing(
    router: Running, start_router: StartRouter, secret: str, tmp_path: Path
) -> None:
    for path in (tmp_path / "keys").iterdir():
        path.unlink()
    again = await start_router()
    assert (await ask(again, chat())).error == "missing_api_key"
    assert (await ask(again, chat(True, bearer(secret)))).error == "invalid_api_key"
    assert (await ask(again, chat(True, bearer(await again.key("anew"))))).whole


async def test_refusals_are_counted_by_reason(router: Running, secret: str) -> None:
    for data in (chat(), chat(True, bearer("ic_wrong")), chat(True, bearer(secret), model="invented")):
        await ask(router, data)
    assert router.reasons() == {"missing_api_key": 1, "invalid_api_key": 1, "model_not_found": 1}
    assert dict(router.parts.relay.traffic.unbound) == {Outcome.AUTH: 2, Outcome.CLIENT_ERROR: 1}


async def test_K5_no_key_is_in_the_log_or_an_answer(
    router: Running, upstream: Upstream, secret: str, caplog: pytest.LogCaptureFixture
) -> None:
    await upstream.stop()
    answers = [await ask(router, chat(True, bearer(secret))), await ask(router, chat(True, bearer(secret + "x")))]
    await eventually(lambda: bool(router.outcomes()))
    assert [answer.status for answer in answers] == [503, 401]
    assert not any(secret[3:].encode() in answer.body for answer in answers)
    assert secret[3:] not in caplog.text
