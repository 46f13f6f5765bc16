"""The journal: an operation is written down before anything is touched, and its outcome after.

SQLite in WAL mode with full synchronisation. The row of an operation is what its events add up to; events are
append-only. States and edges are those of docs/operations.md; the ones of recovery are not used yet.
"""

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pulumi_infercrane.guard.canonical import canonical_bytes, digest
from pulumi_infercrane.stacks.errors import OperationConflict, StackBusy, StackError

SCHEMA_VERSION = 1
EDGES: Mapping[str, tuple[str, ...]] = {
    "intended": ("planning", "cancelled"),
    "planning": ("planned", "failed", "cancelled"),
    "planned": ("approved", "refused", "failed", "cancelled"),
    "approved": ("applying", "succeeded", "failed", "cancelled"),
    "applying": ("applied", "failed", "interrupted", "cancelled"),
    "interrupted": ("failed",),
    "applied": ("verifying",),
    "verifying": ("succeeded", "failed"),
}
"""`approved → succeeded` is a plan without a change; `interrupted → failed` until reconciliation exists."""

_SCHEMA = """
create table if not exists operation(
  id text primary key, stack text not null, kind text not null,
  intent text not null, intent_digest text not null, state text not null,
  fence integer not null default 0, attempt integer not null default 0,
  cancel_requested integer not null default 0, created_at text not null);
create table if not exists event(
  op text not null references operation(id), seq integer not null, at text not null,
  fence integer not null, kind text not null, state text not null, detail text not null,
  primary key(op, seq));
create unique index if not exists one_active on operation(stack)
  where state not in ('succeeded', 'failed', 'cancelled', 'refused');
create trigger if not exists event_no_update before update on event
  begin select raise(abort, 'events are append-only'); end;
create trigger if not exists event_no_delete before delete on event
  begin select raise(abort, 'events are append-only'); end;
"""


class JournalError(StackError):
    """The journal cannot be used; the message says why and what to do."""

    code = "journal_unusable"


@dataclass(frozen=True)
class Operation:
    """One durable run of the wrapper."""

    id: str
    stack: str
    kind: str
    intent: Mapping[str, Any]
    state: str
    created_at: str


@dataclass(frozen=True)
class Event:
    """One entry of an operation's history."""

    seq: int
    at: str
    kind: str
    state: str
    detail: Mapping[str, Any]


class Journal:
    """The journal file of one backend and stack."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            self._db = sqlite3.connect(path, timeout=30, isolation_level=None)
            path.chmod(0o600)
            self._prepare()
        except sqlite3.DatabaseError as error:
            raise JournalError(f"{path}: {error}; move the file away to start a new journal") from error

    def _prepare(self) -> None:
        (version,) = self._db.execute("pragma user_version").fetchone()
        if version > SCHEMA_VERSION:
            raise JournalError(
                f"the journal was written by a newer version (schema {version}): upgrade pulumi-infercrane"
            )
        self._db.execute("pragma journal_mode = wal")
        self._db.execute("pragma synchronous = full")
        if version < SCHEMA_VERSION:
            self._db.executescript(f"begin immediate; {_SCHEMA} pragma user_version = {SCHEMA_VERSION}; commit;")

    def close(self) -> None:
        self._db.close()

    def begin(self, stack: str, kind: str, intent: Mapping[str, Any]) -> Operation:
        """Write down what is intended. The id follows from stack, intent and the last finished operation.

        Raises:
            StackBusy: another operation of the stack is unfinished.
        """
        intent_digest = digest(dict(intent))
        with self._transaction():
            last = self._db.execute(
                "select id from operation where stack = ? order by rowid desc limit 1", (stack,)
            ).fetchone()
            identity = {"stack": stack, "kind": kind, "intent": intent_digest, "after": last[0] if last else ""}
            op = "op-" + digest(identity)[7:19]
            self._insert(op, stack, kind, intent, intent_digest)
        return self.get(op)

    def _insert(self, op: str, stack: str, kind: str, intent: Mapping[str, Any], intent_digest: str) -> None:
        row = (op, stack, kind, canonical_bytes(dict(intent)).decode(), intent_digest, "intended", _now())
        try:
            self._db.execute(
                "insert into operation(id, stack, kind, intent, intent_digest, state, created_at) "
                "values(?,?,?,?,?,?,?)",
                row,
            )
        except sqlite3.IntegrityError as error:
            unfinished = self.unfinished(stack)
            if unfinished is None:
                raise OperationConflict(f"operation {op} exists with another intent") from error
            raise StackBusy(
                f"operation {unfinished.id} ({unfinished.kind}, {unfinished.state}) is unfinished"
            ) from error
        self._event(op, "begun", "intended", {})

    def move(self, op: str, state: str, detail: Mapping[str, Any] | None = None) -> None:
        """Take an edge of the state machine and record it.

        Raises:
            JournalError: there is no such edge.
        """
        with self._transaction():
            before = self.get(op).state
            if state not in EDGES.get(before, ()):
                raise JournalError(f"operation {op} cannot go from {before} to {state}")
            self._db.execute("update operation set state = ? where id = ?", (state, op))
            self._event(op, "moved", state, detail or {})

    def get(self, op: str) -> Operation:
        row = self._db.execute(
            "select id, stack, kind, intent, state, created_at from operation where id = ?", (op,)
        ).fetchone()
        if row is None:
            raise JournalError(f"no operation {op}")
        return _operation(row)

    def unfinished(self, stack: str) -> Operation | None:
        row = self._db.execute(
            "select id, stack, kind, intent, state, created_at from operation where stack = ? "
            "and state not in ('succeeded', 'failed', 'cancelled', 'refused')",
            (stack,),
        ).fetchone()
        return _operation(row) if row else None

    def operations(self, stack: str) -> list[Operation]:
        """All operations of a stack, oldest first."""
        rows = self._db.execute(
            "select id, stack, kind, intent, state, created_at from operation where stack = ? order by rowid", (stack,)
        )
        return [_operation(row) for row in rows]

    def events(self, op: str) -> list[Event]:
        rows = self._db.execute("select seq, at, kind, state, detail from event where op = ? order by seq", (op,))
        return [Event(seq, at, kind, state, json.loads(detail)) for seq, at, kind, state, detail in rows]

    def _event(self, op: str, kind: str, state: str, detail: Mapping[str, Any]) -> None:
        self._db.execute(
            "insert into event(op, seq, at, fence, kind, state, detail) "
            "select ?, coalesce(max(seq), 0) + 1, ?, 0, ?, ?, ? from event where op = ?",
            (op, _now(), kind, state, canonical_bytes(dict(detail)).decode(), op),
        )

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("begin immediate")
        try:
            yield
        except BaseException:
            self._db.execute("rollback")
            raise
        self._db.execute("commit")


def _operation(row: tuple[Any, ...]) -> Operation:
    op, stack, kind, intent, state, created_at = row
    return Operation(op, stack, kind, json.loads(intent), state, created_at)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
