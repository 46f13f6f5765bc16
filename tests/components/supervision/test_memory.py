"""Kills for lack of memory, as the kernel counts them for a control group; what it does not count is not known."""

import os
from pathlib import Path

import pytest

from pulumi_infercrane.components.supervision import memory

ONE, TWO = "9:cpu,cpuacct:/\n4:memory:/box/a\n0::/\n", "0::/box/a\n"
EVENTS = "low 0\nhigh 12\nmax 40\noom 3\noom_kill 2\noom_group_kill 0\n"
CONTROL = "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty kernel, in which process 7 is to be."""
    monkeypatch.setattr(memory, "PROC", tmp_path / "proc")
    monkeypatch.setattr(memory, "GROUPS", tmp_path / "cgroup")
    return tmp_path


def put(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


@pytest.mark.parametrize(
    ("groups", "file", "text"),
    [(TWO, "box/a/memory.events", EVENTS), (ONE, "memory/box/a/memory.oom_control", CONTROL)],
)
def test_the_group_of_a_process_is_asked(kernel: Path, groups: str, file: str, text: str) -> None:
    put(kernel / "proc/7/cgroup", groups)
    put(kernel / "cgroup" / file, text)
    assert memory.oom_kills(7) == 2


@pytest.mark.parametrize("groups", ["", "not a group\n", ONE, TWO])
def test_what_the_kernel_does_not_count_is_not_known(kernel: Path, groups: str) -> None:
    assert memory.oom_kills(7) is None
    put(kernel / "proc/7/cgroup", groups)
    assert memory.oom_kills(7) is None


def test_a_kernel_before_the_count_does_not_count(kernel: Path) -> None:
    put(kernel / "proc/7/cgroup", ONE)
    put(kernel / "cgroup/memory/box/a/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\n")
    assert memory.oom_kills(7) is None


def test_this_kernel_counts_or_says_nothing() -> None:
    kills = memory.oom_kills(os.getpid())
    assert kills is None or kills >= 0
    assert memory.oom_kills(2**22 + 1) is None
