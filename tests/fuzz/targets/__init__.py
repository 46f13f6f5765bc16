"""Fuzz targets: one module for each way in from outside, found by its name; that of the readers has one per tool.

A module exposes `targets() -> Iterator[Target]`.
"""

import importlib
import pkgutil
from collections.abc import Iterator

from tests.fuzz.target import Target


def all_targets() -> Iterator[Target]:
    """Every target, by the name of its module."""
    for module in sorted(found.name for found in pkgutil.iter_modules(__path__)):
        yield from importlib.import_module(f"{__name__}.{module}").targets()
