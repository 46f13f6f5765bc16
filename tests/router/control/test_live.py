"""Changing the served table under traffic: probes R (flip, drain, pins) and K (what a table may say)."""

import asyncio
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from pulumi_infercrane.router.errors import (
    ActiveChanged,
    GenerationMismatch,
    RevisionInUse,
    RevisionUnknown,
    ServiceInUse,
    ServiceUnknown,
    StateNotWritten,
    TableInvalid,
)
from pulumi_infercrane.router.protocol.observer import Outcome
from pulumi_infercrane.router.routing.lookups import Lookups
from pulumi_infercrane.router.tables.calls import Flip
from pulumi_infercrane.router.tables.store import TableStore
from pulumi_infercrane.router.tables.table import RouteTable
from tests.router.client import Answer, Client, chat
from tests.router.conftest import R1, R2, R3, Running, StartRouter, eventually, revision
from tests.router.upstream import Call, Upstream, delta


class Gate:
    """A script that begins a stream and ends it when told."""

    def __init__(self) -> None:
        self.open = asyncio.Event()

    async def __call__(self, call: Call) -> None:
        await call.stream(delta())
        await self.open.wait()
        await call.end_stream()


async def two_revisions(router: Running, one: Upstream, other: Upstream, **more: object) -> None:
    await router.put({R1: revision("r1", one.url), R2: revision("r2", other.url)}, **more)


@pytest.fixture
async def other(start_upstream) -> Upstream:
    return await start_upstream()


async def test_R1_a_flip_under_load_fails_nothing_and_moves_everything(
    router: Running, upstream: Upstream, other: Upstream
) -> None:
    await two_revisions(router, upstream, other)
    gate = Gate()
    upstream.script = gate
    spanning = [asyncio.create_task(ask(router, chat())) for _ in range(100)]
    await eventually(lambda: router.traffic(R1).inflight == 100)
    upstream.script = Upstream().script

    stop = asyncio.Event()
    load = [asyncio.create_task(keep_asking(router, stop)) for _ in range(8)]
    await eventually(lambda: router.outcomes(R1).get(Outcome.COMPLETE, 0) > 20)
    await router.flip(R2)
    after = [await ask(router, chat(stream=False)) for _ in range(20)]
    await eventually(lambda: router.outcomes(R2).get(Outcome.COMPLETE, 0) > 40)
    stop.set()
    during = [answer for answers in await asyncio.gather(*load) for answer in answers]
    gate.open.set()
    finished = await asyncio.gather(*spanning)

    assert all(answer.whole and answer.status == 200 for answer in [*during, *after, *finished])
    assert {answer.header("x-infercrane-revision") for answer in after} == {R2}
    assert {answer.header("x-infercrane-revision") for answer in finished} == {R1}
    assert len(finished) == 100


async def ask(router: Running, data: bytes) -> Answer:
    async with await router.client() as client:
        return await client.ask(data)


async def keep_asking(router: Running, stop: asyncio.Event) -> list[Answer]:
    answers = []
    async with await router.client() as client:
        while not stop.is_set():
            answers.append(await client.ask(chat(stream=len(answers) % 2 == 0)))
    return answers


async def test_R1_a_request_that_is_connecting_stays_on_its_revision(
    router: Running, upstream: Upstream, other: Upstream
) -> None:
    await two_revisions(router, upstream, other)
    async with await router.client() as client:
        await client.send(chat(stream=False))
        await router.flip(R2)
        answer = await client.answer()
    assert answer.header("x-infercrane-revision") in (R1, R2)
    assert {R1: upstream, R2: other}[answer.header("x-infercrane-revision") or ""].attempts == 1


async def test_R3_one_generation_takes_one_flip(router: Running, upstream: Upstream, other: Upstream) -> None:
    await two_revisions(router, upstream, other)
    generation = str(router.parts.live.table("chat").generation)
    first = Flip(R1, R2, "decision-1", expected_generation=generation)
    second = Flip(R1, R2, "decision-2", expected_generation=generation)
    results = await asyncio.gather(
        router.parts.live.flip("chat", first), router.parts.live.flip("chat", second), return_exceptions=True
    )
    assert [type(result).__name__ for result in results] == ["Applied", "GenerationMismatch"]


async def test_R3_the_same_decision_twice_is_applied_once(router: Running, upstream: Upstream, other: Upstream) -> None:
    await two_revisions(router, upstream, other)
    flip = Flip(R1, R2, "decision-1")
    first, again = [await router.parts.live.flip("chat", flip) for _ in range(2)]
    assert (first.applied, again.applied) == (True, False)
    assert first.table == again.table


async def test_flip_to_what_somebody_else_replaced_is_refused(
    router: Running, upstream: Upstream, other: Upstream
) -> None:
    await two_revisions(router, upstream, other)
    await router.flip(R2)
    with pytest.raises(ActiveChanged, match="the caller expected sha256:1"):
        await router.parts.live.flip("chat", Flip(R1, R2, "late"))


async def test_a_disk_that_refuses_changes_nothing(
    router: Running, upstream: Upstream, other: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    await two_revisions(router, upstream, other)
    before = router.parts.live.table("chat")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(StateNotWritten, match="No space left"):
        await router.flip(R2)
    assert router.parts.live.table("chat") is before
    assert (await ask(router, chat())).header("x-infercrane-revision") == R1


async def test_R7_a_removed_revision_ends_its_connections_and_series(
    router: Running, upstream: Upstream, other: Upstream
) -> None:
    await two_revisions(router, upstream, other)
    await ask(router, chat(stream=False))
    await router.flip(R2)
    assert upstream.open == 1
    await router.put({R2: revision("r2", other.url)})
    await eventually(lambda: upstream.open == 0)
    assert {traffic.revision for traffic in router.parts.relay.traffic.all()} == {R2}


async def test_R8_drain_waits_for_the_last_stream(router: Running, upstream: Upstream, other: Upstream) -> None:
    await two_revisions(router, upstream, other)
    gate = Gate()
    upstream.script = gate
    streams = [asyncio.create_task(ask(router, chat())) for _ in range(3)]
    await eventually(lambda: router.traffic(R1).inflight == 3)
    await router.flip(R2)
    live = router.parts.live
    await live.drain("chat", R1, 60)
    with pytest.raises(RevisionInUse, match="3 requests in flight"):
        await router.put({R2: revision("r2", other.url)})
    state = await live.drain_state("chat", R1)
    assert (state.inflight, state.done) == (3, False)
    gate.open.set()
    assert all(answer.whole for answer in await asyncio.gather(*streams))
    assert (await live.drain_state("chat", R1)).done
    await router.put({R2: revision("r2", other.url)})


async def test_R8_the_drain_deadline_cuts_what_is_left(router: Running, upstream: Upstream, other: Upstream) -> None:
    await two_revisions(router, upstream, other)
    upstream.script = Gate()
    stream = asyncio.create_task(ask(router, chat()))
    await eventually(lambda: router.traffic(R1).inflight == 1)
    await router.flip(R2)
    await router.parts.live.drain("chat", R1, 0.05)
    assert not (await stream).whole
    state = await router.parts.live.drain_state("chat", R1)
    assert (state.inflight, state.cut, state.done) == (0, 1, True)
    assert await router.outcome(R1) == Outcome.SHED


async def test_a_draining_revision_that_is_put_again_serves_again(
    router: Running, upstream: Upstream, other: Upstream
) -> None:
    await two_revisions(router, upstream, other)
    await router.flip(R2)
    await router.parts.live.drain("chat", R1, 0)
    with pytest.raises(RevisionUnknown, match="is draining"):
        await router.flip(R1)
    await two_revisions(router, upstream, other)
    await router.flip(R1)
    upstream.script = Gate()
    stream = asyncio.create_task(ask(router, chat()))
    await eventually(lambda: router.traffic(R1).inflight == 1)
    await asyncio.sleep(0.1)
    upstream.script.open.set()
    assert (await stream).whole


async def test_the_active_revision_can_neither_be_drained_nor_removed(
    router: Running, upstream: Upstream, other: Upstream
) -> None:
    with pytest.raises(RevisionInUse, match="is active"):
        await router.parts.live.drain("chat", R1, 1)
    with pytest.raises(RevisionInUse, match="is active"):
        await router.put({R2: revision("r2", other.url)})


async def test_a_precondition_of_before_a_deletion_never_holds_again(
    start_router: StartRouter, router: Running, upstream: Upstream
) -> None:
    seen = str(router.parts.live.table("chat").generation)
    await router.parts.live.delete("chat")
    again = await start_router()
    await again.put({R1: revision("r1", upstream.url)})
    await again.flip(R1)
    with pytest.raises(GenerationMismatch):
        await again.parts.live.put("chat", again.read({R1: revision("r1", upstream.url)}, pins=[R1]), seen)


async def test_a_service_in_use_is_not_deleted(router: Running, upstream: Upstream) -> None:
    gate = Gate()
    upstream.script = gate
    stream = asyncio.create_task(ask(router, chat()))
    await eventually(lambda: router.traffic(R1).inflight == 1)
    with pytest.raises(ServiceInUse):
        await router.parts.live.delete("chat")
    gate.open.set()
    await stream
    await router.parts.live.delete("chat")
    assert (await ask(router, chat())).error == "model_not_found"
    with pytest.raises(ServiceUnknown):
        router.parts.live.table("chat")


@pytest.mark.parametrize(
    ("pin", "status", "error"),
    [(R2, 200, ""), (R1, 403, "pin_not_allowed"), (R3, 404, "unknown_revision"), ("x", 404, "unknown_revision")],
)
async def test_R11_a_pin_is_honoured_or_refused_never_replaced(
    router: Running, upstream: Upstream, other: Upstream, pin: str, status: int, error: str
) -> None:
    await two_revisions(router, upstream, other, pins=[R2])
    answer = await ask(router, chat(False, f"X-InferCrane-Revision: {pin}"))
    assert answer.status == status
    if error:
        assert (answer.error, upstream.attempts, other.attempts) == (error, 0, 0)
    else:
        assert answer.header("x-infercrane-revision") == R2
        assert other.calls[0].header("x-infercrane-revision") is None


async def test_R11_a_pin_to_a_dead_or_draining_revision_is_503(
    router: Running, upstream: Upstream, other: Upstream
) -> None:
    await two_revisions(router, upstream, other, pins=[R2])
    await other.stop()
    pinned = chat(False, f"X-InferCrane-Revision: {R2}")
    assert (await ask(router, pinned)).error == "connect_failed"
    await router.parts.live.drain("chat", R2, 0)
    assert (await ask(router, pinned)).error == "draining"
    assert upstream.attempts == 0


async def test_upstreams_of_a_revision_take_turns(router: Running, upstream: Upstream, other: Upstream) -> None:
    await router.put({R1: revision("r1", upstream.url, other.url)})
    for _ in range(6):
        await ask(router, chat(stream=False))
    assert (upstream.attempts, other.attempts) == (3, 3)


async def test_K3_a_missing_upstream_key_is_refused_at_apply(router: Running, upstream: Upstream) -> None:
    entry = revision("r1", upstream.url)
    entry["upstreams"][0]["key_ref"] = "env:NOT_SET"
    with pytest.raises(TableInvalid, match="env:NOT_SET is not set where the router runs"):
        await router.put({R1: entry})


async def test_K3_a_key_that_is_missing_after_a_restart_stops_its_requests(
    start_router: StartRouter, upstream: Upstream
) -> None:
    entry = revision("r1", upstream.url)
    entry["upstreams"][0]["key_ref"] = "env:R1_KEY"
    router = await start_router(environment={"R1_KEY": "secret"})
    await router.put({R1: entry})
    await router.flip(R1)
    restarted = await start_router(environment={})
    assert (await ask(restarted, chat())).error == "no_upstream"
    assert upstream.attempts == 0


async def test_a_key_with_the_end_of_its_line_does_not_split_the_upstream_request(
    start_router: StartRouter, upstream: Upstream
) -> None:
    entry = revision("r1", upstream.url)
    entry["upstreams"][0]["key_ref"] = "env:R1_KEY"
    router = await start_router(environment={"R1_KEY": "secret\n"})
    await router.put({R1: entry})
    await router.flip(R1)
    assert (await ask(router, chat())).whole
    assert upstream.calls[0].header("authorization") == "Bearer secret"


async def test_K3_a_key_that_is_none_is_refused_by_its_name(start_router: StartRouter, upstream: Upstream) -> None:
    entry = revision("r1", upstream.url)
    entry["upstreams"][0]["key_ref"] = "env:R1_KEY"
    router = await start_router(environment={"R1_KEY": "two\nlines"})
    with pytest.raises(TableInvalid) as refused:
        await router.put({R1: entry})
    assert refused.value.findings == (
        f"revisions.{R1}.upstreams[0].key_ref: "
        "env:R1_KEY holds something else than visible ASCII characters where the router runs",
    )


async def test_a_persisted_url_that_is_refused_today_is_not_dialled_and_the_rest_serves(
    start_router: StartRouter, upstream: Upstream, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = await start_router()
    await before.put({R1: revision("r1", upstream.url), R2: revision("r2", upstream.url)}, pinning=True)
    await before.flip(R1)
    table = before.parts.live.table("chat")
    old = replace(table.declared.revisions[R2].upstreams[0], url=f"{upstream.url}/x HTTP/1.1 y")
    revisions = {**table.declared.revisions, R2: replace(table.declared.revisions[R2], upstreams=(old,))}
    TableStore(tmp_path).save(replace(table, declared=replace(table.declared, revisions=revisions)))
    router = await start_router()
    assert f"revisions.{R2}.upstreams[0].url: may hold visible ASCII characters only" in caplog.text
    assert (await ask(router, chat())).whole
    assert (await ask(router, chat(True, f"X-InferCrane-Revision: {R2}"))).error == "no_upstream"
    assert upstream.attempts == 1
    await router.put({R1: revision("r1", upstream.url), R2: revision("r2", upstream.url)}, pinning=True)
    assert (await ask(router, chat(True, f"X-InferCrane-Revision: {R2}"))).whole


async def test_K6_the_router_is_no_upstream_of_itself(router: Running) -> None:
    for url in (f"http://127.0.0.1:{router.port}", f"http://localhost:{router.port}", f"http://127.1:{router.port}"):
        with pytest.raises(TableInvalid, match="is this router itself"):
            await router.put({R1: revision("r1", url)})


async def test_an_alias_belongs_to_one_service(router: Running, upstream: Upstream) -> None:
    with pytest.raises(TableInvalid, match="'chat' belongs to service chat"):
        await router.put({R2: revision("r2", upstream.url)}, service="other")
    await router.put({R2: revision("r2", upstream.url)}, service="other", aliases=["other"])
    await router.flip(R2, service="other")
    assert (await ask(router, chat(model="other"))).header("x-infercrane-revision") == R2


async def test_a_put_that_changes_nothing_keeps_the_generation(router: Running, upstream: Upstream) -> None:
    before = router.parts.live.table("chat")
    await router.put({R1: revision("r1", upstream.url)})
    assert router.parts.live.table("chat") is before


async def test_a_put_on_an_old_generation_is_refused(router: Running, upstream: Upstream) -> None:
    with pytest.raises(GenerationMismatch, match="has generation 2, the caller expected generation 1"):
        await router.parts.live.put("chat", router.read({R1: revision("r1", upstream.url)}), "1")


async def test_C4_a_client_that_leaves_while_connecting_reaches_nobody(
    router: Running, upstream: Upstream, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    going, gate = asyncio.Event(), asyncio.Event()

    async def held(_: Lookups, host: str) -> tuple[str, ...]:
        going.set()
        await gate.wait()
        return (host,)

    monkeypatch.setattr(Lookups, "addresses", held)
    await client.send(chat())
    await going.wait()
    assert router.traffic().inflight == 1
    client.hang_up()
    assert await router.outcome() is Outcome.CLIENT_CANCELLED
    gate.set()
    await asyncio.sleep(0.05)
    assert (upstream.connections, router.traffic().inflight) == (0, 0)
    (endpoint,) = router.parts.relay.routes.by_service["chat"].bindings[R1].endpoints
    assert (endpoint.replica.inflight, endpoint.replica.failed) == (0, 0)


async def test_C4_a_client_that_leaves_while_uploading_reaches_nobody(
    router: Running, upstream: Upstream, client: Client
) -> None:
    await client.send(chat()[:-5])
    client.hang_up()
    await eventually(lambda: not router.parts.relay.clients)
    assert (upstream.connections, router.outcomes()) == (0, {})


async def test_a_removed_revision_keeps_its_counts_until_its_requests_have_ended(
    router: Running, upstream: Upstream, other: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pin that is dispatched while the table without its revision is being written."""
    monkeypatch.setattr("pulumi_infercrane.router.counting.traffic.KEPT_S", 0.1)
    other.script = gate = Gate()
    await two_revisions(router, upstream, other, pins=[R2])
    book, store, saving = router.parts.relay.traffic, router.parts.live._store, asyncio.Event()
    loop, save, may_end = asyncio.get_running_loop(), store.save, threading.Event()

    def save_slowly(table: RouteTable) -> None:
        loop.call_soon_threadsafe(saving.set)
        may_end.wait(5)
        save(table)

    monkeypatch.setattr(store, "save", save_slowly)
    putting = asyncio.create_task(router.put({R1: revision("r1", upstream.url)}))
    await saving.wait()
    asked = asyncio.create_task(ask(router, chat(True, f"X-InferCrane-Revision: {R2}")))
    await eventually(lambda: book.loads()["chat", R2].inflight == 1)
    may_end.set()
    await putting
    assert book.loads()["chat", R2].inflight == 1
    gate.open.set()
    assert (await asked).status == 200
    removed = [one for one in book.all() if one.revision == R2]
    assert [dict(one.outcomes) for one in removed] == [{Outcome.COMPLETE: 1}]
    await eventually(lambda: ("chat", R2) not in book.loads())


async def test_a_revision_that_is_put_again_goes_on_counting(
    router: Running, upstream: Upstream, other: Upstream, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pulumi_infercrane.router.counting.traffic.KEPT_S", 0.0)
    upstream.script = gate = Gate()
    await client.send(chat())
    await eventually(lambda: router.traffic().inflight == 1)
    book = router.parts.relay.traffic
    counts = router.traffic()
    book.forget("chat", R1)
    await router.put({R1: revision("again", upstream.url)})
    gate.open.set()
    await client.answer()
    book.drop_ended()
    assert book.all() == (counts,)


async def test_changes_of_a_table_are_counted_by_what_came_of_them(
    router: Running, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    applied = router.parts.relay.traffic.applied
    assert applied == {("chat", "applied"): 2}
    await router.put({R1: revision("r1", upstream.url)})
    with pytest.raises(RevisionUnknown):
        await router.parts.live.flip("chat", Flip(R1, R2, "d"))
    with pytest.raises(ServiceUnknown):
        await router.parts.live.delete("invented")
    monkeypatch.setattr(router.parts.live._store, "save", _refuse_to_save)
    with pytest.raises(StateNotWritten):
        await router.put({R1: revision("other", upstream.url)})
    assert applied == {
        ("chat", "applied"): 2,
        ("chat", "unchanged"): 1,
        ("chat", "refused"): 1,
        ("", "refused"): 1,
        ("chat", "failed"): 1,
    }


def _refuse_to_save(_table: RouteTable) -> None:
    raise StateNotWritten("no room")
