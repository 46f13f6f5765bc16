"""What a stack may do to its candidate for a drill: never when users may reach it."""

import time
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest

from pulumi_infercrane.components.supervision.restarting import ProcessNotRestarted
from pulumi_infercrane.guard.collect import CollectError
from pulumi_infercrane.guard.collect.handles import Handles
from pulumi_infercrane.router.control.client import LiveService, RouterUnreachable
from pulumi_infercrane.stacks import handles as module
from tests.guard.collect.scripted import target_of

R1, R2 = "sha256:" + "1" * 64, "sha256:" + "2" * 64


def live(active: str = R1, **more: Any) -> LiveService:
    table: Mapping[str, Any] = more.pop("table", {"service": "chat", "revisions": {}})
    return LiveService(table, "3", "sha256:t", active, "sha256:d", more.pop("inflight", {R2: 0}), **more)


@pytest.fixture
def handles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Handles:
    """Of a stack in which r1 serves and r2 is the candidate."""
    monkeypatch.setattr(module, "ControlClient", Router)
    Router.answer = live()
    candidate = SimpleNamespace(name="r2", digest=R2)
    config: Any = SimpleNamespace(
        service="chat", candidate="r2", revision=lambda _: candidate, router=SimpleNamespace(drainS=5.0)
    )
    place = SimpleNamespace(control=tmp_path / "router.sock", root=tmp_path)
    project: Any = SimpleNamespace(place=place)
    return module.handles_of(project, config)


class Router:
    """Answers as told."""

    answer: LiveService | Exception = live()

    def __init__(self, _: Path) -> None: ...

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def get(self, _: str) -> LiveService:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


async def restarted(handles: Handles) -> float:
    assert handles.restart is not None
    return await handles.restart()


async def test_the_candidate_is_restarted_by_its_supervisor(
    handles: Handles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders: list[Path] = []
    monkeypatch.setattr(module, "restart", lambda folder: folders.append(folder) or time.time() - 2.0)
    started = await restarted(handles)
    assert folders == [tmp_path / "processes" / "r2-22222222"]
    assert time.perf_counter() - started == pytest.approx(2.0, abs=0.5)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (live(active=R2), "is active"),
        (live(weights={R1: 95, R2: 5}), "has a share of the traffic"),
        (live(table={"revisions": {}, "fallback": R2}), "is the fallback"),
        (live(inflight={R1: 9, R2: 1}), "has requests in flight"),
    ],
)
async def test_what_users_may_reach_is_not_restarted(
    handles: Handles, monkeypatch: pytest.MonkeyPatch, answer: LiveService, why: str
) -> None:
    def restart(_: Path) -> float:
        pytest.fail("it was restarted")

    monkeypatch.setattr(module, "restart", restart)
    Router.answer = answer
    with pytest.raises(CollectError, match=f"r2 {why}, so it is not restarted"):
        await restarted(handles)


async def test_without_an_answer_of_the_router_nothing_is_restarted(handles: Handles) -> None:
    Router.answer = RouterUnreachable("no router answers")
    with pytest.raises(CollectError, match="the router of chat cannot be asked: no router answers"):
        await restarted(handles)


async def test_a_restart_that_fails_is_a_failure_to_collect(handles: Handles, monkeypatch: pytest.MonkeyPatch) -> None:
    def restart(_: Path) -> float:
        raise ProcessNotRestarted("it is gone")

    monkeypatch.setattr(module, "restart", restart)
    with pytest.raises(CollectError, match="r2 cannot be restarted: it is gone"):
        await restarted(handles)


async def test_a_route_that_cannot_be_rehearsed_is_a_failure_to_collect(handles: Handles) -> None:
    sides = target_of("r2", "http://127.0.0.1:1"), target_of("r1", "http://127.0.0.1:2")
    revisions = {side.revision_digest: {"label": side.label, "upstreams": []} for side in sides}
    Router.answer = live(
        table={"service": "chat", "aliases": [], "protocols": [], "timers": {}, "revisions": revisions}
    )
    assert handles.rehearse is not None
    with pytest.raises(CollectError, match="rollback and drain cannot be rehearsed"):
        async with handles.rehearse(*sides):
            pytest.fail("it was rehearsed")


def test_without_a_supervisor_nobody_counts_kills(handles: Handles) -> None:
    assert handles.oom_kills() is None
