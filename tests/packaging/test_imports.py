"""Who may import whom, and what an import may do."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
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
ROUTER_FROM_BELOW = [
    *(
        "errors",
        "clock",
        "durable",
        "histograms",
        "balance",
        "addresses",
        "protocol",
        "tables",
        "recording",
        "counting",
        "routing",
    ),
    *("clients", "telemetry", "relay", "control", "export", "serving"),
]
"""Modules and folders of the router: each imports only what stands before it."""


def modules(room: str) -> list[Path]:
    return sorted((ROOT / room / "pulumi_infercrane" / room).rglob("*.py"))


def name_of(module: Path, room: str) -> str:
    parts = module.relative_to(ROOT / room).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def imported(module: Path) -> Iterator[str]:
    """Dotted names a module imports anywhere in its text; `from a import b` gives `a.b`."""
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}:{node.lineno}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def for_types_only(module: Path) -> set[str]:
    """What of it only a type checker reads."""
    blocks = (node for node in ast.walk(ast.parse(module.read_text())) if isinstance(node, ast.If))
    hidden = (inner for node in blocks if ast.unparse(node.test) == "TYPE_CHECKING" for inner in ast.walk(node))
    return {
        f"{inner.module}.{alias.name}" for inner in hidden if isinstance(inner, ast.ImportFrom) for alias in inner.names
    }


@cache
def everywhere(room: str) -> frozenset[tuple[str, str]]:
    """(file, imported name) for all modules of a room."""
    return frozenset((module.name, name) for module in modules(room) for name in imported(module))


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_rooms_below_it(room: str) -> None:
    ours = {(file, name) for file, name in everywhere(room) if name.startswith("pulumi_infercrane.")}
    allowed = MAY_IMPORT[room] | {room}
    assert {(file, name) for file, name in ours if name.split(".")[1] not in allowed} == set()


@pytest.mark.parametrize("place", ROUTER_FROM_BELOW)
def test_a_folder_of_the_router_imports_only_folders_below_it(place: str) -> None:
    within = f"pulumi_infercrane.router.{place}"
    inside = [module for module in modules("router") if f"{name_of(module, 'router')}.".startswith(f"{within}.")]
    needed = {name for module in inside for name in {*imported(module)} - for_types_only(module)}
    folders = {name.split(".")[2] for name in needed if name.startswith("pulumi_infercrane.router.")}
    assert folders <= {*ROUTER_FROM_BELOW[: ROUTER_FROM_BELOW.index(place) + 1]}


def test_every_module_of_the_router_has_its_place_in_that_order() -> None:
    names = (name_of(module, "router").split(".") for module in modules("router"))
    places = {name[2] for name in names if len(name) > 2}
    assert places == {*ROUTER_FROM_BELOW}


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
    assert python(IMPORT_UNDER_WATCH, *(name_of(module, room) for room in ROOMS for module in modules(room))) == ""


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("clock", "import time; STARTED = time.time()"),
        ("clock", "from datetime import UTC, datetime; STARTED = datetime.now(UTC)"),
        ("environment", "import os; HOME = os.environ.get('HOME')"),
        ("environment", "from pathlib import Path; HOME = Path.home()"),
        ("network", "import socket; socket.socket().close()"),
    ],
)
def test_the_watch_sees_what_it_looks_for(kind: str, line: str, tmp_path: Path) -> None:
    portion = tmp_path / "pulumi_infercrane"
    portion.mkdir()
    (portion / "planted.py").write_text(line)
    code = f"import sys; sys.path.append({str(tmp_path)!r})\n{IMPORT_UNDER_WATCH}"
    found = python(code, "pulumi_infercrane.planted").splitlines()
    assert set(found) == {f"{portion / 'planted.py'}:1: {kind}"}


IMPORT_UNDER_WATCH = """
import datetime, importlib, os, socket, sys, sysconfig, time

STANDARD = (sysconfig.get_path("stdlib"), "<string>", "<frozen os>", "<frozen posixpath>", "<frozen _collections_abc>")
CLOCK = {time.time, time.time_ns, time.monotonic, time.perf_counter, time.localtime, time.gmtime}
CALLS = {os._Environ.__getitem__.__code__: "environment", socket.socket.__init__.__code__: "network"}
found = []

def is_clock(function):
    of = getattr(function, "__self__", None)
    of_dates = isinstance(of, type) and issubclass(of, datetime.date)
    return of_dates and function.__name__ in {"now", "today", "utcnow"} or function in CLOCK

def asker(frame):
    while frame and "site-packages" not in (file := frame.f_code.co_filename) and file.startswith(STANDARD):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else ""

def watch(frame, event, what):
    kind = CALLS.get(frame.f_code) if event == "call" else "clock" if event == "c_call" and is_clock(what) else None
    if kind:
        found.append(f"{asker(frame)}: {kind}")

sys.setprofile(watch)
try:
    for name in sys.argv[1:]:
        importlib.import_module(name)
finally:
    sys.setprofile(None)
print(*[line for line in found if "pulumi_infercrane" in line and "site-packages" not in line], sep="\\n", end="")
"""
"""Prints `file:line: kind` for each read by a module of ours while it is imported; what others read is theirs."""


def python(code: str, *arguments: str) -> str:
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
