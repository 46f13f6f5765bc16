"""Client keys on disk: one file, the one before kept.

The file before is what a damaged one is replaced by. So that it never revives a key, whatever takes a secret away is
written twice: then both files know it.
"""

import json
import logging
from pathlib import Path

import rfc8785

from pulumi_infercrane.router import durable
from pulumi_infercrane.router.clients.key_documents import keys_document, read_keys
from pulumi_infercrane.router.clients.keys import Key, Keys
from pulumi_infercrane.router.errors import RouterError, StateDamaged, StateNotWritten

_log = logging.getLogger(__name__)


class KeyStore:
    """The keys of one state directory, in a folder of their own. The caller holds the directory's lock."""

    def __init__(self, directory: Path) -> None:
        self._folder = directory / "keys"
        self._current = self._folder / "keys.json"
        self._previous = self._folder / "keys.previous.json"

    def load(self) -> dict[str, Key] | None:
        """The last good keys; None when none were ever saved. Without any good file nobody has a key.

        The folder is there from the first key on: without its files they were lost.
        """
        if not self._folder.exists():
            return None
        for path in (self._current, self._previous):
            try:
                keys = _read(path)
            except (RouterError, OSError) as error:
                _log.error("client keys are not usable: %s: %s", path, error)
                continue
            if path == self._previous:
                self._recover(keys)
            return keys
        _log.error("no good file of client keys is left: every request is refused until keys are made anew")
        return {}

    def save(self, keys: Keys, *, shrinks: bool) -> None:
        """Make the keys durable; returns when they survive a crash. `shrinks`: a secret became invalid.

        Raises:
            StateNotWritten: the disk refused; the keys before may still be the ones on disk.
        """
        content = rfc8785.dumps(keys_document(keys.values()))
        try:
            self._make_folder()
            for _ in range(2 if shrinks else 1):
                durable.replace(self._current, content, self._previous)
        except OSError as error:
            raise StateNotWritten(f"{self._current}: {error.strerror}; the keys before it stay valid") from error

    def _make_folder(self) -> None:
        """That it is there says that keys were made, so it has to survive a crash as they do."""
        if not self._folder.exists():
            self._folder.mkdir(mode=0o700)
            durable.sync(self._folder.parent)

    def _recover(self, keys: Keys) -> None:
        """Keep the damaged file for whoever looks into it, and have two good ones again."""
        _log.error("going by the client keys before it")
        try:
            if self._current.exists():
                self._current.replace(self._folder / "keys.damaged.json")
            self.save(keys, shrinks=False)
        except (StateNotWritten, OSError) as error:
            _log.error("the recovered keys are not on disk: %s", error)


def _read(path: Path) -> dict[str, Key]:
    try:
        document = json.loads(path.read_bytes())
    except ValueError as error:
        raise StateDamaged(f"not JSON: {error}") from error
    return read_keys(document)
