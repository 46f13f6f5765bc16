"""Tables on disk: one file per service, `<service>.json`; the one before is `<service>.previous.json`.

The last table of a service that was deleted is kept as `<service>.deleted.json`, for its generation: a table that is
put under the same name later goes on above it, so that no precondition of before holds again.
"""

import fcntl
import json
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import rfc8785

from pulumi_infercrane.router import durable
from pulumi_infercrane.router.errors import RouterError, StateDamaged, StateLocked, StateNotWritten
from pulumi_infercrane.router.tables.schema import read_table
from pulumi_infercrane.router.tables.table import RouteTable
from pulumi_infercrane.router.tables.transitions import shared_aliases

_log = logging.getLogger(__name__)

_SUFFIX = ".json"
_PREVIOUS = ".previous.json"
_DAMAGED = ".damaged.json"
_DELETED = ".deleted.json"


@contextmanager
def locked(directory: Path) -> Iterator[int]:
    """Hold the state directory, creating it (mode 0700) if needed, by the descriptor that is given.

    The lock ends with the last process that has the descriptor.

    Raises:
        StateLocked: another router holds it.
        StateNotWritten: it cannot be created or written.
    """
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StateNotWritten(f"state directory {directory}: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise StateLocked(
            f"another router uses the state directory {directory}: stop it, or give this one its own --state"
        ) from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


class TableStore:
    """The tables of one state directory. The caller holds its lock."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def load(self) -> dict[str, RouteTable]:
        """The last good table of every service; no alias is in two of them.

        A damaged file is reported, set aside as `<service>.damaged.json`, and its predecessor is served under a
        generation above both, so that no generation is ever given out twice. An alias that another service was given
        meanwhile is not taken back from it.
        """
        names = self._services()
        whole = {name: table for name in names if (table := self._current(name)) is not None}
        tables: dict[str, RouteTable] = {}
        for service in sorted(names, key=lambda name: (name not in whole, name)):
            found = whole.get(service) or self._predecessor(service)
            table = None if found is None else _without_shared_aliases(found, tables)
            if table is None:
                continue
            if table is not whole.get(service):
                self._keep(table, damaged=service not in whole)
            tables[service] = table
        return tables

    def save(self, table: RouteTable) -> None:
        """Make the table durable; returns when it survives a crash.

        Raises:
            StateNotWritten: the disk refused; the old table is still the one on disk.
        """
        current = self._path(table.service, _SUFFIX)
        try:
            durable.replace(current, rfc8785.dumps(table.document()), self._path(table.service, _PREVIOUS))
        except OSError as error:
            raise StateNotWritten(f"{current}: {error.strerror}; the table before it serves on") from error

    def delete(self, service: str) -> None:
        """Forget a service. The predecessor goes first: half done, the table is still there."""
        try:
            self._path(service, _PREVIOUS).unlink(missing_ok=True)
            if self._path(service, _SUFFIX).exists():
                self._path(service, _SUFFIX).replace(self._path(service, _DELETED))
            durable.sync(self._directory)
        except OSError as error:
            raise StateNotWritten(f"{self._path(service, _SUFFIX)}: {error.strerror}") from error

    def last_generation(self, service: str) -> int:
        """The highest generation a service that is not served may have had; 0 when there never was one."""
        return max(_generation(self._path(service, suffix), service) for suffix in (_SUFFIX, _PREVIOUS, _DELETED))

    def _services(self) -> list[str]:
        names = {path.name for path in self._directory.glob(f"*{_SUFFIX}")}
        return sorted({_service_of(name) for name in names if not name.endswith((_DAMAGED, _DELETED))})

    def _current(self, service: str) -> RouteTable | None:
        try:
            return _read(self._path(service, _SUFFIX), service)
        except (RouterError, OSError) as error:
            _log.error("route table of service %s is not usable: %s", service, error)
        return None

    def _predecessor(self, service: str) -> RouteTable | None:
        """The table before a damaged one, under a generation above both."""
        try:
            previous = _read(self._path(service, _PREVIOUS), service)
        except (RouterError, OSError) as error:
            _log.error("no good table of service %s is left (%s): it answers 503 until one is put", service, error)
            return None
        recovered = replace(previous, generation=previous.generation + 2)
        _log.error("serving the table before it: active %s, now generation %s", previous.active, recovered.generation)
        return recovered

    def _keep(self, table: RouteTable, *, damaged: bool) -> None:
        """Have on disk what is served."""
        try:
            if damaged:
                self._set_aside(table.service)
            self.save(table)
        except (StateNotWritten, OSError) as error:
            _log.error("the recovered table is not on disk: %s", error)

    def _set_aside(self, service: str) -> None:
        current = self._path(service, _SUFFIX)
        if current.exists():
            current.replace(self._path(service, _DAMAGED))

    def _path(self, service: str, suffix: str) -> Path:
        return self._directory / f"{service}{suffix}"


def _service_of(name: str) -> str:
    return name.removesuffix(_PREVIOUS) if name.endswith(_PREVIOUS) else name.removesuffix(_SUFFIX)


def _generation(path: Path, service: str) -> int:
    """Of the table in a file. One that cannot be read had less than the milliseconds from 1970 to its writing."""
    try:
        return _read(path, service).generation
    except FileNotFoundError:
        return 0
    except (RouterError, OSError):
        return path.stat().st_mtime_ns // 1_000_000


def _without_shared_aliases(table: RouteTable, others: Mapping[str, RouteTable]) -> RouteTable | None:
    """The table with the aliases that are its own alone; None without any."""
    findings = shared_aliases(table, others)
    if not findings:
        return table
    _log.error("service %s loses what others have: %s", table.service, "; ".join(findings))
    taken = {alias for other in others.values() for alias in other.declared.aliases}
    own = tuple(alias for alias in table.declared.aliases if alias not in taken)
    if not own:
        _log.error("service %s is not served until a table with other aliases is put", table.service)
        return None
    return replace(table, generation=table.generation + 1, declared=replace(table.declared, aliases=own))


def _read(path: Path, service: str) -> RouteTable:
    try:
        document = json.loads(path.read_bytes())
    except ValueError as error:
        raise StateDamaged(f"{path}: not JSON: {error}") from error
    table = read_table(document)
    if table.service != service:
        raise StateDamaged(f"{path}: holds the table of service {table.service}")
    return table
