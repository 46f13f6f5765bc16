"""What the package shows, and what importing it costs."""

import re
import subprocess
import sys
from pathlib import Path

from pulumi_infercrane import guard
from pulumi_infercrane.guard import errors, evidence, rules
from pulumi_infercrane.guard.judging.rule import Kind


def run(script, *arguments):
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout.split()


def test_names_are_sorted_and_importable():
    for package in (guard, evidence):
        assert sorted(package.__all__) == package.__all__
        assert all(getattr(package, name) is not None for name in package.__all__)
        assert not hasattr(package, "nonsense")


def test_errors_have_unique_codes_and_stand_in_the_documented_tree():
    classes = [value for value in vars(errors).values() if isinstance(value, type)]
    assert all(issubclass(one, errors.GuardError) for one in classes)
    assert len({one.code for one in classes}) == len(classes)
    assert set(re.findall(r"\w+Error", errors.__doc__)) == {one.__name__ for one in classes}


def test_every_kind_is_whole():
    for name in rules.known_kinds():
        kind = rules.find_kind(name)
        assert isinstance(kind, Kind)
        assert kind.name == name
        assert kind.form(kind.example.replace("<task>", "task")) is not None
        assert {rule.partition(".")[0] for rule in kind.forms} == {name}


def test_a_digest_costs_no_pydantic():
    script = "import sys; from pulumi_infercrane.guard.evidence import revision_digest; print(*sys.modules)"
    assert not {"pydantic", "numpy", "yaml", "pulumi"} & set(run(script))


def test_deciding_needs_neither_numpy_nor_pulumi_nor_the_network():
    script = "import sys; from pulumi_infercrane.guard import decide, verification; print(*sys.modules)"
    assert not {"numpy", "scipy", "pulumi", "socket", "asyncio", "httpx", "aiohttp"} & set(run(script))


WATCH = """
import importlib, os, sys, time

def watched(function):
    def call(*arguments):
        asker = sys._getframe(1).f_globals["__name__"]
        assert not asker.startswith("pulumi_infercrane"), asker
        return function(*arguments)
    return call

class Watched(dict):
    get = watched(dict.get)
    __getitem__ = watched(dict.__getitem__)

os.environ, time.time, time.monotonic = Watched(os.environ), watched(time.time), watched(time.monotonic)
for name in sys.argv[1:]:
    importlib.import_module(name)
print("done")
"""


def test_importing_reads_neither_clock_nor_environment():
    root = Path(guard.__file__).parent
    files = [path.relative_to(root).with_suffix("") for path in root.rglob("*.py") if "collect" not in path.parts]
    names = [".".join(("pulumi_infercrane", "guard", *file.parts)) for file in files]
    assert run(WATCH, *names) == ["done"]
