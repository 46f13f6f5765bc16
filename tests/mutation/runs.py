"""Runs the tests against mutants, each in a forked child of a pytest that has collected them already.

A mutant inside a function is swapped into the loaded functions, and only tests that run its lines are run. A mutant of
what a module does on import needs a pytest that has not imported it: it is forked before that, and imports the mutant.
So does a mutant that survived in a function: the function may have done its work on import.
"""

import gc
import importlib
import importlib.machinery
import mmap
import os
import pickle
import resource
import signal
import sys
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import Phase, settings

from tests.mutation.mutants import Mutant

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "guard"
MEMORY = 6 << 30
CRASHED = 70
MOST_TESTS = 400
"""A mutant that outlives this many of its tests, the most promising ones, is called a survivor."""
OPTIONS = [
    *("--rootdir", str(ROOT), "-o", "addopts=", "--import-mode=importlib", "--assert=plain", "--capture=sys"),
    *("-p", "no:terminal", "-p", "no:cacheprovider", "-p", "no:faulthandler", "-o", "tmp_path_retention_policy=none"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),
    *("-m", "not engine and not runtime and not packaging and not browser"),
]
"""`-p no:terminal`: thousands of runs have nothing to say."""

READ_DEFAULTS = "tests/guard/rules/test_defaults.py"
"""Tests of what modules make on import: they run no line of them."""

Line = tuple[str, int]


@dataclass
class Reach:
    """Which tests run which lines, and how long each takes in seconds."""

    tests: dict[Line, set[str]] = field(default_factory=lambda: defaultdict(set))
    seconds: dict[str, float] = field(default_factory=dict)
    _rarest: dict[str, Mapping[str, int]] = field(default_factory=dict)

    def of(self, path: Path, mutant: Mutant, killers: Collection[str] = (), on_import: bool = False) -> list[str]:
        """Tests that run a line of the mutant; of what a module does on import: any line of it, or READ_DEFAULTS.

        First those that killed its kin, then those that go the rarer way after it, then its module's own; of equal ones
        those first that run a line of the module which few others run.
        """
        reached: set[str] = set().union(
            *(
                tests
                for (name, line), tests in self.tests.items()
                if name == str(path) and (on_import or line in mutant.lines)
            )
        )
        if on_import:
            killers = [test for test in self.seconds if READ_DEFAULTS in test]
            reached |= set(killers)
        following = self.tests.get((str(path), mutant.lines.stop), set()) & reached
        rarer = following if 2 * len(following) < len(reached) else reached - following
        rarest = self._rarest_line(str(path))

        def hope(test: str) -> tuple[bool, bool, bool, int, float]:
            elsewhere = f"test_{path.stem}" not in test
            shared = rarest.get(test, len(self.seconds))
            return test not in killers, test not in rarer, elsewhere, shared, self.seconds[test]

        return sorted(reached, key=hope)[:MOST_TESTS]

    def _rarest_line(self, name: str) -> Mapping[str, int]:
        """For each test that reaches a module: how many tests share the line of it that fewest of them run."""
        if name not in self._rarest:
            by_line = sorted((tests for (file, _), tests in self.tests.items() if file == name), key=len, reverse=True)
            self._rarest[name] = {test: len(tests) for tests in by_line for test in tests}
        return self._rarest[name]


def may_take(seconds: float) -> None:
    """Ends this process when it needs more of a processor from here on: others on the machine do not matter."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, seconds)


def in_child(run: Callable[[], int]) -> int | None:
    """The exit code of `run` in a forked child; None when it died."""
    sys.stdout.flush()
    pid = os.fork()
    if not pid:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        code = CRASHED
        try:
            code = run()
        except Exception:  # noqa: BLE001 - a forked child may not return into its parent's code
            traceback.print_exc()
        finally:
            os._exit(code)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status == CRASHED:
        raise RuntimeError("a run broke off: see above")
    return status if status >= 0 else None


# --- which tests reach which lines ------------------------------------------------------------------------------


@dataclass
class Recorder:
    """A pytest plugin that fills a Reach and writes it to a file."""

    paths: Sequence[Path]
    target: Path

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        reach = Reach()
        names = {str(path) for path in self.paths}
        for place, item in enumerate(session.items):
            started = time.perf_counter()
            lines: set[Line] = set()
            sys.settrace(_tracer(names, lines))
            runtestprotocol(item, nextitem=_after(session.items, place), log=False)
            sys.settrace(None)
            reach.seconds[item.nodeid] = time.perf_counter() - started
            for line in lines:
                reach.tests[line].add(item.nodeid)
        self.target.write_bytes(pickle.dumps(reach))
        return True


def _tracer(names: set[str], lines: set[Line]) -> Any:
    def local(frame: FrameType, event: str, argument: Any) -> Any:
        lines.add((frame.f_code.co_filename, frame.f_lineno))
        return local

    def entered(frame: FrameType, event: str, argument: Any) -> Any:
        return local if frame.f_code.co_filename in names else None

    return entered


# --- mutants inside functions -----------------------------------------------------------------------------------


@dataclass
class Swapper:
    """A pytest plugin that tries mutants by swapping the code of functions, and writes path and name of survivors."""

    mutants: Sequence[tuple[Path, Mutant]]
    reach: Reach
    target: Path

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        loaded = _loaded({path for path, _ in self.mutants})
        gc.freeze()  # a child that collects garbage would copy every page of this process
        _check_without_mutant(session.items)
        alive = []
        killers: dict[str, set[str]] = defaultdict(set)
        last = mmap.mmap(-1, 8)  # shared with the child
        for path, mutant in self.mutants:
            place = f"{path} {mutant.function}"
            tests = [items[test] for test in self.reach.of(path, mutant, killers[place])]
            seconds = [self.reach.seconds[item.nodeid] for item in tests]
            code = in_child(partial(_try, mutant, loaded[str(path), mutant.function], tests, seconds, last))
            if code != 0:
                killers[place].add(tests[int.from_bytes(last[:])].nodeid)
            else:
                alive.append(f"{path}\t{mutant.name}\n")
        self.target.write_text("".join(alive))
        return True


def _loaded(paths: Collection[Path]) -> Mapping[tuple[str, str], Sequence[FunctionType]]:
    """All functions of some modules, by file and name. Kinds are imported when they are first needed: that is now."""
    for path in paths:
        importlib.import_module(".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"))
    names = {str(path) for path in paths}
    found: dict[tuple[str, str], list[FunctionType]] = defaultdict(list)
    for one in gc.get_objects():
        if isinstance(one, FunctionType) and one.__code__.co_filename in names:
            found[one.__code__.co_filename, one.__code__.co_qualname].append(one)
    return found


def _try(
    mutant: Mutant,
    functions: Sequence[FunctionType],
    tests: Sequence[pytest.Item],
    seconds: Sequence[float],
    last: mmap.mmap,
) -> int:
    """0 when all tests pass on the mutant, else 1; `last` holds the place of the test that ran last.

    A test may take three times its seconds, and two more.
    """
    _swap(functions, mutant)
    failures = _failures(tests)
    for place, usual in enumerate(seconds):
        last[:] = place.to_bytes(8)
        may_take(2 + 3 * usual)
        if next(failures):
            return 1
    return 0


def _failures(tests: Sequence[pytest.Item]) -> Iterator[str]:
    """For each test, what failed; empty when it passed."""
    for place, item in enumerate(tests):
        item.config.option.tbstyle = "native"  # the default reads every source file on the way
        reports = runtestprotocol(item, nextitem=_after(tests, place), log=False)
        yield "".join(f"{item.nodeid}: {report.longreprtext}" for report in reports if report.failed)


def _after(tests: Sequence[pytest.Item], place: int) -> Any:
    """The next test, for which pytest keeps fixtures; None after the last."""
    return tests[place + 1] if place + 1 < len(tests) else None


def _check_without_mutant(tests: Sequence[pytest.Item]) -> None:
    """Else tests that cannot be run here would kill every mutant."""

    def run() -> int:
        failures = [failure for failure in _failures(tests) if failure]
        print(*failures, sep="\n", file=sys.stderr)
        return len(failures) > 0

    if in_child(run):
        raise RuntimeError("tests fail in a forked child without any mutant")


def _swap(functions: Sequence[FunctionType], mutant: Mutant) -> None:
    """Give the loaded functions the mutant's code: whatever refers to them sees it."""
    changed = dict(_functions(mutant.code))
    if not functions:
        raise LookupError(f"no function {mutant.function} is loaded")
    for function in functions:
        function.__code__ = changed[function.__code__.co_qualname, function.__code__.co_firstlineno]


def _functions(code: CodeType) -> Iterator[tuple[tuple[str, int], CodeType]]:
    """Outermost functions of a module or class body by qualified name and line."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            if constant.co_flags & 0x2:  # CO_NEWLOCALS: a function, not a class body
                yield (constant.co_qualname, constant.co_firstlineno), constant
            else:
                yield from _functions(constant)


# --- mutants of what a module does on import --------------------------------------------------------------------


@dataclass
class Mutated(MetaPathFinder):
    """An importer that gives one module the mutant's code; as a pytest plugin it keeps the tests that matter."""

    path: Path
    code: CodeType
    tests: Sequence[str]

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> Any:
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec and spec.origin == str(self.path):
            loader = spec.loader
            loader.get_code = lambda name: self.code  # type: ignore[union-attr]
            return spec
        return None

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        wanted = {test: place for place, test in enumerate(self.tests)}
        items[:] = sorted((item for item in items if item.nodeid in wanted), key=lambda item: wanted[item.nodeid])


def survives_import(path: Path, mutant: Mutant, reach: Reach) -> bool:
    """Whether the tests pass although the module was imported as the mutant. Call it where it is not imported yet."""
    tests = reach.of(path, mutant, on_import=True)
    plugin = Mutated(path, mutant.code, tests)
    files = list(dict.fromkeys(test.split("::")[0] for test in tests))

    def run() -> int:
        may_take(20 + 3 * sum(reach.seconds[test] for test in tests))
        sys.meta_path.insert(0, plugin)
        return int(pytest.main([*OPTIONS, "-x", *files], plugins=[plugin]))

    return in_child(run) == 0


def quick_hypothesis() -> None:
    """The same examples for every mutant, none shrunk, none kept."""
    phases = (Phase.explicit, Phase.generate)
    settings.register_profile("mutants", derandomize=True, database=None, deadline=None, phases=phases)
    settings.load_profile("mutants")
