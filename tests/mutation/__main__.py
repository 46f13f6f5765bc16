"""Mutation testing of what decides: `make mutants`, or `python -m tests.mutation rules/cost.py` for some modules.

All modules take about 25 minutes on one core. Then `results.json` and the table of `docs/testing.md` are rewritten,
where only some modules were asked for: their rows.
"""

import pickle
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tests.mutation import report
from tests.mutation.mutants import MODULE_LEVEL, Mutant, mutants
from tests.mutation.runs import OPTIONS, ROOT, Reach, Recorder, Swapper, in_child, quick_hypothesis, survives_import

GUARD = ROOT / "guard" / "pulumi_infercrane" / "guard"
MODULES = ["rules/*.py", "judging/*.py", "admission/*.py", "statistics/*.py", "decision.py", "verdict.py"]
TESTS = [
    "tests/guard/admission",
    "tests/guard/judging",
    "tests/guard/rules",
    "tests/guard/statistics",
    "tests/guard/trust",
    "tests/guard/evidence/readers/test_whole_decisions.py",
]
STARTS_PROCESSES = {"test_ci", "test_command", "test_command_reports", "test_import_command", "test_public_surface"}
"""A swapped function is not in them."""
DRAWS = {"test_invariants", "test_noise", "test_strict_yaml", "test_strict_json"}
"""Too slow to be asked thousands of times. What they would kill beyond the others counts as surviving."""


One = tuple[Path, Mutant]


def main() -> None:
    asked = sys.argv[1:]
    paths = [path for pattern in asked or MODULES for path in sorted(GUARD.glob(pattern))]
    started = time.monotonic()
    found = [(path, mutant) for path in paths for mutant in mutants(path)]
    gone = report.unknown_names(GUARD, found)
    if gone:
        sys.exit("\n".join(["equivalent.toml lists what is no mutant any more:", *gone]))
    harmless = report.equivalent()
    tried = [one for one in found if (str(one[0].relative_to(GUARD)), one[1].name) not in harmless]
    within = [one for one in tried if MODULE_LEVEL not in one[1].function]
    on_import = [one for one in tried if MODULE_LEVEL in one[1].function]
    print(f"{len(found)} mutants of {len(paths)} modules, {len(on_import)} of them take effect on import", flush=True)
    quick_hypothesis()
    with tempfile.TemporaryDirectory() as folder:
        survivors = _survivors(paths, within, on_import, Path(folder))
    print(f"{time.monotonic() - started:.0f} s")
    rows = report.rows(GUARD, found, survivors)
    report.show(rows)
    report.write(rows)


def _survivors(paths: list[Path], within: list[One], on_import: list[One], folder: Path) -> set[tuple[str, str]]:
    """Modules and names of what no test noticed."""
    options = [*OPTIONS, "--basetemp", str(folder / "tests"), *_tests()]
    _in_pytest(options, Recorder(paths, folder / "reach"))
    reach: Reach = pickle.loads((folder / "reach").read_bytes())
    print(f"{len(reach.seconds)} tests", flush=True)
    _in_pytest(options, Swapper(within, reach, folder / "survivors"))
    alive = set((folder / "survivors").read_text().splitlines())
    again = [(path, mutant) for path, mutant in within if f"{path}\t{mutant.name}" in alive]
    found = set()
    for path, mutant in [*again, *on_import]:
        if survives_import(path, mutant, reach):
            module = str(path.relative_to(GUARD))
            print(f"{module}: {mutant.lines[0]}: {mutant.name}", flush=True)
            found.add((module, mutant.name))
    return found


def _tests() -> list[str]:
    own = sorted((ROOT / "tests" / "guard").glob("test_*.py"))
    return [*TESTS, *(str(path) for path in own if path.stem not in STARTS_PROCESSES | DRAWS)]


def _in_pytest(options: list[str], plugin: object) -> None:
    """In a child, so that this process has imported nothing that is to be mutated."""
    code = in_child(lambda: int(pytest.main(options, plugins=[plugin])))
    if code not in (0, 5):
        sys.exit(f"the tests do not pass without mutants, or cannot be collected ({code})")


if __name__ == "__main__":
    main()
