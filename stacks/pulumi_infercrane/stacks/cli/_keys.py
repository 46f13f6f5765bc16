"""Options that name a private key. A passphrase is never an argument: other processes see those."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from pulumi_infercrane.guard import SigningKey, TrustError, load_key

Command = TypeVar("Command", bound=Callable[..., Any])

passphrase_option = click.option(
    "--passphrase-env", "passphrase_from", metavar="NAME", help="Environment variable that holds the key's passphrase."
)


_KEY_FILE = "Private key file, as `infercrane guard keygen` makes it."


def sign_with_option(what: str) -> Callable[[Command], Command]:
    """`--sign-with FILE`, optional, and `--passphrase-env NAME`; `what` is signed, in the plural."""
    return key_option("--sign-with", required=False, text=f"Sign the {what} with this private key; default: unsigned.")


def key_option(name: str, required: bool = True, text: str = _KEY_FILE) -> Callable[[Command], Command]:
    """`name FILE` and `--passphrase-env NAME`, as `key_file` and `passphrase_from`."""

    def add(command: Command) -> Command:
        option = click.option(
            name,
            "key_file",
            type=click.Path(dir_okay=False, path_type=Path),
            required=required,
            help=text,
        )
        return option(passphrase_option(command))

    return add


def open_key(file: Path, passphrase_from: str | None) -> SigningKey:
    """The key in a file.

    Raises:
        TrustError: as `load_key`, and when the variable is not set.
    """
    return load_key(file, passphrase(passphrase_from))


def passphrase(variable: str | None) -> str:
    """What the named variable holds; nothing without a name.

    Raises:
        TrustError: when the variable is not set or empty.
    """
    if variable is None:
        return ""
    value = os.environ.get(variable, "")
    if not value:
        raise TrustError(f"--passphrase-env: the environment variable {variable} is not set")
    return value
