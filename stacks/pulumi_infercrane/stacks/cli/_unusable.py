"""How the commands that work on files alone end when a file cannot be used."""

import sys
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

import click

from pulumi_infercrane.guard import GuardError

UNUSABLE = 2

P = ParamSpec("P")


def unusable_input(command: Callable[P, None]) -> Callable[P, None]:
    """Policy, evidence, record or key cannot be used: one line and exit code 2, never a verdict."""

    @wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except GuardError as error:
            click.echo(f"error: {error}", err=True)
            sys.exit(UNUSABLE)

    return wrapped
