"""Keys on disk survive damage, and damage revives none."""

import os
from pathlib import Path

import pytest

from pulumi_infercrane.router import durable
from pulumi_infercrane.router.clients.key_store import KeyStore
from pulumi_infercrane.router.clients.keys import Grant, Keyring, issue, revoke
from pulumi_infercrane.router.errors import StateNotWritten

NOW = "2026-11-30T09:00:00Z"
OLD = issue({}, Grant("old", ("chat",)), NOW)
NEW = issue(OLD.keys, Grant("new", ("chat",)), NOW)


@pytest.fixture
def store(tmp_path: Path) -> KeyStore:
    store = KeyStore(tmp_path)
    store.save(OLD.keys, shrinks=False)
    store.save(NEW.keys, shrinks=False)
    return store


def test_what_was_saved_is_loaded(store: KeyStore, tmp_path: Path) -> None:
    assert KeyStore(tmp_path).load() == NEW.keys


def test_no_file_is_something_else_than_no_key(tmp_path: Path) -> None:
    assert KeyStore(tmp_path).load() is None
    KeyStore(tmp_path).save({}, shrinks=False)
    assert KeyStore(tmp_path).load() == {}


def test_nobody_else_may_read_it(store: KeyStore, tmp_path: Path) -> None:
    for path in (tmp_path / "keys", *(tmp_path / "keys").iterdir()):
        assert path.stat().st_mode & 0o077 == 0, path


def test_no_secret_is_on_disk(store: KeyStore, tmp_path: Path) -> None:
    for path in (tmp_path / "keys").iterdir():
        assert NEW.secret.encode() not in path.read_bytes()


def test_a_file_cut_at_any_byte_is_replaced_by_its_predecessor(store: KeyStore, tmp_path: Path) -> None:
    current, previous = (tmp_path / "keys" / name for name in ("keys.json", "keys.previous.json"))
    whole, before = current.read_bytes(), previous.read_bytes()
    for size in range(0, len(whole), 13):
        current.write_bytes(whole[:size])
        previous.write_bytes(before)
        assert KeyStore(tmp_path).load() == OLD.keys, size
        assert (tmp_path / "keys" / "keys.damaged.json").read_bytes() == whole[:size]
        assert KeyStore(tmp_path).load() == OLD.keys, size


def test_damage_never_revives_a_revoked_key(store: KeyStore, tmp_path: Path) -> None:
    store.save(revoke(NEW.keys, "new", NOW), shrinks=True)
    (tmp_path / "keys" / "keys.json").write_bytes(b"{")
    recovered = KeyStore(tmp_path).load()
    assert recovered is not None
    assert Keyring(recovered).find(NEW.secret.encode()) is None
    assert Keyring(recovered).find(OLD.secret.encode()) is not None


def test_without_any_good_file_nobody_has_a_key(
    store: KeyStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("keys.json", "keys.previous.json"):
        (tmp_path / "keys" / name).write_bytes(b"[]")
    assert KeyStore(tmp_path).load() == {}
    assert "every request is refused until keys are made anew" in caplog.text


def test_the_folder_of_the_first_key_is_durable_before_the_key_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(durable, "sync", synced.append)
    KeyStore(tmp_path).save(OLD.keys, shrinks=False)
    assert synced == [tmp_path, tmp_path / "keys"]


def test_without_any_file_nobody_has_a_key(store: KeyStore, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for path in (tmp_path / "keys").iterdir():
        path.unlink()
    assert KeyStore(tmp_path).load() == {}
    assert "every request is refused until keys are made anew" in caplog.text


def test_a_full_disk_is_named(store: KeyStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StateNotWritten, match=r"keys\.json: No space left on device"):
            store.save(OLD.keys, shrinks=True)
    assert KeyStore(tmp_path).load() == NEW.keys
