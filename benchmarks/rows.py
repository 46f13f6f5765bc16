"""Rows of a benchmark: ours beside a peer of the same run. Printed, and written to `.bench/<name>.json`."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

FOLDER = Path(__file__).parents[1] / ".bench"


@dataclass(frozen=True)
class Row:
    """One figure. `goal` is the largest ratio (or value, without a peer) that holds; None = shown only."""

    metric: str
    ours: float
    peer: float | None = None
    goal: float | None = None

    @property
    def ratio(self) -> float | None:
        return self.ours / self.peer if self.peer else None

    @property
    def holds(self) -> bool | None:
        if self.goal is None:
            return None
        return (self.ours if self.ratio is None else self.ratio) <= self.goal


def publish(name: str, rows: Sequence[Row]) -> None:
    """Print the rows and write them down. A missed goal is printed, not hidden, and ends with exit code 0."""
    FOLDER.mkdir(exist_ok=True)
    documents = [asdict(row) | {"ratio": row.ratio, "holds": row.holds} for row in rows]
    (FOLDER / f"{name}.json").write_text(json.dumps(documents, indent=2) + "\n")
    print(f"\n{'metric':58}{'ours':>10}{'peer':>10}{'ratio':>8}{'goal':>8}  holds")
    for row in rows:
        holds = {True: "yes", False: "NO", None: ""}[row.holds]
        figures = f"{_figure(row.ours)}{_figure(row.peer)}{_figure(row.ratio, 8)}{_figure(row.goal, 8)}"
        print(f"{row.metric:58}{figures}  {holds}")


def _figure(value: float | None, width: int = 10) -> str:
    return f"{value:{width}.3g}" if value is not None else " " * width
