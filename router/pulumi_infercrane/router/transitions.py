"""What a control call makes of a table. Pure: no clock, no disk, nothing applied here."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from pulumi_infercrane.router.calls import Flip
from pulumi_infercrane.router.errors import (
    ActiveChanged,
    DecisionConflict,
    DecisionExpired,
    GenerationMismatch,
    RevisionInUse,
    RevisionUnknown,
    TableInvalid,
)
from pulumi_infercrane.router.table import DRAINING, SERVING, Declared, RouteTable


def put(table: RouteTable | None, service: str, declared: Declared, expected_generation: str | None) -> RouteTable:
    """The table after a PUT; the very same one when nothing changes.

    `expected_generation` None means "only if there is no table yet".

    Raises:
        GenerationMismatch: the precondition does not hold.
        RevisionInUse: the active revision would be removed.
        TableInvalid: the active revision would stop serving.
    """
    if table is None:
        if expected_generation is not None:
            raise GenerationMismatch(f"service {service} has no table; create it with If-None-Match: *")
        return RouteTable(service, 1, declared)
    _same_generation(table, expected_generation)
    if table.active and table.active not in declared.revisions:
        raise RevisionInUse(f"revision {table.active} is active and may not be removed: flip to another one first")
    if table.active and declared.revisions[table.active].state != SERVING:
        raise TableInvalid([f"revisions.{table.active}.state: the active revision must be {SERVING}"])
    if declared == table.declared:
        return table
    return replace(table, generation=table.generation + 1, declared=declared)


def flip(table: RouteTable, request: Flip, now: datetime) -> RouteTable:
    """The table after a flip; the very same one when this decision is live already.

    Raises:
        DecisionConflict, DecisionExpired, GenerationMismatch, ActiveChanged, RevisionUnknown: nothing changed.
    """
    if request.decision_id == table.decision_id:
        if request.to != table.active:
            raise DecisionConflict(f"decision {request.decision_id} is live with {table.active}, not {request.to}")
        return table
    if request.expires_at and datetime.fromisoformat(request.expires_at) <= now:
        raise DecisionExpired(f"the decision expired at {request.expires_at}: measure and decide again")
    if request.expected_generation:
        _same_generation(table, request.expected_generation)
    if request.expected_active != table.active:
        seen, live = request.expected_active or "none", table.active or "none"
        raise ActiveChanged(f"active revision is {live}, the caller expected {seen}")
    _serving(table, request.to)
    return replace(table, generation=table.generation + 1, active=request.to, decision_id=request.decision_id)


def drain(table: RouteTable, digest: str, deadline: str) -> RouteTable:
    """The table in which a revision takes no new requests. `deadline` is RFC 3339 UTC.

    Raises:
        RevisionUnknown: not in the table.
        RevisionInUse: it is the active one.
    """
    revision = table.declared.revisions.get(digest)
    if revision is None:
        raise RevisionUnknown(f"service {table.service} declares no revision {digest}")
    if digest == table.active:
        raise RevisionInUse(f"revision {digest} is active: flip to another one before draining it")
    draining = replace(revision, state=DRAINING, drain_deadline=deadline)
    declared = replace(table.declared, revisions={**table.declared.revisions, digest: draining})
    return replace(table, generation=table.generation + 1, declared=declared)


def removed_revisions(before: RouteTable | None, after: RouteTable) -> tuple[str, ...]:
    """Digests that a change takes out of the table."""
    if before is None:
        return ()
    return tuple(digest for digest in before.declared.revisions if digest not in after.declared.revisions)


def shared_aliases(table: RouteTable, others: Mapping[str, RouteTable]) -> list[str]:
    """Findings: aliases that name another service already."""
    return [
        f"aliases: {alias!r} belongs to service {other.service}"
        for other in others.values()
        if other.service != table.service
        for alias in table.declared.aliases
        if alias in other.declared.aliases
    ]


def _same_generation(table: RouteTable, expected: str | None) -> None:
    if expected != str(table.generation):
        wanted = "no table" if expected is None else f"generation {expected}"
        raise GenerationMismatch(f"the table has generation {table.generation}, the caller expected {wanted}")


def _serving(table: RouteTable, digest: str) -> None:
    revision = table.declared.revisions.get(digest)
    if revision is None:
        raise RevisionUnknown(f"service {table.service} declares no revision {digest}: PUT it first")
    if revision.state != SERVING:
        raise RevisionUnknown(f"revision {digest} is {revision.state}: PUT it as {SERVING} first")
