"""Reports: one module per format, found by its name.

A module exposes `render(record, context) -> str` for a decision record, and may expose `FILES`: further texts of the
same format, by the environment variable in which a CI system names the file each of them is appended to.
Modules whose names begin with an underscore hold what several formats share.
"""

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # a record alone is explained without reading evidence
    from pulumi_infercrane.guard.evidence.folder import EvidenceSet


@dataclass(frozen=True)
class Context:
    """What a report shows beside the record. A record alone is enough: whatever is missing here is left out."""

    policy: str = ""
    """Name of the policy file as the reader knows it: relative to the repository."""
    lines: Mapping[str, int] = field(default_factory=dict)
    """Line of the policy each rule stands at, by rule id."""
    evidence: "EvidenceSet | None" = None
    """The evidence that was judged: for plots, and for the names of files that do not count."""
    link: str = ""
    """Where people find the record and its files."""
    names: Mapping[str, str] = field(default_factory=dict)
    """What people call the revisions they declared, by digest; a record does not hold it."""


RECORD_ALONE = Context()

Render = Callable[[Mapping[str, Any], Context], str]


@dataclass(frozen=True)
class Report:
    """A format: its text, and the texts that go where the environment says."""

    render: Render
    files: Mapping[str, Render]


def known_reports() -> tuple[str, ...]:
    """The formats there are, sorted."""
    modules = pkgutil.iter_modules(__path__)
    return tuple(sorted(module.name for module in modules if not (module.ispkg or module.name.startswith("_"))))


def find_report(name: str) -> Report:
    """A format by name.

    Raises:
        KeyError: when there is no such module.
    """
    if name not in known_reports():
        raise KeyError(name)
    module = importlib.import_module(f"{__name__}.{name}")
    return Report(module.render, getattr(module, "FILES", {}))
