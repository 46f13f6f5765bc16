"""Options and output that several commands share."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from pulumi_infercrane.stacks.config import StackConfig, from_file
from pulumi_infercrane.stacks.project import Project, find_project

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True)
class Chosen:
    """The project and stack a command works on."""

    project: Project
    config: StackConfig


def stack_options(command: Command) -> Command:
    """`-s STACK`, `-C FOLDER` and `--json`."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print one JSON document on standard output."),
        click.option(
            "-C",
            "--directory",
            type=click.Path(file_okay=False, path_type=Path),
            default=Path(),
            help="Folder of the project, or one below it; default: the working directory.",
        ),
        click.option("-s", "--stack", help="Stack; not needed when the project has only one."),
    ):
        command = option(command)
    return command


def choose(directory: Path, stack: str | None) -> Chosen:
    """The project in `directory` and the validated configuration of its stack."""
    project = find_project(directory, stack)
    config = from_file(project)
    _ = project.place  # a state directory that cannot be used is said here, not in the middle of a preview
    return Chosen(project, config)


def progress(text: str) -> None:
    """A line for people; standard output stays free for results."""
    click.echo(text, err=True)


@contextmanager
def progress_of(what: str) -> Iterator[Callable[[str, int, int], None]]:
    """Show long work: a bar on a terminal, a line each quarter elsewhere. Yields `show(label, done, total)`."""
    if sys.stderr.isatty():
        with click.progressbar(length=100, label=what, file=sys.stderr) as bar:
            yield lambda _, done, total: bar.update(100 * done // max(total, 1) - bar.pos)
        return
    quarter = -1

    def show(_: str, done: int, total: int) -> None:
        nonlocal quarter
        reached = 4 * done // max(total, 1)
        if reached > quarter:
            quarter = reached
            progress(f"{what}: {done} of {total}")

    yield show


def print_json(document: Any) -> None:
    json.dump(document, sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")
