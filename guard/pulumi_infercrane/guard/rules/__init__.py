"""Kinds of evidence: one module per kind, found by its name. A module exposes `KIND`."""

import importlib
import pkgutil
from functools import cache

from pulumi_infercrane.guard.judging.rule import Kind


@cache
def known_kinds() -> tuple[str, ...]:
    """The kinds this version can judge, sorted."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


def find_kind(name: str) -> Kind:
    """The kind of a name.

    Raises:
        KeyError: when there is no such module.
    """
    if name not in known_kinds():
        raise KeyError(name)
    kind: Kind = importlib.import_module(f"{__name__}.{name}").KIND
    return kind
