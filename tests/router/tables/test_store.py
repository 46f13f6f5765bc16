"""Tables on disk survive everything: probes R4 (killed at any step) and R5 (damaged files)."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pulumi_infercrane.router.errors import StateLocked, StateNotWritten
from pulumi_infercrane.router.tables.schema import read_declared
from pulumi_infercrane.router.tables.store import TableStore, locked
from pulumi_infercrane.router.tables.table import RouteTable
from tests.router.conftest import R1, R2, declared, revision

OLD = RouteTable(
    "chat",
    1,
    read_declared(declared({R1: revision("r1", "http://a:1"), R2: revision("r2", "http://b:1")})),
)
NEW = replace(OLD, generation=2, active=R2, decision_id="decision-1")


@pytest.fixture
def store(tmp_path: Path) -> TableStore:
    store = TableStore(tmp_path)
    store.save(OLD)
    store.save(NEW)
    return store


def reloaded(folder: Path) -> RouteTable | None:
    return TableStore(folder).load().get("chat")


def test_what_was_saved_is_loaded(store: TableStore, tmp_path: Path) -> None:
    assert reloaded(tmp_path) == NEW
    assert json.loads((tmp_path / "chat.previous.json").read_bytes()) == OLD.document()


def test_nobody_else_may_read_it(store: TableStore, tmp_path: Path) -> None:
    assert (tmp_path / "chat.json").stat().st_mode & 0o077 == 0


def test_R5_a_file_cut_at_any_byte_is_replaced_by_its_predecessor(store: TableStore, tmp_path: Path) -> None:
    current, previous = tmp_path / "chat.json", tmp_path / "chat.previous.json"
    whole, before = current.read_bytes(), previous.read_bytes()
    for size in range(0, len(whole), 7):
        current.write_bytes(whole[:size])
        previous.write_bytes(before)
        table = reloaded(tmp_path)
        assert table == replace(OLD, generation=3), size
        assert (tmp_path / "chat.damaged.json").read_bytes() == whole[:size]


@pytest.mark.parametrize(
    "change",
    [
        {"active": R1},
        {"digest": "sha256:" + "0" * 64},
        {"schema": "infercrane.route/v2"},
        {"service": "other"},
        {"surprise": 1},
    ],
)
def test_R5_an_edited_file_is_not_served(
    store: TableStore, tmp_path: Path, change: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "chat.json").write_text(json.dumps(NEW.document() | change))
    assert reloaded(tmp_path) == replace(OLD, generation=3)
    assert "route table of service chat is not usable" in caplog.text


def test_R5_no_generation_is_given_out_twice(store: TableStore, tmp_path: Path) -> None:
    (tmp_path / "chat.json").write_bytes(b"{")
    first = reloaded(tmp_path)
    assert first is not None
    assert first.generation == NEW.generation + 1
    assert reloaded(tmp_path) == first


def test_R5_without_any_good_file_there_is_no_table(
    store: TableStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("chat.json", "chat.previous.json"):
        (tmp_path / name).write_bytes(b"[]")
    assert reloaded(tmp_path) is None
    assert "it answers 503 until one is put" in caplog.text


def test_R5_one_damaged_service_does_not_touch_the_others(store: TableStore, tmp_path: Path) -> None:
    other = replace(NEW, service="other")
    store.save(other)
    (tmp_path / "chat.json").unlink()
    (tmp_path / "chat.previous.json").write_bytes(b"")
    assert TableStore(tmp_path).load() == {"other": other}


def with_aliases(service: str, *aliases: str, generation: int = 1) -> RouteTable:
    return replace(OLD, service=service, generation=generation, declared=replace(OLD.declared, aliases=aliases))


@pytest.mark.parametrize("recovered", ["a", "z"])
def test_R5_a_recovered_table_takes_no_alias_from_the_service_that_has_it_now(
    tmp_path: Path, recovered: str, caplog: pytest.LogCaptureFixture
) -> None:
    store, other = TableStore(tmp_path), with_aliases("m", "chat")
    store.save(with_aliases(recovered, "chat", "own"))
    store.save(with_aliases(recovered, "own", generation=2))
    store.save(other)
    (tmp_path / f"{recovered}.json").write_bytes(b"{")
    tables = TableStore(tmp_path).load()
    assert tables == {"m": other, recovered: with_aliases(recovered, "own", generation=4)}
    assert "aliases: 'chat' belongs to service m" in caplog.text
    assert TableStore(tmp_path).load() == tables


@pytest.mark.parametrize("recovered", ["a", "z"])
def test_R5_a_recovered_table_without_an_alias_of_its_own_is_not_served(tmp_path: Path, recovered: str) -> None:
    store, other = TableStore(tmp_path), with_aliases("m", "chat")
    store.save(with_aliases(recovered, "chat"))
    store.save(with_aliases(recovered, "own", generation=2))
    store.save(other)
    (tmp_path / f"{recovered}.json").write_bytes(b"{")
    for _ in range(2):
        assert TableStore(tmp_path).load() == {"m": other}


def test_of_two_whole_tables_one_has_the_alias(tmp_path: Path) -> None:
    store = TableStore(tmp_path)
    store.save(with_aliases("a", "chat", "a"))
    store.save(with_aliases("b", "chat", "b"))
    tables = {"a": with_aliases("a", "chat", "a"), "b": with_aliases("b", "b", generation=2)}
    for _ in range(2):
        assert TableStore(tmp_path).load() == tables


class Killed(BaseException):
    """Stands for SIGKILL: nothing of ours catches it."""


def killing(step: int, real: Callable[..., Any], seen: list[str]) -> Callable[..., Any]:
    def call(*arguments: Any, **more: Any) -> Any:
        seen.append(real.__name__)
        if len(seen) == step:
            raise Killed
        return real(*arguments, **more)

    return call


@pytest.mark.parametrize("step", range(1, 12))
def test_R4_killed_at_any_step_the_table_is_old_or_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    TableStore(tmp_path).save(replace(OLD, generation=1, decision_id="before"))
    TableStore(tmp_path).save(OLD)
    seen: list[str] = []
    with monkeypatch.context() as patch:
        for name in ("open", "fsync", "link", "replace", "unlink"):
            patch.setattr(os, name, killing(step, getattr(os, name), seen))
        try:
            TableStore(tmp_path).save(NEW)
            assert len(seen) < step, "a step was not reached"
        except Killed:
            pass
    table = reloaded(tmp_path)
    assert table in (OLD, NEW)
    if len(seen) < step:
        assert table == NEW


def test_a_deleted_service_stays_deleted_and_its_generation_known(store: TableStore, tmp_path: Path) -> None:
    for _ in range(2):
        store.delete("chat")
        assert TableStore(tmp_path).load() == {}
        assert (store.last_generation("chat"), store.last_generation("other")) == (NEW.generation, 0)


@pytest.mark.parametrize("step", range(1, 5))
def test_R4_killed_at_any_step_of_a_deletion_the_table_is_there_or_its_generation_known(
    store: TableStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    seen: list[str] = []
    with monkeypatch.context() as patch:
        for name in ("open", "fsync", "replace", "unlink"):
            patch.setattr(os, name, killing(step, getattr(os, name), seen))
        with pytest.raises(Killed):
            store.delete("chat")
    table = reloaded(tmp_path)
    assert table == NEW if table is not None else store.last_generation("chat") == NEW.generation


def test_R5_the_generation_of_a_table_that_cannot_be_read_is_above_any_it_may_have_had(
    store: TableStore, tmp_path: Path
) -> None:
    for name in ("chat.json", "chat.previous.json"):
        (tmp_path / name).write_bytes(b"{")
    assert reloaded(tmp_path) is None
    assert NEW.generation < store.last_generation("chat") < 10**15


def test_a_full_disk_is_named(store: TableStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StateNotWritten, match=r"chat\.json: No space left on device"):
            store.save(replace(NEW, generation=3))
    assert reloaded(tmp_path) == NEW


def test_a_directory_is_locked_once(tmp_path: Path) -> None:
    with (
        locked(tmp_path),
        pytest.raises(StateLocked, match="stop it, or give this one its own --state"),
        locked(tmp_path),
    ):
        pass
    with locked(tmp_path):
        pass


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateNotWritten, match="file/state"), locked(tmp_path / "file" / "state"):
        pass
