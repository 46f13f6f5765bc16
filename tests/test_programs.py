"""Where programs of others come from, without one being installed."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.programs import ProgramMissing, prepare

WANTED = (("chromium", "google-chrome"), ("chromium", "fonts-dejavu-core"), "browser")

Put = Callable[[str, str], Path]


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Put:
    """A PATH with nothing on it but what a test puts there; run as root."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("tests.programs.PLACES", "")
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    def put(name: str, script: str) -> Path:
        (tmp_path / name).write_text(f"#!{sys.executable}\n{script}\n")
        (tmp_path / name).chmod(0o755)
        return tmp_path / name

    return put


def test_one_on_path_is_taken(path: Put) -> None:
    chrome = path("google-chrome", "")
    assert prepare(*WANTED) == chrome


def test_root_installs_it_once(path: Put, tmp_path: Path) -> None:
    place = tmp_path / "chromium"
    path("apt-get", f"import sys, pathlib\nif 'install' in sys.argv: pathlib.Path({str(place)!r}).touch(0o755)")
    assert prepare(*WANTED) == place


def test_an_installation_that_fails_says_why_and_what_to_do(path: Put) -> None:
    path("apt-get", "import sys; sys.exit('no route to the archive')")
    with pytest.raises(ProgramMissing, match=r"apt-get.* update failed; install one .*-m 'not browser'(?s:.)*no route"):
        prepare(*WANTED)


def test_others_are_told_what_to_do(path: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    path("apt-get", "raise SystemExit(1)")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(ProgramMissing, match="no chromium on PATH; install one") as found:
        prepare(*WANTED)
    assert found.value.code == "program_missing"
