"""How the commands of `infercrane router` end when something is wrong."""

import sys
from collections.abc import Callable
from functools import wraps
from typing import NoReturn, ParamSpec

import click

from pulumi_infercrane.guard import GuardError
from pulumi_infercrane.router.errors import (
    AccessLogRefused,
    AddressRefused,
    CertificateRefused,
    ExportRefused,
    KeysInvalid,
    RecordingRefused,
    RouterError,
)

GIVEN = (AccessLogRefused, AddressRefused, CertificateRefused, ExportRefused, GuardError, KeysInvalid, RecordingRefused)
"""What the command was given cannot be used; every other error is one of the router or the machine."""

P = ParamSpec("P")


def router_errors(command: Callable[P, None]) -> Callable[P, None]:
    """One line; exit code 2 when an option, or the file it names, cannot be used, else 1."""

    @wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except (RouterError, GuardError) as error:
            fail(str(error), 2 if isinstance(error, GIVEN) else 1)

    return wrapped


def fail(problem: str, code: int = 1) -> NoReturn:
    """Say what is wrong, and end."""
    click.echo(f"error: {problem}", err=True)
    sys.exit(code)
