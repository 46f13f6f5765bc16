"""Measures of how alike two answers are, one module each, found by its name.

A module exposes `similarity(left, right) -> float`, 0 (nothing in common) to 1 (the same), bounded in time whatever the
texts are.
"""

import importlib
import pkgutil
from collections.abc import Callable

from pulumi_infercrane.guard.collect.target import CollectError

Similarity = Callable[[str, str], float]


def similarities() -> tuple[str, ...]:
    """The names of the measures, sorted."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


def find_similarity(name: str) -> Similarity:
    """The measure of a name.

    Raises:
        CollectError: when there is none.
    """
    if name not in similarities():
        raise CollectError(f"there is no similarity {name!r}, only {', '.join(similarities())}")
    measure: Similarity = importlib.import_module(f"{__name__}.{name}").similarity
    return measure
