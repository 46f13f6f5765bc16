"""Release and Route against a real router: one compare-and-swap, looked up when its answer is lost."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest

from pulumi_infercrane.components.deciding import checking
from pulumi_infercrane.components.plugin.resource import (
    CreateRequest,
    DeleteRequest,
    DiffRequest,
    Failure,
    PartialFailure,
    ReadRequest,
    UpdateRequest,
)
from pulumi_infercrane.components.plugin.resources.release import Release
from pulumi_infercrane.components.plugin.resources.route import Route
from pulumi_infercrane.components.plugin.route_calls import refuse_unready
from pulumi_infercrane.components.plugin.wire import UNKNOWN, Secret
from pulumi_infercrane.components.supervision import readiness
from pulumi_infercrane.guard import Ledger, sign_override
from pulumi_infercrane.router.control.client import ControlClient, Flip, LiveService
from tests.components.plugin.releasing import URN, Run, route_inputs
from tests.components.plugin.releasing import router as router
from tests.components.plugin.releasing import run as run
from tests.components.plugin.releasing import short as short
from tests.guard.conftest import POLICY, Folder
from tests.guard.trust.conftest import entry, key_of, trusting


async def ordered(run: Run) -> dict[str, Any]:
    """What an override to the other revision asks of the route."""
    run.policy = "trust: " + trusting(entry(key_of("ann"), kinds=["override"])).partition("trust: ")[2]
    await run.create()
    order = sign_override(
        key_of("ann"),
        service="chat",
        stack="lab/dev",
        target=run.evidence.candidate,
        owner="ann",
        reason="r1 leaks",
        issued_at=datetime(2026, 11, 30, 5, tzinfo=UTC),
        expires_at=datetime(2100, 1, 1, tzinfo=UTC),
    )
    inputs = await run.check(override=order)
    assert inputs["activeRevision"] == run.evidence.candidate
    return inputs


async def test_an_override_to_a_target_that_does_not_answer_moves_nothing_and_is_not_used_up(run: Run) -> None:
    """Nothing listens behind the revisions of this route."""
    inputs = await ordered(run)
    with pytest.raises(Failure, match=r"is not ready, route not moved \(http://127.0.0.1:2: ConnectError") as raised:
        await run.update(inputs)
    assert raised.value.status == grpc.StatusCode.FAILED_PRECONDITION
    assert await run.served() == run.evidence.baseline
    assert len(list(Ledger(run.folder / "ledger.jsonl").entries())) == 1


def answering(monkeypatch: pytest.MonkeyPatch, after_s: float = 0.0) -> None:
    """Every replica answers, if only after a while."""

    async def problem(probe: readiness.Probe) -> None:
        await asyncio.sleep(after_s)

    monkeypatch.setattr(readiness, "problem", problem)


async def test_a_replica_that_gets_no_new_requests_does_not_answer_for_its_revision(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def problem(probe: readiness.Probe) -> readiness.NotReady | None:
        return readiness.NotReady("health", "hangs") if probe.base_url.endswith(":2") else None

    class Router(ControlClient):
        async def get(self, service: str) -> LiveService:
            upstreams = [{"url": "http://127.0.0.1:1", "state": "draining"}, {"url": "http://127.0.0.1:2"}]
            revision = {"dialect": "llama.cpp", "upstream_model": "chat", "upstreams": upstreams}
            return LiveService({"revisions": {"r2": revision}}, "1", "", "r1", "", {})

    monkeypatch.setattr(readiness, "problem", problem)
    order = {"decisionType": "override", "decisionId": "d", "service": "chat", "activeRevision": "r2"}
    with pytest.raises(Failure, match=r"not ready, route not moved \(http://127.0.0.1:2: hangs\)"):
        await refuse_unready(Router(Path("none")), order)


async def test_an_override_that_happened_is_repeated_though_its_target_hangs_by_now(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine was killed after the flip and before it wrote its state."""
    inputs = await ordered(run)
    before = dict(run.inputs), dict(run.outputs)
    with monkeypatch.context() as patched:
        answering(patched)
        await run.update(inputs)
    run.inputs, run.outputs = before
    await run.update(inputs)
    assert run.outputs["servedRevision"] == run.evidence.candidate


async def test_an_override_that_expires_while_its_target_is_asked_moves_nothing(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = await ordered(run)
    answering(monkeypatch, after_s=0.3)
    soon = (datetime.now(UTC) + timedelta(seconds=0.2)).isoformat()
    with pytest.raises(Failure, match="expired at"):
        await run.update(inputs | {"expiresAt": soon})
    assert await run.served() == run.evidence.baseline


async def test_create_flips_from_nothing_and_keeps_the_decision(run: Run) -> None:
    await run.create()
    assert await run.served() == run.evidence.baseline
    (entry,) = Ledger(run.folder / "ledger.jsonl").entries()
    assert entry.decision["decision_id"] == run.outputs["decisionId"]


async def test_a_first_revision_without_what_the_policy_requires_waits(run: Run) -> None:
    text = "bootstrap: {required_kinds: [benchmark]}\n" + POLICY
    asked = {"policy": {"source": "policy.yaml", "text": text}}
    await run.create(**asked)
    assert (run.outputs["servedRevision"], run.outputs["verdict"]) == ("", "insufficient_evidence")
    assert (await run.served(), run.outputs["servedDecision"]) == ("", "")
    assert await run.changed(await run.check(**asked)) == []
    run.evidence.benchmark("baseline", change=lambda envelope: envelope.update(role="candidate"))
    await run.update(await run.check(**asked))
    assert await run.served() == run.evidence.baseline


async def test_a_preview_touches_neither_route_nor_ledger(run: Run) -> None:
    inputs = await run.check()
    made = await run.release.create(CreateRequest(run.context, URN, "chat", inputs, preview=True, timeout_s=0))
    assert (made.id, made.outputs["activeRevision"]) == ("", run.evidence.baseline)
    assert await run.served() == ""
    assert not (run.folder / "ledger.jsonl").exists()


async def test_a_route_that_serves_something_else_is_not_taken_over(run: Run) -> None:
    async with ControlClient(run.control) as client:
        await client.flip("chat", Flip(expected_active="", to=run.evidence.candidate, decision_id="somebody"))
    with pytest.raises(Failure, match="already serves") as raised:
        await run.create()
    assert raised.value.status == grpc.StatusCode.FAILED_PRECONDITION
    assert "name it as initialActive" in str(raised.value)
    assert await run.served() == run.evidence.candidate


async def test_a_route_that_serves_the_very_revision_is_adopted(run: Run) -> None:
    async with ControlClient(run.control) as client:
        await client.flip("chat", Flip(expected_active="", to=run.evidence.baseline, decision_id="somebody"))
    await run.create()
    assert await run.served() == run.evidence.baseline


async def test_a_promotion_moves_the_route_and_the_next_run_shows_no_difference(run: Run) -> None:
    await run.create()
    run.evidence.both()
    inputs = await run.check(candidate=run.evidence.candidate)
    assert "activeRevision" in await run.changed(inputs)
    await run.update(inputs)
    assert await run.served() == run.evidence.candidate
    await run.refresh()
    assert await run.changed(await run.check(candidate=run.evidence.candidate)) == []


async def test_repeating_an_update_that_happened_changes_nothing(run: Run) -> None:
    """The engine was killed after the flip and before it wrote its state."""
    await run.create()
    run.evidence.both()
    inputs = await run.check(candidate=run.evidence.candidate)
    before = dict(run.inputs), dict(run.outputs)
    await run.update(inputs)
    generation = run.outputs["routeGeneration"]
    run.inputs, run.outputs = before
    await run.update(inputs)
    assert run.outputs["routeGeneration"] == generation


async def test_an_expired_decision_does_not_move_the_route(run: Run) -> None:
    await run.create()
    run.evidence.both()
    inputs = await run.check(candidate=run.evidence.candidate)
    with pytest.raises(Failure, match="expired at 2020"):
        await run.update(inputs | {"expiresAt": "2020-01-01T00:00:00Z"})
    assert await run.served() == run.evidence.baseline


async def standing(run: Run) -> tuple[LiveService, bytes]:
    """The route and the ledger as they are."""
    async with ControlClient(run.control) as client:
        return await client.get("chat"), (run.folder / "ledger.jsonl").read_bytes()


async def test_a_defect_while_deciding_touches_neither_route_nor_ledger(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    await run.create()
    run.evidence.both()
    before = await standing(run)

    def defect(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a rule divides by zero")

    with monkeypatch.context() as broken, pytest.raises(ZeroDivisionError):
        broken.setattr(checking, "decide", defect)
        await run.check(candidate=run.evidence.candidate)
    assert await standing(run) == before
    await run.update(await run.check(candidate=run.evidence.candidate))
    assert await run.served() == run.evidence.candidate


async def test_a_route_moved_meanwhile_is_not_overwritten(run: Run) -> None:
    await run.create()
    run.evidence.both()
    inputs = await run.check(candidate=run.evidence.candidate)
    run.outputs["servedRevision"] = "sha256:" + "9" * 64
    with pytest.raises(Failure, match="active_changed") as raised:
        await run.update(inputs)
    assert raised.value.status == grpc.StatusCode.ABORTED
    assert await run.served() == run.evidence.baseline


async def test_read_repairs_what_somebody_moved_by_hand(run: Run) -> None:
    await run.create()
    async with ControlClient(run.control) as client:
        await client.flip("chat", Flip(run.evidence.baseline, run.evidence.candidate, "by-hand"))
    await run.refresh()
    assert run.inputs["activeRevision"] == run.outputs["activeRevision"] == run.evidence.candidate
    inputs = await run.check(candidate=run.evidence.candidate)
    assert inputs["decisionType"] == "unguarded"


async def test_read_keeps_the_record_when_the_router_is_gone(run: Run) -> None:
    await run.create()
    run.inputs["route"] = {"control": str(run.folder / "gone.sock")}
    before = dict(run.outputs)
    await run.refresh()
    assert run.outputs == before
    assert run.said[0].startswith("warning: router not reachable")


async def test_a_router_that_lost_its_table_is_given_the_route_again(run: Run) -> None:
    await run.create()
    async with ControlClient(run.control) as client:
        await client.delete("chat")
    await run.route()
    await run.refresh()
    inputs = await run.check()
    assert await run.changed(inputs) == ["activeRevision"]
    await run.update(inputs)
    assert await run.served() == run.evidence.baseline


async def test_a_flip_without_its_decision_in_the_ledger_is_refused(run: Run) -> None:
    await run.create()
    run.evidence.both()
    inputs = await run.check(candidate=run.evidence.candidate)
    run.release = Release()
    with pytest.raises(Failure, match="does not hold the decision"):
        await run.update(inputs)
    assert await run.served() == run.evidence.baseline


async def test_a_ledger_that_cannot_be_written_leaves_the_route_alone(run: Run) -> None:
    await run.create()
    run.evidence.both()
    inputs = await run.check(candidate=run.evidence.candidate)
    with pytest.raises(Failure, match="route not touched"):
        await run.update(inputs | {"ledger": str(run.folder / "no" / "ledger.jsonl")})
    assert await run.served() == run.evidence.baseline


async def test_delete_only_forgets(run: Run) -> None:
    await run.create()
    await run.release.delete(DeleteRequest(run.context, "release/chat", URN, run.inputs, run.outputs, timeout_s=0))
    assert await run.served() == run.evidence.baseline


@pytest.mark.parametrize("key", ["candidate", "revisions", "route"])
async def test_what_pins_the_decision_must_be_known_at_preview(run: Run, key: str) -> None:
    value = [UNKNOWN] if key == "revisions" else UNKNOWN
    assert (key, "must be known at preview") in await run.problems(**{key: value})


async def test_a_secret_may_not_enter_the_decision(run: Run) -> None:
    problems = await run.problems(policy={"source": "policy.yaml", "text": Secret("x")})
    assert problems[0][0] == "policy"
    assert "may not be secret" in problems[0][1]


async def test_evidence_that_is_not_known_yet_promotes_nobody(run: Run) -> None:
    await run.create()
    inputs = await run.check(candidate=run.evidence.candidate, evidence=[{"path": UNKNOWN, "sha256": "x"}])
    assert (inputs["verdict"], inputs["activeRevision"]) == ("insufficient_evidence", run.evidence.baseline)


@asynccontextmanager
async def relay(control: Path, at: Path, drop_answer: Callable[[bytes], bool]) -> AsyncIterator[None]:
    """A control socket that passes calls on and loses the answers of some."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.read(65536)
        upstream_reader, upstream = await asyncio.open_unix_connection(str(control))
        upstream.write(request)
        answer = await upstream_reader.read(65536)
        if not drop_answer(request):
            writer.write(answer)
            await writer.drain()
        for stream in (writer, upstream):
            stream.close()

    server = await asyncio.start_unix_server(serve, str(at))
    try:
        yield
    finally:
        server.close()


async def test_a_lost_answer_is_looked_up_not_repeated(run: Run, short: Path) -> None:
    await run.create()
    run.evidence.both()
    inputs = await run.check(candidate=run.evidence.candidate) | {"route": {"control": str(short / "lossy.sock")}}
    async with relay(run.control, short / "lossy.sock", lambda request: b"/flip" in request):
        await run.update(inputs)
    assert run.outputs["activeRevision"] == run.evidence.candidate
    assert await run.served() == run.evidence.candidate


async def test_a_router_that_goes_silent_leaves_a_partial_failure(run: Run, short: Path) -> None:
    await run.create()
    run.evidence.both()
    inputs = await run.check(candidate=run.evidence.candidate) | {"route": {"control": str(short / "lossy.sock")}}
    async with relay(run.control, short / "lossy.sock", lambda _: True):
        with pytest.raises(PartialFailure, match="went silent"):
            await run.update(inputs)


async def test_a_route_is_created_once_changed_in_place_and_read_back(router: Path, tmp_path: Path) -> None:
    run = Run(router, tmp_path, Folder(tmp_path / "evidence"))
    route, digests = Route(), ("sha256:" + "1" * 64, "sha256:" + "2" * 64)
    first = route_inputs(router, digests[0])
    made = await route.create(CreateRequest(run.context, URN, "chat", first, preview=False, timeout_s=0))
    again = await route.create(CreateRequest(run.context, URN, "chat", first, preview=False, timeout_s=0))
    assert made.id == again.id == "route/chat"
    both = route_inputs(router, *digests)
    diff = await route.diff(DiffRequest(run.context, made.id, URN, first, made.outputs, both))
    assert diff.changed == ["revisions"]
    await route.update(UpdateRequest(run.context, made.id, URN, first, made.outputs, both, preview=False, timeout_s=0))
    read = await route.read(ReadRequest(run.context, made.id, URN, both, {}))
    assert read.outputs["drift"] is False
    await route.update(UpdateRequest(run.context, made.id, URN, both, made.outputs, first, preview=False, timeout_s=0))
    async with ControlClient(router) as client:
        assert list((await client.get("chat")).table["revisions"]) == [digests[0]]
    await route.delete(DeleteRequest(run.context, made.id, URN, first, {}, timeout_s=0))
    assert (await route.read(ReadRequest(run.context, made.id, URN, first, {}))).outputs["drift"]


async def test_upstreams_changed_behind_our_back_are_drift(router: Path, tmp_path: Path) -> None:
    run = Run(router, tmp_path, Folder(tmp_path / "evidence"))
    route = Route()
    inputs = route_inputs(router, "sha256:" + "1" * 64)
    await route.create(CreateRequest(run.context, URN, "chat", inputs, preview=False, timeout_s=0))
    elsewhere = inputs | {"revisions": [inputs["revisions"][0] | {"urls": ["http://127.0.0.1:9"]}]}
    read = await route.read(ReadRequest(run.context, "route/chat", URN, elsewhere, {}))
    diff = await route.diff(DiffRequest(run.context, "route/chat", URN, elsewhere, read.outputs, elsewhere))
    assert diff.changed == ["revisions"]
