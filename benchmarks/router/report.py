"""What a run found: every cell of it, on which machine. A document on disk, from which rows and page are made."""

import json
import os
import platform
import statistics
import sysconfig
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.router.plan import Cell, Cells, Plan

RESULTS = Path(__file__).parent / "results.json"


@dataclass(frozen=True)
class Report:
    """`versions` and `cells` by data plane; `left_out` are peers that were asked for and did not take part."""

    machine: str
    date: str
    plan: Plan
    versions: Mapping[str, str]
    left_out: tuple[str, ...]
    many_streams: int
    """As many as the open files allow."""
    cells: Cells

    def figures(self, name: str, kind: str, field: str) -> list[float]:
        """Of all rounds; none when it was not measured."""
        return [getattr(cell, field) for cell in self.cells.get(name, {}).get(kind, [])]

    def median(self, name: str, kind: str, field: str) -> float | None:
        found = self.figures(name, kind, field)
        return statistics.median(found) if found else None

    def foreign_cores(self) -> float:
        """The worst cell's."""
        return max(cell.foreign_cores for kinds in self.cells.values() for cells in kinds.values() for cell in cells)


def machine() -> str:
    """Processor, cores, kernel and interpreter."""
    about = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.partition(":")[2].strip() for line in about if line.startswith("model name")]
    cores, kernel = len(os.sched_getaffinity(0)), platform.release().split("-")[0]
    optimised = "with" if "--enable-optimizations" in (sysconfig.get_config_var("CONFIG_ARGS") or "") else "without"
    python = f"{platform.python_implementation()} {platform.python_version()} {optimised} PGO"
    return f"{models[0] if models else platform.machine()}, {cores} cores, Linux {kernel}, {python}"


def today() -> str:
    return datetime.now(UTC).date().isoformat()


def write(report: Report, path: Path = RESULTS) -> None:
    """A line for each cell, four digits of each figure."""
    document = asdict(report)
    cells = document.pop("cells")
    body = json.dumps(document, indent=1, ensure_ascii=False).removesuffix("\n}")
    lines = [
        f"  {json.dumps([name, kind, {field: _short(value) for field, value in cell.items()}], ensure_ascii=False)}"
        for name, kinds in cells.items()
        for kind, found in kinds.items()
        for cell in found
    ]
    path.write_text(f'{body},\n "cells": [\n' + ",\n".join(lines) + "\n ]\n}\n")


def read(path: Path = RESULTS) -> Report:
    """That of the last run that was written."""
    document = json.loads(path.read_text())
    cells: dict[str, dict[str, list[Cell]]] = {}
    for name, kind, cell in document.pop("cells"):
        cells.setdefault(name, {}).setdefault(kind, []).append(Cell(**cell))
    plan = document.pop("plan")
    plan = Plan(**{**plan, "peers": tuple(plan["peers"])})
    return Report(**{**document, "left_out": tuple(document["left_out"])}, plan=plan, cells=cells)


def _short(value: float) -> float:
    return value if isinstance(value, int) else float(f"{value:.4g}")
