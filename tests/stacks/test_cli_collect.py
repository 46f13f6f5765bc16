"""`infercrane collect --sign-with`: what is measured is signed as soon as it is written."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pulumi_infercrane.guard import load_evidence, load_key, new_key
from pulumi_infercrane.guard.collect import find
from pulumi_infercrane.stacks.cli import collect
from pulumi_infercrane.stacks.errors import ConfigError
from tests.guard.conftest import Folder


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """A collector that measures at once: the folder it writes into."""
    folder = Folder(tmp_path / "evidence")

    async def targets(chosen: Any, *, alone: bool) -> tuple[None, None]:
        return None, None

    def measure(*_: Any) -> list[Path]:
        return [folder.benchmark(role) for role in ("candidate", "baseline")]

    place = SimpleNamespace(control=tmp_path / "router.sock", root=tmp_path)
    config = SimpleNamespace(evidence=folder.root)
    chosen = SimpleNamespace(config=config, project=SimpleNamespace(place=place))
    monkeypatch.setattr(collect, "choose", lambda *_: chosen)
    monkeypatch.setattr(collect, "_targets", targets)
    monkeypatch.setattr(collect, "_collect", measure)
    return folder


def run(*arguments: str) -> Result:
    return CliRunner().invoke(collect.command, [*arguments])


def signers(folder: Folder) -> list[list[str]]:
    envelopes = [item.envelope for item in load_evidence(folder.root).items]
    return [[one.keyid for one in e.attestation.signatures] if e and e.attestation else [] for e in envelopes]


def test_both_sides_are_signed(measured: Folder, tmp_path: Path) -> None:
    key = tmp_path / "bench.pem"
    new_key(key)
    assert run("--sign-with", str(key)).exit_code == 0
    assert signers(measured) == [[load_key(key).id]] * 2


def test_nothing_is_signed_unless_asked_for(measured: Folder) -> None:
    assert run().exit_code == 0
    assert signers(measured) == [[], []]


def test_a_key_that_cannot_be_used_is_noticed_before_anything_is_measured(measured: Folder, tmp_path: Path) -> None:
    assert run("--sign-with", str(tmp_path / "none.pem")).exit_code == 1
    assert not measured.root.exists()


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "evidence")


@pytest.fixture
def first(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A stack whose candidate runs while its router serves nothing."""
    entry = {"upstreams": [{"url": "http://127.0.0.1:9"}]}
    live = SimpleNamespace(active="", table={"revisions": {folder.candidate: entry}})
    spec = SimpleNamespace(name="r1", digest=folder.candidate, subject=folder.subjects["candidate"])
    config = SimpleNamespace(candidate="r1", candidate_digest=folder.candidate, service="chat", revisions=[spec])
    place = SimpleNamespace(control=folder.root / "control.sock")

    async def get(service: str) -> Any:
        return live

    @asynccontextmanager
    async def router(path: Path) -> AsyncIterator[Any]:
        yield SimpleNamespace(get=get)

    monkeypatch.setattr(collect, "ControlClient", router)
    return SimpleNamespace(config=config, project=SimpleNamespace(place=place, settings=SimpleNamespace(name="dev")))


async def test_a_first_revision_is_measured_by_what_needs_nothing_to_compare_with(first: Any, folder: Folder) -> None:
    candidate, baseline = await collect._targets(first, alone=find("reliability").alone)
    assert candidate is baseline
    assert candidate.revision_digest == folder.candidate


async def test_a_first_revision_is_not_compared_with_itself(first: Any) -> None:
    with pytest.raises(ConfigError, match="only --kind reliability"):
        await collect._targets(first, alone=find("benchmark").alone)
