"""What a control call makes of a table. Pure: no clock, no disk, nothing applied here."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from pulumi_infercrane.router.errors import (
    ActiveChanged,
    DecisionConflict,
    DecisionExpired,
    GenerationMismatch,
    RevisionInUse,
    RevisionUnknown,
    TableInvalid,
    WeightsChanged,
)
from pulumi_infercrane.router.tables.calls import Flip, Weights
from pulumi_infercrane.router.tables.table import DRAINING, SERVING, WHOLE, Declared, RouteTable


def put(
    table: RouteTable | None,
    service: str,
    declared: Declared,
    expected_generation: str | None,
    last_generation: int = 0,
) -> RouteTable:
    """The table after a PUT; the very same one when nothing changes.

    `expected_generation` None means "only if there is no table yet"; `last_generation` is of the table there once was.

    Raises:
        GenerationMismatch: the precondition does not hold.
        RevisionInUse: the active revision, or one with weight, would be removed.
        TableInvalid: the active revision, or one with weight, would stop serving.
    """
    if table is None:
        if expected_generation is not None:
            raise GenerationMismatch(f"service {service} has no table; create it with If-None-Match: *")
        return RouteTable(service, last_generation + 1, declared)
    _same_generation(table, expected_generation)
    if table.active and table.active not in declared.revisions:
        raise RevisionInUse(f"revision {table.active} is active and may not be removed: flip to another one first")
    for digest, weight in table.weights.items():
        if digest not in declared.revisions:
            raise RevisionInUse(f"revision {digest} has {weight} % of the traffic: take its weight back first")
    for digest in {table.active, *table.weights} - {""}:
        if declared.revisions[digest].state != SERVING:
            what = "the active revision" if digest == table.active else "a revision with weight"
            raise TableInvalid([f"revisions.{digest}.state: {what} must be {SERVING}"])
    if declared == table.declared:
        return table
    return replace(table, generation=table.generation + 1, declared=declared)


def flip(table: RouteTable, request: Flip, now: datetime) -> RouteTable:
    """The table after a flip, in which `to` has all traffic; the very same one when this decision is live already.

    Raises:
        DecisionConflict, DecisionExpired, GenerationMismatch, ActiveChanged, WeightsChanged, RevisionUnknown: nothing
            changed.
    """
    if request.decision_id == table.decision_id:
        if request.to != table.active:
            raise DecisionConflict(f"decision {request.decision_id} is live with {table.active}, not {request.to}")
        return table
    _refuse_late(table, request, now)
    _serving(table, request.to)
    moved = replace(table, active=request.to, decision_id=request.decision_id, weights={})
    return replace(moved, generation=table.generation + 1)


def weigh(table: RouteTable, request: Weights, now: datetime) -> RouteTable:
    """The table with other weights; the very same one when this decision is live already.

    Raises:
        DecisionConflict, DecisionExpired, GenerationMismatch, ActiveChanged, WeightsChanged, RevisionUnknown: nothing
            changed.
        TableInvalid: the active revision would have no weight, or more than one other would have some.
    """
    weights = shares(request.weights) or carried(replace(table, weights={}))
    if request.decision_id == table.weights_decision_id:
        if weights != carried(table):
            raise DecisionConflict(f"decision {request.decision_id} set other weights, or they were taken back since")
        return table
    _refuse_late(table, request, now)
    if table.active not in weights:
        raise TableInvalid([f"weights: the active revision {table.active or '(none)'} must have some: all is a flip"])
    if len(weights) > 2:
        raise TableInvalid(["weights: one candidate at a time: the active revision and one other"])
    for digest in weights:
        _serving(table, digest)
    split = weights if len(weights) > 1 else {}
    return replace(table, generation=table.generation + 1, weights=split, weights_decision_id=request.decision_id)


def shares(weights: Mapping[str, int]) -> dict[str, int]:
    """Weights without those that are 0."""
    return {digest: weight for digest, weight in weights.items() if weight}


def carried(table: RouteTable) -> Mapping[str, int]:
    """Percent by revision that the route gives; empty when no revision is active."""
    return table.weights or ({table.active: WHOLE} if table.active else {})


def drain(table: RouteTable, digest: str, deadline: str) -> RouteTable:
    """The table in which a revision takes no new requests. `deadline` is RFC 3339 UTC.

    Raises:
        RevisionUnknown: not in the table.
        RevisionInUse: it is the active one, or has weight.
    """
    revision = table.declared.revisions.get(digest)
    if revision is None:
        raise RevisionUnknown(f"service {table.service} declares no revision {digest}")
    if digest == table.active:
        raise RevisionInUse(f"revision {digest} is active: flip to another one before draining it")
    if digest in table.weights:
        raise RevisionInUse(f"revision {digest} has {table.weights[digest]} % of the traffic: take it back first")
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


def _refuse_late(table: RouteTable, request: Flip | Weights, now: datetime) -> None:
    """A decision is for the route it was made about, and for its time."""
    if request.expires_at and datetime.fromisoformat(request.expires_at) <= now:
        raise DecisionExpired(f"the decision expired at {request.expires_at}: measure and decide again")
    if request.expected_generation:
        _same_generation(table, request.expected_generation)
    if request.expected_active != table.active:
        seen, live = request.expected_active or "none", table.active or "none"
        raise ActiveChanged(f"active revision is {live}, the caller expected {seen}")
    if request.expected_weights is not None and shares(request.expected_weights) != carried(table):
        raise WeightsChanged(f"the route gives {_shown(carried(table))}, not {_shown(request.expected_weights)}")


def _shown(weights: Mapping[str, int]) -> str:
    return " and ".join(f"{weight} % {digest}" for digest, weight in sorted(weights.items())) or "nothing"


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
