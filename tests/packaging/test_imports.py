"""Who may import whom, and what an import may do."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.packaging.environments import PACKAGES, ROOMS, ROOT

MAY_IMPORT = {
    "guard": set[str](),
    "router": set[str](),
    "components": {"guard", "router"},
    "stacks": {"guard", "router", "components"},
}
WITHOUT_PULUMI = ("guard", "router")


def modules(room: str) -> list[Path]:
    return sorted((ROOT / room / "pulumi_infercrane" / room).rglob("*.py"))


def imported(module: Path) -> Iterator[str]:
    """Dotted names a module imports anywhere in its text; `from a import b` gives `a.b`."""
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}:{node.lineno}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def everywhere(room: str) -> set[tuple[str, str]]:
    """(file, imported name) for all modules of a room."""
    return {(module.name, name) for module in modules(room) for name in imported(module)}


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_rooms_below_it(room: str) -> None:
    ours = {(file, name) for file, name in everywhere(room) if name.startswith("pulumi_infercrane.")}
    allowed = MAY_IMPORT[room] | {room}
    assert {(file, name) for file, name in ours if name.split(".")[1] not in allowed} == set()


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_are_imported_by_their_full_name(room: str) -> None:
    assert {(file, name) for file, name in everywhere(room) if name.split(".")[0] in ROOMS} == set()


@pytest.mark.parametrize("room", WITHOUT_PULUMI)
def test_guard_and_router_know_nothing_of_pulumi(room: str) -> None:
    assert {(file, name) for file, name in everywhere(room) if name.split(".")[0].startswith("pulumi")} == {
        (file, name) for file, name in everywhere(room) if name.startswith("pulumi_infercrane.")
    }


@pytest.mark.parametrize("package", ["pulumi_infercrane.guard", "pulumi_infercrane.router"])
def test_importing_guard_or_router_loads_no_pulumi(package: str) -> None:
    assert loaded_by(f"import {package}").isdisjoint({"pulumi", "grpc"})


def test_the_command_line_starts_without_pulumi() -> None:
    assert "pulumi" not in loaded_by("import pulumi_infercrane.stacks.cli")


def test_no_top_level_name_is_taken() -> None:
    assert loaded_by("; ".join(f"import {package}" for package in PACKAGES)).isdisjoint(ROOMS)


def loaded_by(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint(*sys.modules)"
    return set(python(code).split())


def test_an_import_reads_no_clock_network_or_environment() -> None:
    assert python(IMPORT_UNDER_WATCH).splitlines() == []


IMPORT_UNDER_WATCH = """
import datetime, importlib, os, pathlib, pkgutil, socket, sys, sysconfig, time

STDLIB = sysconfig.get_path("stdlib")
CLOCK = {time.time, time.time_ns, time.monotonic, time.perf_counter, time.localtime, time.gmtime}
CLOCK_METHODS = {"now", "utcnow", "today"}
PYTHON = {os._Environ.__getitem__.__code__: "environment", socket.socket.__init__.__code__: "network"}

def asker(frame):
    # The nearest frame that is not the standard library's; None when an import lies in between.
    while frame and frame.f_code.co_filename.startswith((STDLIB, "<string>")):
        if "site-packages" in frame.f_code.co_filename:
            return None
        frame = frame.f_back
    ours = frame and "pulumi_infercrane" in frame.f_code.co_filename and "site-packages" not in frame.f_code.co_filename
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if ours else None

def watch(frame, event, what):
    kind = None
    if event == "call":
        kind = PYTHON.get(frame.f_code)
    elif event == "c_call" and (what in CLOCK or (
        what.__name__ in CLOCK_METHODS and isinstance(what.__self__, type) and issubclass(what.__self__, datetime.date)
    )):
        kind = "clock"
    if kind and (place := asker(frame)):
        found.append(f"{place}: {kind}")

found = []
import pulumi_infercrane
sys.setprofile(watch)
for module in pkgutil.walk_packages(pulumi_infercrane.__path__, "pulumi_infercrane."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
sys.setprofile(None)
print(*found, sep="\\n", end="")
"""


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
