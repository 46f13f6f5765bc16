"""Writing a folder: what changed, nothing older, nobody else's."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pulumi_infercrane.router.errors import ExportNotLive, ExportRefused
from pulumi_infercrane.router.export import _deliver, haproxy
from pulumi_infercrane.router.export._deliver import deliver
from pulumi_infercrane.router.export._files import RECORD
from pulumi_infercrane.router.export._place import Place
from pulumi_infercrane.router.export._process import running
from pulumi_infercrane.router.tables.table import RouteTable
from tests.router.conftest import R1, R2
from tests.router.export.conftest import table_of
from tests.router.export.test_render import both

Places = Callable[[str], Place]


def table(generation: int = 1, active: str = R1) -> RouteTable:
    return table_of(both("haproxy"), active, generation)


def test_only_what_changed_is_written(place: Places) -> None:
    at = place("haproxy")
    assert deliver("haproxy", table(), at).written == ("active.map", "haproxy.cfg")
    assert deliver("haproxy", table(2, R2), at).written == ("active.map",)
    assert deliver("haproxy", table(2, R2), at).written == ()


def test_the_record_says_which_table_is_there(place: Places) -> None:
    at = place("haproxy")
    deliver("haproxy", table(7), at)
    record = json.loads((at.folder / RECORD).read_text())
    assert (record["target"], record["service"], record["generation"]) == ("haproxy", "chat", "7")
    assert (record["decision_id"], record["digest"]) == ("decision-7", table(7).digest)
    assert sorted(record["files"]) == ["active.map", "haproxy.cfg"]


def test_files_no_table_needs_any_more_go(place: Places) -> None:
    at = place("envoy")
    deliver("envoy", table_of(both("envoy"), R1), at)
    before = {path.name for path in at.folder.iterdir()}
    deliver("envoy", table_of({R1: both("envoy")[R1]}, R1, 2), at)
    assert before - {path.name for path in at.folder.iterdir()} == {f"eds-{R2[7:]}.json"}


def test_an_older_generation_is_refused(place: Places) -> None:
    at = place("haproxy")
    deliver("haproxy", table(3, R2), at)
    with pytest.raises(ExportRefused, match="holds generation 3, this table is 2"):
        deliver("haproxy", table(2), at)
    assert b"active " + R2.encode() in (at.folder / "active.map").read_bytes()


def test_a_folder_of_somebody_else_is_refused(place: Places) -> None:
    at = place("haproxy")
    at.folder.mkdir()
    (at.folder / "mine").touch()
    with pytest.raises(ExportRefused, match="is not empty and was not written by an export"):
        deliver("haproxy", table(), at)
    assert [path.name for path in at.folder.iterdir()] == ["mine"]


def test_a_folder_of_another_target_is_refused(place: Places) -> None:
    at = place("haproxy")
    deliver("haproxy", table(), at)
    with pytest.raises(ExportRefused, match="holds chat for haproxy: take another folder"):
        deliver("nginx", table(), at)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"schema": "infercrane.export/v1"}'])
def test_a_record_that_cannot_be_read_is_refused(place: Places, content: str) -> None:
    at = place("haproxy")
    at.folder.mkdir()
    (at.folder / RECORD).write_text(content)
    with pytest.raises(ExportRefused, match="cannot be read: remove it"):
        deliver("haproxy", table(), at)


def test_a_record_cannot_name_files_elsewhere(place: Places) -> None:
    at = place("haproxy")
    deliver("haproxy", table(), at)
    record = json.loads((at.folder / RECORD).read_text())
    record["files"] = {"../other": ""}
    (at.folder / RECORD).write_text(json.dumps(record))
    (at.folder.parent / "other").touch()
    with pytest.raises(ExportRefused, match="is not a file of its folder"):
        deliver("haproxy", table(), at)
    assert (at.folder.parent / "other").exists()


def test_what_did_not_become_live_is_told_again(place: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy that was told, and did not do it, is told again with all files, not with what changed since."""
    at = place("haproxy")
    deliver("haproxy", table(), at)
    told: list[tuple[str, ...]] = []
    monkeypatch.setattr(haproxy, "tell", lambda _place, _files, names: told.append(tuple(names)) or True)
    monkeypatch.setattr(_deliver, "LIVE_S", 0.02)
    for _ in range(2):
        with pytest.raises(ExportNotLive, match="does not serve generation 2"):
            deliver("haproxy", table(2, R2), at)
    assert told == [("active.map",), ("active.map", "haproxy.cfg")]


def test_a_process_that_is_not_the_proxy_is_never_signalled(tmp_path: Path) -> None:
    import os

    (tmp_path / "pid").write_text(str(os.getpid()))
    assert running(tmp_path / "pid", ("nginx: master process",)) is None
    for content in ("", "x", "999999999"):
        (tmp_path / "pid").write_text(content)
        assert running(tmp_path / "pid", ()) is None
