"""The cache of real parts is filled once, completely or not at all."""

import json
from pathlib import Path

import pytest

from tests.runtimes import downloads, inventory
from tests.runtimes.inventory import Model, fill


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def no_download(monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(folder: Path, *_: object) -> None:
        folder.mkdir()
        (folder / "llama-server").write_bytes(b"server")

    monkeypatch.setattr(downloads, "fetch_llama_server", fetch)


pytestmark = pytest.mark.usefixtures("no_download")


def writes(text: str, name: str = "a") -> Model:
    def make(path: Path, _: object) -> None:
        path.write_text(text)

    return Model(name, f"{name}.gguf", make)


def test_manifest_names_path_and_digest_of_every_piece(tmp_path: Path, said: list[str]) -> None:
    manifest = fill(tmp_path, [writes("one")], said.append)
    assert manifest["models"]["a"]["path"] == str(tmp_path / "models" / "a.gguf")
    assert manifest["models"]["a"]["sha256"] == "sha256:" + downloads.sha256_file(tmp_path / "models" / "a.gguf")
    assert Path(manifest["server"]["path"]).read_bytes() == b"server"
    assert json.loads((tmp_path / "manifest.json").read_bytes()) == manifest


def test_second_run_makes_nothing(tmp_path: Path, said: list[str]) -> None:
    first = fill(tmp_path, [writes("one")], said.append)
    said.clear()
    assert fill(tmp_path, [writes("two")], said.append) == first
    assert said == []


def test_a_changed_file_is_made_again(tmp_path: Path, said: list[str]) -> None:
    fill(tmp_path, [writes("one")], said.append)
    (tmp_path / "models" / "a.gguf").write_text("edited")
    fill(tmp_path, [writes("one")], said.append)
    assert (tmp_path / "models" / "a.gguf").read_text() == "one"


def test_a_broken_off_run_leaves_nothing_half_done_and_the_next_goes_on(tmp_path: Path, said: list[str]) -> None:
    def breaks_off(path: Path, _: object) -> None:
        path.write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fill(tmp_path, [writes("one"), Model("b", "b.gguf", breaks_off)], said.append)
    assert [path.name for path in (tmp_path / "models").iterdir()] == ["a.gguf"]
    said.clear()
    fill(tmp_path, [writes("two"), writes("b", name="b")], said.append)
    assert said == ["making b.gguf"]


def test_an_unreadable_manifest_means_making_anew(tmp_path: Path, said: list[str]) -> None:
    (tmp_path / "manifest.json").write_text('{"models": ')
    assert "a" in fill(tmp_path, [writes("one")], said.append)["models"]


def test_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("INFERCRANE_CACHE", raising=False)
    assert inventory.cache_folder() == tmp_path / "pulumi-infercrane"
    monkeypatch.setenv("INFERCRANE_CACHE", str(tmp_path / "mine"))
    assert inventory.cache_folder() == tmp_path / "mine"
