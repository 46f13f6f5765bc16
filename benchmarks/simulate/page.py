"""The table of `docs/simulation.md`, between its markers, from the rows of the last sweep."""

import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "simulation.md"
RESULTS = Path(__file__).parent / "results.json"
BEGIN, END = "<!-- begin of the generated table -->", "<!-- end of the generated table -->"

_HEAD = "| situation | ours, % | Go project, % | goal for ours, % | holds | draws |\n|---|---|---|---|---|---|"
_HOLDS = {True: "yes", False: "**no**", None: ""}


def results() -> list[dict[str, Any]]:
    """The rows of the committed sweep."""
    rows: list[dict[str, Any]] = json.loads(RESULTS.read_text())
    return rows


def render(page: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """The page with its table made anew.

    Raises:
        ValueError: when a marker is missing.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{PAGE}: the markers of the table are missing")
    return f"{before}{BEGIN}\n\n{table(rows)}\n\n{END}{after}"


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """One table per group. Shares in percent, ours with its standard error."""
    groups = groupby(rows, key=lambda row: row["group"])
    return "\n\n".join(f"### {name}\n\n{_HEAD}\n" + "\n".join(map(_line, group)) for name, group in groups)


def _line(row: Mapping[str, Any]) -> str:
    ours = f"{100 * row['ours']:.1f} ± {100 * row['error']:.1f}"
    goal = "" if row["goal"] is None else f"≤ {100 * row['goal']:g}"
    cells = (row["metric"], ours, f"{100 * row['peer']:.1f}", goal, _HOLDS[row["holds"]], str(row["draws"]))
    return "| " + " | ".join(cells) + " |"
