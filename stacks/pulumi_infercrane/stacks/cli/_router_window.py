"""`infercrane router window`."""

import asyncio
from pathlib import Path

import click

from pulumi_infercrane.guard import SigningKey
from pulumi_infercrane.guard.files import why
from pulumi_infercrane.stacks.cli._keys import open_key, sign_with_option
from pulumi_infercrane.stacks.cli._router_errors import fail, router_errors
from pulumi_infercrane.stacks.cli._router_keys import control_option


@click.command("window")
@click.argument("service")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Folder for the windows; those in it are kept.",
)
@control_option
@sign_with_option("windows")
@router_errors
def window(service: str, out: Path, control: Path, key_file: Path | None, passphrase_from: str | None) -> None:
    """Close the open traffic window of a service, and write every closed one into a folder.

    A file is what `guard canary` and `guard watch` decide on. The next window begins where this one ends; it also ends
    when the route changes. Before a first canary step nothing is counted until this is asked for once. A policy that
    requires signatures takes windows signed by a key it trusts with `window`.

    \b
    Example:
      infercrane router window chat --control /run/infercrane/router.sock --out windows
    """
    key = open_key(key_file, passphrase_from) if key_file else None
    for path in (written := asyncio.run(_take(control, service, out, key))):
        click.echo(path)
    if not written:
        click.echo(f"{service}: a window is open now; ask again to close it", err=True)


async def _take(control: Path, service: str, folder: Path, key: SigningKey | None) -> tuple[Path, ...]:
    from pulumi_infercrane.router.control.client import ControlClient
    from pulumi_infercrane.stacks.windows import take

    async with ControlClient(control) as router:
        try:
            return await take(router, service, folder, key=key)
        except OSError as error:
            fail(f"{folder} cannot be written: {why(error)}")
