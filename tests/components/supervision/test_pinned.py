"""Files pinned by sha256."""

import sys
from hashlib import sha256
from pathlib import Path

import pytest

from pulumi_infercrane.components.supervision import pinned
from pulumi_infercrane.components.supervision.pinned import PinnedFileDiffers


def pin(path: str, content: bytes) -> dict[str, str]:
    return {"path": path, "sha256": "sha256:" + sha256(content).hexdigest()}


def test_the_declared_bytes_pass(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(b"weights")
    pinned.verify([pin(str(tmp_path / "m"), b"weights")])


def test_other_bytes_are_refused_with_both_digests(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(b"other")
    with pytest.raises(PinnedFileDiffers) as caught:
        pinned.verify([pin(str(tmp_path / "m"), b"weights")])
    assert sha256(b"other").hexdigest() in str(caught.value)
    assert sha256(b"weights").hexdigest() in str(caught.value)


def test_a_bare_name_is_a_program_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    program = Path(sys.executable)
    monkeypatch.setenv("PATH", str(program.parent))
    pinned.verify([pin(program.name, program.read_bytes())])
    assert pinned.missing({"path": "no-such-program"}) == "no-such-program: no such file"


def test_an_empty_file_and_a_folder_are_no_files(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert "not a file, or empty" in pinned.missing({"path": str(tmp_path / "empty")})
    assert "not a file, or empty" in pinned.missing({"path": str(tmp_path)})
