"""The figures of a run: `results.json`, and the table made from it."""

import json
import tomllib
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from tests.mutation.mutants import Mutant

FOLDER = Path(__file__).parent
RESULTS = FOLDER / "results.json"
PAGE = FOLDER.parents[1] / "docs" / "testing.md"
BEGIN, END = "<!-- generated: mutants -->\n", "<!-- end -->\n"

Row = dict[str, Any]


def equivalent() -> dict[tuple[str, str], str]:
    """Why a mutant changes nothing anybody can see, by module and name: `equivalent.toml`."""
    groups = tomllib.loads((FOLDER / "equivalent.toml").read_text()).get("group", [])
    return {(group["module"], name): group["why"] for group in groups for name in group["mutants"]}


def unknown_names(root: Path, found: Sequence[tuple[Path, Mutant]]) -> list[str]:
    """Equivalent mutants that are listed and do not exist any more, of the modules that were looked at."""
    names = {(str(path.relative_to(root)), mutant.name) for path, mutant in found}
    modules = {module for module, _ in names}
    return [f"{module}: {name}" for module, name in equivalent() if module in modules and (module, name) not in names]


def rows(root: Path, found: Sequence[tuple[Path, Mutant]], survivors: Collection[tuple[str, str]]) -> list[Row]:
    """One row per module. Equivalent mutants were not tried."""
    made = Counter(str(path.relative_to(root)) for path, _ in found)
    names = {(str(path.relative_to(root)), mutant.name) for path, mutant in found}
    harmless = Counter(module for module, name in equivalent() if (module, name) in names)
    left: dict[str, list[str]] = {module: [] for module in made}
    for module, name in sorted(survivors):
        left[module].append(name)
    return [
        {
            "module": module,
            "mutants": made[module],
            "killed": made[module] - harmless[module] - len(left[module]),
            "equivalent": harmless[module],
            "survivors": left[module],
        }
        for module in made
    ]


def show(figures: Sequence[Row]) -> None:
    for row in figures:
        print(f"{row['module']:28}{row['mutants']:6}{row['killed']:6}{row['equivalent']:6}{len(row['survivors']):6}")


def write(figures: Sequence[Row]) -> None:
    """Rewrites the results and the table; modules that were not looked at keep their rows."""
    known = {row["module"]: row for row in json.loads(RESULTS.read_text())} if RESULTS.exists() else {}
    known |= {row["module"]: row for row in figures}
    merged = [known[module] for module in sorted(known, key=lambda module: ("/" not in module, module))]
    RESULTS.write_text(json.dumps(merged, indent=1, ensure_ascii=False) + "\n")
    PAGE.write_text(page(PAGE.read_text(), merged))


def page(text: str, figures: Sequence[Row]) -> str:
    """The page with the table in its place."""
    before, rest = text.split(BEGIN)
    return before + BEGIN + table(figures) + END + rest.partition(END)[2]


def table(figures: Sequence[Row]) -> str:
    lines = ["| module | mutants | killed | equivalent | surviving |", "|---|---|---|---|---|"]
    cells = [(r["module"], r["mutants"], r["killed"], r["equivalent"], len(r["survivors"])) for r in figures]
    total = ("**all**", *(sum(cell[column] for cell in cells) for column in range(1, 5)))
    return "\n".join(lines + [f"| {' | '.join(str(value) for value in row)} |" for row in [*cells, total]]) + "\n"
