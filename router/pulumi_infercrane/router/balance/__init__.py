"""Balance policies: one module per policy, found by its name in the table (`balance: round_robin`).

A module exposes `chooser(endpoints) -> Choose`: called with the replicas that take requests, at least one, whenever
they change; what it returns is called once per request that was bound to their revision, so it is to cost next to
nothing.
"""

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from pulumi_infercrane.router.routing.routes import Endpoint

Choose = Callable[[bytes, bytes], "Endpoint"]
"""Request id and body → the replica that gets the request."""

Chooser = Callable[[Sequence["Endpoint"]], Choose]


@cache
def known_policies() -> tuple[str, ...]:
    """Names, sorted."""
    return tuple(sorted(found.name for found in pkgutil.iter_modules(__path__)))


@cache
def chooser_of(policy: str) -> Chooser:
    """What makes the choice by one of `known_policies`."""
    return cast("Chooser", importlib.import_module(f"{__name__}.{policy}").chooser)
