"""Collectors: measure the candidate and the active revision under the same load, and write evidence about both.

One module per kind of evidence, found by its name: a module that exposes `KIND`, `Plan` (a frozen dataclass),
`async collect(candidate, baseline, *, out, plan, progress)`, and `ALONE = True` where the baseline is not measured. A
measurement that was cut short writes no evidence; what it finished is kept beside, and the next one with the same plan
goes on from there (`journal.py`).
"""

import dataclasses
import importlib
import pkgutil
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pulumi_infercrane.guard.collect.target import CollectError, Progress, Target

__all__ = ["CollectError", "Collector", "Progress", "Target", "find", "kinds"]


@dataclass(frozen=True)
class Collector:
    """What measures one kind of evidence. `collect` returns the paths of the envelopes, candidate first."""

    kind: str
    plan_type: type
    collect: Callable[..., Coroutine[Any, Any, list[Path]]]
    alone: bool = False
    """It measures the candidate and leaves the baseline alone: a first revision, too, can be measured so."""

    @property
    def needs(self) -> tuple[str, ...]:
        """What a plan cannot be made without."""
        fields = dataclasses.fields(self.plan_type)
        return tuple(field.name for field in fields if field.default is dataclasses.MISSING)

    def plan(self, given: Mapping[str, Any]) -> Any:
        """The plan of this kind, from those of the given values it knows; the rest keep their defaults.

        Raises:
            CollectError: when a value without a default is missing, or a value is out of range.
        """
        fields = dataclasses.fields(self.plan_type)
        missing = [name for name in self.needs if name not in given]
        if missing:
            raise CollectError(f"{self.kind}: {', '.join(missing)} must be given")
        try:
            return self.plan_type(**{field.name: given[field.name] for field in fields if field.name in given})
        except CollectError as error:
            raise CollectError(f"{self.kind}: {error}") from error


def kinds() -> tuple[str, ...]:
    """The kinds of evidence that can be measured, sorted."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return tuple(name for name in names if hasattr(importlib.import_module(f"{__name__}.{name}"), "KIND"))


def find(kind: str) -> Collector:
    """The collector of a kind.

    Raises:
        CollectError: when there is none.
    """
    if kind not in kinds():
        raise CollectError(f"evidence of kind {kind!r} cannot be measured, only {', '.join(kinds())}")
    module = importlib.import_module(f"{__name__}.{kind}")
    return Collector(module.KIND, module.Plan, module.collect, getattr(module, "ALONE", False))
