"""`infercrane collect --sign-with`: what is measured is signed as soon as it is written."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pulumi_infercrane.guard import load_evidence, load_key, new_key
from pulumi_infercrane.stacks.cli import collect
from tests.guard.conftest import Folder


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """A collector that measures at once: the folder it writes into."""
    folder = Folder(tmp_path / "evidence")

    async def targets(chosen: Any) -> tuple[None, None]:
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
