"""The control protocol on bytes: strict, with a stable code for every refusal."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pulumi_infercrane.router.clients.keys import KeyLimits
from pulumi_infercrane.router.control.client import (
    ActiveChanged,
    ControlClient,
    DecisionConflict,
    Flip,
    GenerationMismatch,
    Grant,
    KeyExists,
    KeysInvalid,
    KeyUnknown,
    LiveKeyring,
    RevisionInUse,
    RevisionUnknown,
    RouterUnreachable,
    ServiceUnknown,
    TableInvalid,
    UnexpectedAnswer,
    Weights,
    WeightsChanged,
)
from pulumi_infercrane.router.control.connections import Connections
from pulumi_infercrane.router.routing import readiness
from tests.router.client import Answer, Client, chat
from tests.router.conftest import R1, R2, Running, declared, revision
from tests.router.upstream import Upstream


@pytest.fixture
async def control(router: Running, tmp_path: Path) -> AsyncIterator[Path]:
    """The control socket of the running router."""
    path = tmp_path / "control.sock"
    loop = asyncio.get_running_loop()
    server = await loop.create_unix_server(Connections(router.parts.api).new, str(path))
    yield path
    server.close()


@pytest.fixture
async def api(control: Path) -> AsyncIterator[ControlClient]:
    async with ControlClient(control) as client:
        yield client


async def call(control: Path, method: str, path: str, body: Any = None, *headers: str) -> Answer:
    data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"{method} {path} HTTP/1.1", "Host: router", *headers, f"Content-Length: {len(data)}", "", ""]
    client = Client(*await asyncio.open_unix_connection(str(control)))
    async with client:
        return await client.ask("\r\n".join(lines).encode() + data)


async def test_a_release_from_the_first_table_to_the_end(
    api: ControlClient, router: Running, upstream: Upstream
) -> None:
    both = declared({R1: revision("r1", upstream.url), R2: revision("r2", upstream.url)})
    live = await api.get("chat")
    assert (live.active, live.decision_id, live.inflight) == (R1, f"decision-{R1}", {R1: 0})
    changed = await api.put("chat", both, if_match=live.generation)
    assert (changed.applied, changed.generation, changed.active) == (True, "3", R1)
    flipped = await api.flip("chat", Flip(R1, R2, "decision-2", expected_generation="3"))
    assert (flipped.applied, flipped.active) == (True, R2)
    assert (await api.flip("chat", Flip(R1, R2, "decision-2"))).applied is False
    await api.drain("chat", R1, 5)
    assert (await api.drain_state("chat", R1)).done
    await api.put("chat", declared({R2: revision("r2", upstream.url)}), if_match="5")
    assert set((await api.get("chat")).table["revisions"]) == {R2}
    assert await api.services() == ("chat",)
    await api.delete("chat")
    assert await api.services() == ()


async def test_a_canary_step_by_step(api: ControlClient, router: Running, upstream: Upstream) -> None:
    await router.put({R1: revision("r1", upstream.url), R2: revision("r2", upstream.url)})
    assert (await api.get("chat")).weights == {R1: 100}
    first = Weights(R1, {R1: 95, R2: 5}, "w1", expected_generation="3", expected_weights={R1: 100})
    assert (await api.set_weights("chat", first)).applied
    assert (await api.set_weights("chat", first)).applied is False
    await api.set_weights("chat", Weights(R1, {R1: 75, R2: 25}, "w2", expected_weights={R1: 95, R2: 5}))
    live = await api.get("chat")
    assert (live.active, live.weights, live.table["weights"]) == (R1, {R1: 75, R2: 25}, {R1: 75, R2: 25})
    assert (live.decision_id, live.table["weights_decision_id"]) == (f"decision-{R1}", "w2")
    with pytest.raises(WeightsChanged):
        await api.flip("chat", Flip(R1, R2, "d2", expected_weights={R1: 95, R2: 5}))
    await api.flip("chat", Flip(R1, R2, "d2", expected_weights={R1: 75, R2: 25}))
    assert (await api.get("chat")).weights == {R2: 100}


async def test_the_status_tells_how_each_replica_is(api: ControlClient, router: Running, client: Client) -> None:
    await client.ask(chat())
    (replica,) = (await api.get("chat")).replicas[R1].items()
    assert replica == (
        "r1-0",
        {"ready": True, "inflight": 0, "answered": 1, "failed": 0, "ejections": 0, "failed_probes": 0},
    )


async def test_the_digest_and_the_etag_name_the_table(control: Path, api: ControlClient) -> None:
    answer = await call(control, "GET", "/v1/services/chat")
    document = json.loads(answer.body)
    assert answer.header("etag") == '"2"'
    assert document["table"]["digest"] == document["digest"] == (await api.get("chat")).digest


@pytest.mark.parametrize(
    ("flip", "error"),
    [
        (Flip(R2, R1, "new"), ActiveChanged),
        (Flip(R1, R2, "new"), RevisionUnknown),
        (Flip(R1, R2, f"decision-{R1}"), DecisionConflict),
        (Flip(R1, R1, "new", expected_generation="9"), GenerationMismatch),
        (Flip(R1, "r2", "new"), TableInvalid),
    ],
)
async def test_refusals_arrive_as_the_errors_they_are(api: ControlClient, flip: Flip, error: type[Exception]) -> None:
    with pytest.raises(error):
        await api.flip("chat", flip)


async def test_other_refusals(api: ControlClient, upstream: Upstream) -> None:
    with pytest.raises(ServiceUnknown, match="no service other"):
        await api.get("other")
    with pytest.raises(RevisionInUse):
        await api.drain("chat", R1, 1)
    with pytest.raises(RevisionInUse, match="may not be removed"):
        await api.put("chat", declared({R2: revision("r2", upstream.url)}), if_match="2")
    with pytest.raises(GenerationMismatch):
        await api.put("chat", declared({R1: revision("r1", upstream.url)}), if_match=None)


async def test_every_finding_arrives(api: ControlClient) -> None:
    with pytest.raises(TableInvalid) as refused:
        await api.put("other", {"aliases": [], "protocols": ["x"], "revisions": {}, "y": 1}, if_match=None)
    assert len(refused.value.findings) == 3


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/v1/nothing", None, 404, "no_such_call"),
        ("PATCH", "/v1/services/chat", {}, 405, "method_not_allowed"),
        ("GET", "/v1/services/chat/flip", None, 405, "method_not_allowed"),
        ("PUT", "/v1/services/chat", {}, 428, "precondition_missing"),
        ("PUT", "/v1/services/no%20name", {}, 422, "table_invalid"),
        ("POST", "/v1/services/chat/flip", b"{", 400, "invalid_body"),
        ("POST", "/v1/services/chat/flip", b'{"to":1,"to":2}', 400, "invalid_body"),
        ("POST", "/v1/services/chat/flip", b"[" * 100_000, 400, "invalid_body"),
        ("POST", "/v1/services/chat/flip", {"to": R1, "force": True}, 422, "table_invalid"),
        ("POST", "/v1/services/chat/drain", {"revision": R2, "deadline_s": 1}, 422, "unknown_revision"),
        ("GET", f"/v1/services/chat/drain/{R2}", None, 422, "unknown_revision"),
        ("PUT", "/v1/services/chat", b"x" * (1024 * 1024 + 1), 413, "body_too_large"),
        ("DELETE", "/v1/services/other", None, 404, "service_unknown"),
        ("POST", "/v1/keys", {"name": "a", "services": ["*"], "secret": "x"}, 422, "keys_invalid"),
        ("PUT", "/v1/keys", {}, 405, "method_not_allowed"),
        ("POST", "/v1/keys/none/rotate", {"old_valid_s": 0}, 404, "key_unknown"),
        ("POST", "/v1/keys/none/rotate", {}, 422, "keys_invalid"),
        ("DELETE", "/v1/keys/none", None, 404, "key_unknown"),
    ],
)
async def test_what_is_no_call(control: Path, method: str, path: str, body: Any, status: int, code: str) -> None:
    answer = await call(control, method, path, body)
    assert (answer.status, answer.error) == (status, code)


@pytest.mark.parametrize(
    ("path", "allow"),
    [
        ("/livez", "GET, HEAD"),
        ("/v1/services/chat", "GET, HEAD, PUT, DELETE"),
        ("/v1/services/chat/flip", "POST"),
        ("/v1/keys", "GET, HEAD, POST"),
    ],
)
async def test_what_is_no_method_of_a_path_is_told_those_that_are(control: Path, path: str, allow: str) -> None:
    answer = await call(control, "PATCH", path, {})
    assert (answer.status, answer.header("allow")) == (405, allow)


async def test_a_key_from_its_first_day_to_its_last(api: ControlClient, control: Path) -> None:
    assert await api.keys() == LiveKeyring(required=False, keys=())
    issued = await api.new_key(Grant("ci", ("chat",), limits=KeyLimits(requests_per_minute=6)))
    assert issued.secret.startswith("ic_") and issued.secret not in repr(issued)
    assert issued.key["limits"] == {"requests_per_minute": 6}
    with pytest.raises(KeyExists, match="a key ci exists"):
        await api.new_key(Grant("ci", ("chat",)))
    rotated = await api.rotate_key("ci", 3600)
    assert rotated.secret != issued.secret
    await api.revoke_key("ci")
    live = await api.keys()
    assert live.required
    assert [(key["name"], key["secrets"], "revoked_at" in key) for key in live.keys] == [("ci", [], True)]
    with pytest.raises(KeyUnknown, match="was revoked at"):
        await api.rotate_key("ci", 0)


async def test_a_secret_is_shown_once_and_its_digest_never(api: ControlClient, control: Path) -> None:
    issued = await api.new_key(Grant("ci", ("chat",)))
    listed = (await call(control, "GET", "/v1/keys")).body.decode()
    assert issued.secret not in listed
    assert hashlib.sha256(issued.secret.encode()).hexdigest() not in listed
    assert "sha256" not in listed


async def test_every_finding_about_a_key_arrives(api: ControlClient) -> None:
    with pytest.raises(KeysInvalid) as refused:
        await api.new_key(Grant("No Name", ("no service",), priorities=("urgent",)))
    assert len(refused.value.findings) == 3


async def test_an_expired_flip_is_gone(control: Path) -> None:
    flip = {"expected_active": R1, "to": R1, "decision_id": "late", "expires_at": "2020-01-01T00:00:00Z"}
    answer = await call(control, "POST", "/v1/services/chat/flip", flip)
    assert (answer.status, answer.error) == (410, "expired")


async def test_calls_of_one_connection_run_in_order(control: Path) -> None:
    async with Client(*await asyncio.open_unix_connection(str(control))) as client:
        await client.send(b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\nGET /v1/services/x HTTP/1.1\r\nHost: a\r\n\r\n")
        assert [(await client.answer()).status for _ in range(2)] == [200, 404]


async def test_a_failure_of_ours_is_an_answer_too(
    control: Path, router: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(router.parts.api, "answer", broken)
    answer = await call(control, "GET", "/livez")
    assert (answer.status, answer.error) == (500, "router_error")
    assert "ZeroDivisionError" in caplog.text


async def test_ready_means_the_active_revision_takes_connections(
    api: ControlClient, control: Path, router: Running, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readiness, "SHARED_S", 0)
    assert await api.live()
    assert await api.why_not_ready() == ()
    await upstream.stop()
    assert await api.why_not_ready() == ("no upstream of revision r1 of service chat takes connections",)
    assert (await call(control, "GET", "/readyz")).status == 503
    await api.put("other", declared({R2: revision("r2", upstream.url)}, aliases=["other"]), if_match=None)
    assert "service other has no active revision yet" in await api.why_not_ready()
    await api.delete("other")
    await api.delete("chat")
    assert await api.why_not_ready() == ("no service has a route table",)


async def test_metrics_count_by_revision_and_outcome(control: Path, router: Running, client: Client) -> None:
    assert (await client.ask(chat())).whole
    assert (await client.ask(chat(model="invented"))).status == 404
    answer = await call(control, "GET", "/metrics")
    lines = answer.body.decode().splitlines()
    assert answer.header("content-type") == "text/plain; version=0.0.4"
    labels = f'service="chat",revision="{R1}"'
    assert f'infercrane_router_requests_total{{{labels},outcome="complete"}} 1' in lines
    assert 'infercrane_router_requests_total{service="",revision="",outcome="client_error"} 1' in lines
    assert f"infercrane_router_inflight{{{labels}}} 0" in lines
    assert f'infercrane_router_tokens_total{{{labels},direction="completion",source="events"}} 3' in lines
    assert 'infercrane_router_route_generation{service="chat"} 2' in lines
    assert 'infercrane_router_refused_total{service="",reason="model_not_found"} 1' in lines
    assert not any("queued{" in line for line in lines)
    assert "invented" not in answer.body.decode()
    assert f"infercrane_router_route_weight{{{labels}}} 100" in lines
    assert f'infercrane_router_replica_answered_total{{{labels},upstream="r1-0"}} 1' in lines
    assert f'infercrane_router_replica_ready{{{labels},upstream="r1-0"}} 1' in lines


async def test_metrics_of_a_queue(api: ControlClient, control: Path, upstream: Upstream) -> None:
    limited = declared({R1: revision("r1", upstream.url)}, limits={"max_inflight": 1})
    await api.put("chat", limited, if_match="2")
    lines = (await call(control, "GET", "/metrics")).body.decode().splitlines()
    assert 'infercrane_router_queued{service="chat"} 0' in lines
    assert not any("queue_seconds_" in line for line in lines if not line.startswith("#"))


async def test_nobody_on_the_socket(tmp_path: Path) -> None:
    async with ControlClient(tmp_path / "none.sock") as api:
        with pytest.raises(RouterUnreachable, match=r"none\.sock: there is no such socket; is the router") as refused:
            await api.get("chat")
    assert not refused.value.sent


async def test_an_answer_that_is_lost_may_have_been_sent(tmp_path: Path) -> None:
    path = tmp_path / "mute.sock"

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.close()

    server = await asyncio.start_unix_server(hang_up, path)
    async with ControlClient(path) as api:
        with pytest.raises(RouterUnreachable) as lost:
            await api.flip("chat", Flip("", R1, "d"))
    server.close()
    assert lost.value.sent


async def test_somebody_elses_socket(tmp_path: Path) -> None:
    path = tmp_path / "other.sock"

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
        await writer.drain()
        writer.close()

    server = await asyncio.start_unix_server(greet, path)
    async with ControlClient(path) as api:
        with pytest.raises(UnexpectedAnswer, match="is this our control socket"):
            await api.live()
    server.close()
