"""What a revision needs on this machine is looked for before the engine starts, and named with its line."""

from pathlib import Path

import pytest

from pulumi_infercrane.stacks.config import StackConfig, from_file
from pulumi_infercrane.stacks.errors import ConfigError
from pulumi_infercrane.stacks.needed_files import require_files
from pulumi_infercrane.stacks.project import find_project
from pulumi_infercrane.stacks.release import Request, run

DIGEST = "sha256:" + "a" * 64
R1 = f"""\
model: {{{{sha256: "{DIGEST}", path: m.gguf}}}}
runtime:
  engine: llama.cpp
  version: b1
  executable: {{program}}
  sha256: "{DIGEST}"
"""


def configured(folder: Path, program: str = "./server") -> StackConfig:
    """A stack whose revision needs `m.gguf` and a program; the settings of the revision are in a file of its own."""
    (folder / "Pulumi.yaml").write_text("name: lab\nruntime: python\n")
    (folder / "Pulumi.dev.yaml").write_text(
        "config:\n  infercrane:service: chat\n  infercrane:revisions: {r1: {file: r1.yaml}}\n"
    )
    (folder / "r1.yaml").write_text(R1.format(program=program))
    return from_file(find_project(folder, "dev"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "m.gguf").write_text("GGUF")
    (tmp_path / "server").write_text("#!/bin/sh\n")
    (tmp_path / "server").chmod(0o755)
    return tmp_path


def test_nothing_is_said_when_all_is_there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_files(configured(folder))
    monkeypatch.setenv("PATH", str(folder))
    require_files(configured(folder, "server"))


def test_everything_that_is_missing_is_named_at_once_with_its_line(folder: Path) -> None:
    (folder / "m.gguf").unlink()
    (folder / "server").chmod(0o644)
    with pytest.raises(ConfigError) as raised:
        require_files(configured(folder))
    model, server = str(raised.value).splitlines()
    assert model == f"r1.yaml:1: model.path of revision r1: {folder}/m.gguf: no such file"
    assert server.startswith(
        f"r1.yaml:5: runtime.executable of revision r1: {folder}/server: not there, or not executable; install"
    )


def test_an_empty_model_is_none(folder: Path) -> None:
    (folder / "m.gguf").write_text("")
    with pytest.raises(ConfigError, match="not a file, or empty"):
        require_files(configured(folder))


def test_a_name_that_is_not_on_path_is_told_so(folder: Path) -> None:
    with pytest.raises(ConfigError, match="r1: no-such-server: not found on PATH; install"):
        require_files(configured(folder, "no-such-server"))


def test_no_operation_begins_without_them(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFERCRANE_STATE_DIR", str(folder / "state"))
    config = configured(folder, "no-such-server")
    with pytest.raises(ConfigError, match="not found on PATH"):
        run(find_project(folder, "dev"), config, Request(), lambda line: None)
    assert not (folder / "state").exists()
