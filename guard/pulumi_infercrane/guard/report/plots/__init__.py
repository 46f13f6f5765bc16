"""Plots of evidence in the HTML report: one module per kind, found by its name.

A module exposes `draw(record, sides) -> Iterator[str]`: figures of the evidence of its kind that was used.
"""

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from typing import Any

from pulumi_infercrane.guard.evidence.folder import EvidenceSet
from pulumi_infercrane.guard.judging.rule import Member, Sides


def plots(record: Mapping[str, Any], evidence: EvidenceSet) -> Iterator[str]:
    """Figures of all kinds that have some, in the order of their names."""
    for kind in sorted(module.name for module in pkgutil.iter_modules(__path__)):
        sides = used_sides(record, evidence, kind)
        if sides.all:
            yield from importlib.import_module(f"{__name__}.{kind}").draw(record, sides)


def used_sides(record: Mapping[str, Any], evidence: EvidenceSet, kind: str) -> Sides:
    """What the decision used of a kind."""
    used = {entry["sha256"] for entry in record["evidence"] if entry["used"] and entry["kind"] == kind}
    members = [
        Member(item.envelope, item.record)
        for item in evidence.items
        if item.sha256 in used and item.envelope and item.record is not None
    ]
    candidate, baseline = (
        tuple(member for member in members if member.envelope.role == role) for role in ("candidate", "baseline")
    )
    return Sides(candidate, baseline)
