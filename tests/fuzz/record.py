"""How long each target was fuzzed and what came of it: `recorded.json`, and the table of docs/fuzzing.md made of it."""

import dataclasses
import itertools
import json
from pathlib import Path

RECORDED = Path(__file__).with_name("recorded.json")
PAGE = Path(__file__).parents[2] / "docs" / "fuzzing.md"
BEGIN, END = "<!-- generated: runs -->\n", "<!-- end -->\n"


@dataclasses.dataclass(frozen=True)
class Ran:
    """One run of one target."""

    target: str
    day: str
    minutes: float
    executions: int
    findings: int


def recorded() -> list[Ran]:
    """Every recorded run, in the order in which they ended."""
    return [Ran(**one) for one in json.loads(RECORDED.read_text(encoding="utf-8"))]


def add(ran: Ran) -> None:
    """Append a run, and bring the page up to date."""
    lines = [json.dumps(dataclasses.asdict(one)) for one in [*recorded(), ran]]
    RECORDED.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def page(text: str) -> str:
    """The page with the table of today between its marks."""
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + _table() + END + rest.partition(END)[2]


def _table() -> str:
    rows = ["| target | minutes | executions | findings | last run |", "|---|---|---|---|---|"]
    by_target = itertools.groupby(sorted(recorded(), key=lambda ran: ran.target), key=lambda ran: ran.target)
    for target, group in by_target:
        runs = list(group)
        minutes, executions, findings = (sum(getattr(one, name) for one in runs) for name in _SUMMED)
        rows.append(f"| `{target}` | {minutes:.1f} | {executions:,} | {findings} | {max(one.day for one in runs)} |")
    return "\n".join(rows) + "\n"


_SUMMED = ("minutes", "executions", "findings")
