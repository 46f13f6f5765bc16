"""One operation per stack at a time, as long as any process holds the descriptor."""

import subprocess
import sys
from pathlib import Path

import pytest

from pulumi_infercrane.stacks.errors import StackBusy
from pulumi_infercrane.stacks.operations.lock import stack_lock


def test_the_second_holder_is_refused_and_told_who_holds_it(tmp_path: Path) -> None:
    with (
        stack_lock(tmp_path, "infercrane up of lab/dev"),
        pytest.raises(StackBusy, match="infercrane up of lab/dev"),
        stack_lock(tmp_path, "another"),
    ):
        pass


def test_it_is_free_again_afterwards(tmp_path: Path) -> None:
    with stack_lock(tmp_path, "one"):
        pass
    with stack_lock(tmp_path, "two"):
        pass


def test_a_child_that_inherited_it_keeps_it_after_the_parent_let_go(tmp_path: Path) -> None:
    with stack_lock(tmp_path, "parent") as descriptor:
        child = subprocess.Popen(
            [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE, pass_fds=[descriptor]
        )
    try:
        with pytest.raises(StackBusy), stack_lock(tmp_path, "later"):
            pass
    finally:
        child.communicate()
    with stack_lock(tmp_path, "after the child"):
        pass
