"""Route tables for other proxies, one module each, found by its name.

A module exposes what `Exporter` lists. It says one service's table in files of that proxy; a flip changes as few of
them as the proxy allows.
"""

import importlib
import pkgutil
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, cast

from pulumi_infercrane.router.errors import ExportRefused
from pulumi_infercrane.router.export._place import Place
from pulumi_infercrane.router.tables.table import RouteTable

Files = Mapping[str, bytes]
"""Path relative to the folder → content."""

ASPECTS = (
    "a flip",
    "weights",
    "new and removed revisions",
    "timers",
    "a dead replica",
    "limits",
    "pins",
    "upstream keys",
    "errors",
)
"""What every exporter says in `DIFFERS`."""


class Exporter(Protocol):
    """What a module of this folder exposes."""

    TITLE: str
    DIFFERS: Mapping[str, str]
    """Aspect → how this proxy differs from our router."""

    def render(self, table: RouteTable, place: Place) -> Files:
        """The table in files. Pure: the same table and place give the same bytes.

        Raises:
            ExportRefused: the table asks for what this proxy cannot do.
        """
        ...

    def stages(self, before: Files, after: Files) -> Sequence[Files]:
        """What to write one after the other, so that the proxy never points at what is not there."""
        ...

    def tell(self, place: Place, files: Files, changed: Iterable[str]) -> bool:
        """Make the written files live. False when no proxy runs on this folder.

        Raises:
            ExportNotLive: it runs, but does not take them.
        """
        ...


def exporters() -> tuple[str, ...]:
    """The names of the targets, sorted."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_")))


def find_exporter(name: str) -> Exporter:
    """The exporter of a target.

    Raises:
        ExportRefused: there is none of this name.
    """
    if name not in exporters():
        raise ExportRefused(f"there is no target {name!r}; known are {', '.join(exporters())}")
    return cast("Exporter", importlib.import_module(f"{__name__}.{name}"))
