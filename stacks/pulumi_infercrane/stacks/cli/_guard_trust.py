"""`infercrane guard keygen` and `infercrane guard sign`: keys, and signatures made with them."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from pulumi_infercrane.guard import SigningKey, new_key, sign_file
from pulumi_infercrane.guard.rules import known_kinds
from pulumi_infercrane.guard.trust.store import policy_lines
from pulumi_infercrane.stacks.cli._keys import key_option, open_key, passphrase, passphrase_option
from pulumi_infercrane.stacks.cli._unusable import unusable_input

VALID_FOR = timedelta(days=365)

_File = click.Path(dir_okay=False, path_type=Path)


@click.command("sign")
@click.argument("files", type=_File, nargs=-1, required=True, metavar="FILE...")
@key_option("--key")
@unusable_input
def sign(files: tuple[Path, ...], key_file: Path, passphrase_from: str | None) -> None:
    """Sign evidence envelopes, or traffic windows (*.window.json), in place. Signatures by other keys stay.

    \b
    Example:
      infercrane guard sign evidence/r2/benchmark.evidence.json --key bench.pem
    """
    key = open_key(key_file, passphrase_from)
    for file in files:
        sign_file(file, key)
        click.echo(f"{file}: signed by {key.id}")


@click.command("keygen")
@click.argument("path", type=_File)
@click.option("--show", is_flag=True, help="PATH is a key already: only print what trusts it.")
@passphrase_option
@unusable_input
def keygen(path: Path, show: bool, passphrase_from: str | None) -> None:
    """Make a private key in a file only you can read; an existing file is never overwritten.

    Prints its id and the lines that let a policy trust it for every kind of evidence. Take out the kinds this key
    shall not attest; a key that may vouch for traffic windows says so with `window`, one that may order overrides with
    `override`. It vouches for what is measured from now on; for older evidence set its `not_before` earlier.

    \b
    Example:
      infercrane guard keygen bench.pem
    """
    _show(open_key(path, passphrase_from) if show else new_key(path, passphrase(passphrase_from)))


def _show(key: SigningKey) -> None:
    now = datetime.now(UTC)
    click.echo(f"# {key.id}")
    click.echo("# A policy that has `trust` already takes the entry alone, below its `keys:`.")
    click.echo(f"trust:\n  keys:\n{policy_lines(key.public_key, known_kinds(), now, now + VALID_FOR)}")
