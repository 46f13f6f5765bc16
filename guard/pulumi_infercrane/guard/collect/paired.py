"""One measurement of both sides, from the load to the envelopes: what the collectors of paired kinds share."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pulumi_infercrane.guard.canonical import digest
from pulumi_infercrane.guard.collect.envelope import TOOL_VERSION, Findings, write_evidence
from pulumi_infercrane.guard.collect.journal import Journal
from pulumi_infercrane.guard.collect.load import Load, Side, compare
from pulumi_infercrane.guard.collect.target import Progress, Target


@dataclass(frozen=True)
class Measurement:
    """What a collector decides: the load, and what envelope and file header say of it."""

    kind: str
    load: Load
    scenario: Mapping[str, Any]
    header: Mapping[str, Any]
    of_side: Callable[[Side], Mapping[str, Any]] = lambda _: {}
    """What only the header of one side says, known when it is measured."""
    more: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the envelopes."""


async def measure_both(
    candidate: Target, baseline: Target, measurement: Measurement, *, out: Path, progress: Progress
) -> list[Path]:
    """Measure both sides and write their envelopes below `out`, candidate first.

    Raises:
        CollectError: a replica cannot be reached at the start, time or money ran out, or `out` cannot be written.
    """
    key = run_key(measurement, candidate, baseline)
    with Journal(partial_path(out, measurement.kind, candidate), key) as journal:
        comparison = await compare(candidate, baseline, measurement.load, progress, journal)
        paths = write_evidence(
            out,
            kind=measurement.kind,
            comparison=comparison,
            scenario=measurement.scenario,
            findings={
                role: Findings({**measurement.header, **measurement.of_side(side)}, tuple(side.records))
                for role, side in comparison.sides
            },
            more=measurement.more,
        )
        journal.remove()
    return paths


def partial_path(out: Path, kind: str, candidate: Target) -> Path:
    """Where the journal of an unfinished measurement lies."""
    return out / candidate.label / f"{kind}.partial.jsonl"


def run_key(measurement: Measurement, *targets: Target) -> str:
    """Digest of what is measured, how, and where; the bounds are left out, since a bound may be raised to go on."""
    return digest(
        {
            "kind": measurement.kind,
            "tool_version": TOOL_VERSION,
            "scenario": measurement.scenario,
            "header": measurement.header,
            "more": measurement.more,
            "ids": [question.id for question in measurement.load.questions],
            "targets": [[target.revision_digest, target.base_url, target.model] for target in targets],
        }
    )
