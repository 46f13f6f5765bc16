"""What is changed, and what is left alone. Running the tests against mutants is `make mutants`."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.mutation import report
from tests.mutation.mutants import mutants

Names = Callable[[str], list[str]]
GUARD = Path(__file__).parents[2] / "guard" / "pulumi_infercrane" / "guard"


@pytest.fixture
def changes(tmp_path: Path) -> Names:
    """`changes("x = 1")`: what the source becomes, as `before -> after`."""

    def of(source: str) -> list[str]:
        path = tmp_path / "module.py"
        path.write_text(source)
        return [mutant.name.split(" | ")[-1] for mutant in mutants(path)]

    return of


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x = a < b", ["a < b -> a <= b", "a < b -> a > b"]),
        ("x = a - b", ["a - b -> a + b"]),
        ("x = not a", ["not a -> a"]),
        ("x = a and b", ["a and b -> a or b", "a and b -> b", "a and b -> a"]),
        ("x = a if b else c", ["a if b else c -> a", "a if b else c -> c"]),
        ("if a:\n    f()", ["a -> True", "a -> False", "f() -> pass"]),
        ("x = [a for a in b if a]", ["a -> True", "a -> False"]),
        ("x = min(a, b)", ["min(a, b) -> max(a, b)"]),
        ("x = sorted(a, key=b)", ["sorted(a, key=b) -> list(a)"]),
        ("x = (*a, *b)", ["(*a, *b) -> (*b,)", "(*a, *b) -> (*a,)"]),
        ("x = 1, 0.5, True", ["1 -> 2", "0.5 -> 0.625", "True -> False"]),
        ("x = 'stale'", ["'stale' -> 'stale_mutated'"]),
        ("def f():\n    return a", ["return a -> return None"]),
    ],
)
def test_one_place_is_changed_at_a_time(changes: Names, source: str, expected: list[str]) -> None:
    assert changes(source) == expected


@pytest.mark.parametrize("source", ["x = 'a sentence for people'", "'''docs'''", "x: Literal['a'] = y", "x = f'{1}'"])
def test_what_nobody_decides_by_is_left_alone(changes: Names, source: str) -> None:
    assert changes(source) == []


def test_equal_changes_of_a_function_are_told_apart(changes: Names) -> None:
    assert changes("x = 1 + 1") == ["1 + 1 -> 1 - 1", "1 -> 2", "1 -> 2 #2"]


def test_a_mutant_is_the_module_with_the_change(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text("def f(a):\n    return a + 1\n")
    results = []
    for mutant in mutants(path):
        names: dict[str, Callable[[int], int | None]] = {}
        exec(mutant.code, names)
        results.append((mutant.function, names["f"](5)))
    assert results == [("f", None), ("f", 4), ("f", 7)]


def test_the_defaults_of_a_function_are_made_where_it_is(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text("class C:\n    def f(self, a=1):\n        return lambda: 2\n")
    places = [(mutant.function, mutant.name.split(" | ")[-1]) for mutant in mutants(path)]
    assert places[0] == ("C.<module>", "1 -> 2")
    assert places[-1] == ("C.f", "2 -> 3")


def test_the_page_shows_the_results() -> None:
    page = report.PAGE.read_text()
    assert page == report.page(page, json.loads(report.RESULTS.read_text()))


def test_every_line_with_an_equivalent_mutant_is_still_there() -> None:
    """A run that finds one listed in vain does not start."""
    lines = {module: _lines(module) for module, _ in report.equivalent()}
    for module, name in report.equivalent():
        changed = name.partition(" | ")[2]
        assert any(changed.startswith(f"{line} | ") for line in lines[module]), (module, name)


def _lines(module: str) -> set[str]:
    return {line.strip() for line in (GUARD / module).read_text().splitlines()}
