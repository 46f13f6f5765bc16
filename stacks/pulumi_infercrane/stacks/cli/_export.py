"""`infercrane router export`."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pulumi_infercrane.router.errors import ExportNotLive, RouterError, StateDamaged
from pulumi_infercrane.stacks.cli._router_errors import router_errors

if TYPE_CHECKING:
    from pulumi_infercrane.router.control.client import ControlClient
    from pulumi_infercrane.router.export._place import Place
    from pulumi_infercrane.router.tables.table import RouteTable

RETRIES = 3


@click.command("export")
@click.argument("target")
@click.option("--control", type=click.Path(path_type=Path), help="Control socket of a running router.")
@click.option(
    "--table",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A table from the state folder of a router.",
)
@click.option("--service", help="Service; not needed when the router has only one.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), required=True, help="The proxy's own folder.")
@click.option("--listen", default="127.0.0.1:8080", show_default=True, help="Address the proxy listens on.")
@click.option("--watch", is_flag=True, help="Go on with every generation that follows, until interrupted.")
@router_errors
def export(
    target: str, control: Path | None, file: Path | None, service: str | None, out: Path, listen: str, *, watch: bool
) -> None:
    """Write a route table for HAProxy, nginx, Envoy or a Gateway; make it live where one runs on the folder.

    TARGET is envoy, gateway_api, haproxy, inference_pool or nginx.

    \b
    Example:
      infercrane router export haproxy --control /run/infercrane/router.sock --out /etc/infercrane/haproxy --watch
    """
    from pulumi_infercrane.router.export import find_exporter
    from pulumi_infercrane.router.export._place import read_place

    if (control is None) == (file is None):
        raise click.UsageError("give --control or --table")
    if watch and control is None:
        raise click.UsageError("--watch follows a running router: give --control")
    find_exporter(target)
    place = read_place(out, listen)
    if file is not None:
        _deliver(target, _read(file), place)
    elif control is not None:
        asyncio.run(_export(target, control, service, place, watch=watch))


def _read(file: Path) -> "RouteTable":
    from pulumi_infercrane.router.tables.schema import read_table

    try:
        return read_table(json.loads(file.read_bytes()))
    except (ValueError, RecursionError) as error:
        raise StateDamaged(f"{file}: not JSON: {error}") from error
    except StateDamaged as error:
        raise StateDamaged(
            f"{file}: {error}; --table takes the file that a router keeps in its --state folder, else use --control"
        ) from error


async def _export(target: str, control: Path, service: str | None, place: "Place", *, watch: bool) -> None:
    from pulumi_infercrane.router.control.client import ControlClient
    from pulumi_infercrane.router.export._follow import current, generations

    async with ControlClient(control) as client:
        name = service or await _only_service(client)
        if not watch:
            _deliver(target, await current(client, name), place)
            return
        await _follow(target, generations(client, name), place)


async def _only_service(client: "ControlClient") -> str:
    names = await client.services()
    if len(names) != 1:
        raise click.UsageError(f"the router has {', '.join(names) or 'no service'}: name one with --service")
    return names[0]


async def _follow(target: str, tables: "AsyncIterator[RouteTable]", place: "Place") -> None:
    """What cannot be said or does not become live is reported; the proxy serves on by what it has."""
    async for table in tables:
        for _ in range(RETRIES):
            try:
                await asyncio.to_thread(_deliver, target, table, place)
            except ExportNotLive as error:
                click.echo(f"error: generation {table.generation}: {error}", err=True)
                continue
            except RouterError as error:
                click.echo(f"error: generation {table.generation}: {error}", err=True)
            break


def _deliver(target: str, table: "RouteTable", place: "Place") -> None:
    from pulumi_infercrane.router.export._deliver import deliver
    from pulumi_infercrane.router.export._view import losses

    delivered = deliver(target, table, place)
    for sentence in losses(table):
        click.echo(f"note: {sentence}", err=True)
    state = "live" if delivered.live else "written"
    names = ", ".join(delivered.written) or "nothing new"
    click.echo(f"{table.service}  generation {delivered.generation}  {state} in {place.folder}: {names}")
