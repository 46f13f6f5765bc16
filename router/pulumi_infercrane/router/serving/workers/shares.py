"""Limits of a table or a key, divided among workers: each goes by its share, none asks the others.

The shares add up to the limit, except that everybody has at least one: a limit below the number of workers becomes
that number.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from pulumi_infercrane.router.clients.keys import Key, KeyLimits
from pulumi_infercrane.router.tables.table import Mirror, RouteTable, ServiceLimits


class Place(NamedTuple):
    """Which of so many workers."""

    number: int
    of: int


def share(limit: int, place: Place) -> int:
    """One worker's part of a limit. Of nothing it is nothing."""
    part, rest = divmod(limit, place.of)
    return max(part + (place.number < rest), min(limit, 1))


def share_of_table(table: RouteTable, place: Place) -> RouteTable:
    """The table a worker goes by."""
    limits, mirror = table.declared.limits, table.declared.mirror
    declared = replace(
        table.declared,
        limits=_of_limits(limits, place) if limits is not None else None,
        mirror=_of_mirror(mirror, place) if mirror is not None else None,
    )
    return replace(table, declared=declared)


def share_of_keys(keys: Mapping[str, Key], place: Place) -> dict[str, Key]:
    """The keys a worker goes by."""
    return {name: _of_key(key, place) for name, key in keys.items()}


def _of_limits(limits: ServiceLimits, place: Place) -> ServiceLimits:
    return replace(
        limits,
        max_inflight=_maybe(limits.max_inflight, place),
        max_inflight_per_revision=_maybe(limits.max_inflight_per_revision, place),
        max_queue=share(limits.max_queue, place),
        max_queue_bytes=share(limits.max_queue_bytes, place),
    )


def _of_mirror(mirror: Mirror, place: Place) -> Mirror:
    return replace(mirror, max_inflight=share(mirror.max_inflight, place))


def _of_key(key: Key, place: Place) -> Key:
    limits = key.grant.limits
    if limits is None:
        return key
    own = KeyLimits(
        _maybe(limits.requests_per_minute, place),
        _maybe(limits.tokens_per_minute, place),
        _maybe(limits.max_inflight, place),
    )
    return replace(key, grant=replace(key.grant, limits=own))


def _maybe(limit: int | None, place: Place) -> int | None:
    return None if limit is None else share(limit, place)
