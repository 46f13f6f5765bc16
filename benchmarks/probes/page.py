"""What was found, `results.json`, and the tables of `docs/probes.md` made from it and from the tests there are."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tests.router.catalogue import CATALOGUE
from tests.router.probes import all_probes

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "probes.md"
RESULTS = Path(__file__).parent / "results.json"
END = "<!-- end -->\n"


@dataclass(frozen=True)
class Results:
    """Versions by peer; and what each lost, by probe: empty when it holds."""

    versions: Mapping[str, str]
    lost: Mapping[str, Mapping[str, str]]

    def with_peer(self, name: str, version: str, lost: Mapping[str, str]) -> "Results":
        return replace(self, versions={**self.versions, name: version}, lost={**self.lost, name: lost})


def results() -> Results:
    """Those of the last run."""
    return Results(**json.loads(RESULTS.read_text())) if RESULTS.exists() else Results({}, {})


def write(found: Results) -> None:
    RESULTS.write_text(json.dumps(asdict(found), indent=1, ensure_ascii=False) + "\n")
    PAGE.write_text(page(PAGE.read_text(), found))


def page(text: str, found: Results) -> str:
    """The page with its tables in their places."""
    for name, table in (("peers", _peers(found)), ("tests", _tests())):
        before, mark, rest = text.partition(f"<!-- generated: {name} -->\n")
        text = before + mark + table + END + rest.partition(END)[2]
    return text


def _peers(found: Results) -> str:
    """A row per probe; what holds is a dot, so that losses stand out."""
    names = list(found.lost)
    rows: list[Sequence[str]] = [
        (probe.name, probe.holds, *(_cell(found.lost[name].get(probe.holds, "?")) for name in names))
        for probe in all_probes()
    ]
    counts = [str(sum(bool(loss) for loss in found.lost[name].values())) for name in names]
    heads = [f"{name} {found.versions[name]}".strip() for name in names]
    return _table(["", "what must hold", *heads], [*rows, ("", "**lost**", *(f"**{count}**" for count in counts))])


def _cell(loss: str) -> str:
    return loss.replace("|", "\\|") or "·"


def _tests() -> str:
    """A row per probe of the catalogue: the tests that bear its name."""
    tests = named_tests()
    rows = [(name, holds, ", ".join(tests.get(name, []))) for name, holds in CATALOGUE]
    return _table(["probe", "what must hold", "tests"], rows)


def named_tests() -> dict[str, list[str]]:
    """`C1` → the files with tests of it."""
    found: dict[str, set[str]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for name in re.findall(r"def test_([A-Z]\d+)_", path.read_text()):
            found.setdefault(name, set()).add(path.name)
    for probe in all_probes():
        found.setdefault(probe.name, set()).add("test_probes.py")
    return {name: [f"`{file}`" for file in sorted(files)] for name, files in found.items()}


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    write(results())  # after tests came or went
