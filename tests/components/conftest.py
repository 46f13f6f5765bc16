"""A place for supervised processes that is empty of processes again after each test."""

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pulumi_infercrane.components.supervision.observing import observe, read_record
from pulumi_infercrane.components.supervision.stopping import stop
from pulumi_infercrane.components.supervision.supervisor import start_time
from tests.components.world import World

CHILD = Path(__file__).with_name("child.py")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    for folder in (tmp_path / "processes").glob("[!.]*"):
        stop(folder)
        left = observe(folder)
        assert left is None or not left.alive


@pytest.fixture(scope="session")
def child() -> Callable[..., tuple[str, ...]]:
    """Command line of a small program that behaves as told."""

    def command(behaviour: str, *arguments: str) -> tuple[str, ...]:
        return (sys.executable, "-S", str(CHILD), behaviour, *arguments)

    return command


@pytest.fixture(scope="session")
def eventually() -> Callable[[Callable[[], object]], None]:
    """Waits until a condition holds, and fails when it never does."""

    def wait(condition: Callable[[], object], seconds: float = 10.0) -> None:
        give_up = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < give_up, "condition never held"
            time.sleep(0.02)

    return wait


@pytest.fixture(scope="session")
def supervisor_of() -> Callable[[Path], int]:
    """Pid of the supervisor of a folder."""

    def pid(folder: Path) -> int:
        record = read_record(folder)
        assert record is not None
        return int(record["supervisor"]["pid"])

    return pid


@pytest.fixture(scope="session")
def is_running() -> Callable[[int], bool]:
    return lambda pid: start_time(pid) is not None
