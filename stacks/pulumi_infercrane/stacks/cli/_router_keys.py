"""`infercrane router key`: the keys clients send."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pulumi_infercrane.stacks.cli._router_errors import router_errors

if TYPE_CHECKING:
    from pulumi_infercrane.router.clients.keys import Grant
    from pulumi_infercrane.router.control.client import ControlClient, IssuedKey

T = TypeVar("T")

control_option = click.option(
    "--control", type=click.Path(path_type=Path), required=True, help="Control socket of the router."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document on standard output.")


@click.group("key")
def key() -> None:
    """Make, list, rotate and revoke the keys that clients send.

    \b
    Example:
      infercrane router key new ci --service chat --control /run/infercrane/router.sock
    """


@key.command("new")
@click.argument("name")
@click.option(
    "--service", "services", multiple=True, required=True, help="Service it is for, repeatable; * is every one."
)
@click.option(
    "--priority",
    "priorities",
    multiple=True,
    default=("normal",),
    show_default=True,
    help="Priority it may ask for: high, normal or low; repeatable.",
)
@click.option("--pin", is_flag=True, help="It may ask for a revision by header; default: no.")
@click.option("--days", type=click.IntRange(1, 36_500), help="Days until it expires; default: never.")
@click.option("--requests-per-minute", type=click.IntRange(1), help="Requests it may begin a minute; default: any.")
@click.option("--tokens-per-minute", type=click.IntRange(1), help="Tokens it may use a minute; default: any.")
@click.option("--max-inflight", type=click.IntRange(1), help="Requests it may have in flight; default: any.")
@control_option
@json_option
@router_errors
def new(
    name: str,
    services: tuple[str, ...],
    priorities: tuple[str, ...],
    pin: bool,
    days: int | None,
    control: Path,
    as_json: bool,
    **limits: int | None,
) -> None:
    """Make a key and print it, this once. From the first key on, requests without one are refused.

    \b
    Example:
      infercrane router key new ci --service chat --tokens-per-minute 60000 --control /run/infercrane/router.sock
    """
    from pulumi_infercrane.router.clients.keys import Grant, KeyLimits

    expires_at = f"{datetime.now(UTC) + timedelta(days=days):%Y-%m-%dT%H:%M:%SZ}" if days else ""
    limited = KeyLimits(**limits) if any(limits.values()) else None
    grant = Grant(name, services, priorities, pin, limited, expires_at)
    issued, known = _call(control, lambda client: _made(client, grant))
    _print_issued(issued, as_json=as_json)
    for service in sorted({*services} - {*known, "*"}) if known else ():  # keys may be made before the first table
        click.echo(f"note: the router has no service {service} yet; there is: {', '.join(known)}", err=True)


async def _made(client: "ControlClient", grant: "Grant") -> "tuple[IssuedKey, tuple[str, ...]]":
    """A new key, and the services there are."""
    return await client.new_key(grant), await client.services()


@key.command("list")
@control_option
@json_option
@router_errors
def list_(control: Path, as_json: bool) -> None:
    """Print the keys there are, revoked ones included; never what clients send.

    \b
    Example:
      infercrane router key list --control /run/infercrane/router.sock
    """
    found = _call(control, lambda client: client.keys())
    if as_json:
        click.echo(json.dumps({"required": found.required, "keys": found.keys}, indent=2))
        return
    click.echo("requests without a key are " + ("refused" if found.required else "allowed"))
    for one in found.keys:
        click.echo(f"  {one['name']:24} {_state(one):32} {', '.join(one['services'])}")


@key.command("rotate")
@click.argument("name")
@click.option("--old-valid", default=86_400, show_default=True, help="Seconds the old key stays valid.")
@control_option
@json_option
@router_errors
def rotate(name: str, old_valid: int, control: Path, as_json: bool) -> None:
    """Print a new key for a name, this once; the old one stays valid for a while.

    \b
    Example:
      infercrane router key rotate ci --old-valid 3600 --control /run/infercrane/router.sock
    """
    _print_issued(_call(control, lambda client: client.rotate_key(name, old_valid)), as_json=as_json)


@key.command("revoke")
@click.argument("name")
@control_option
@router_errors
def revoke(name: str, control: Path) -> None:
    """End a key now: requests that begin afterwards are refused, open streams go on.

    \b
    Example:
      infercrane router key revoke ci --control /run/infercrane/router.sock
    """
    _call(control, lambda client: client.revoke_key(name))
    click.echo(f"{name} is revoked")


def _call(control: Path, call: "Callable[[ControlClient], Awaitable[T]]") -> T:
    from pulumi_infercrane.router.control.client import ControlClient

    async def run() -> T:
        async with ControlClient(control) as client:
            return await call(client)

    return asyncio.run(run())


def _print_issued(issued: "IssuedKey", *, as_json: bool) -> None:
    """The key alone on standard output, so that it can go into a secret store without being seen."""
    if as_json:
        click.echo(json.dumps({"secret": issued.secret, "key": issued.key}, indent=2))
        return
    click.echo(f"key {issued.key['name']}: it is not shown again", err=True)
    click.echo(issued.secret)


def _state(one: Mapping[str, Any]) -> str:
    if one.get("revoked_at"):
        return f"revoked {one['revoked_at']}"
    secrets = f", {len(one['secrets'])} secrets" if len(one["secrets"]) > 1 else ""
    return (f"until {one['expires_at']}" if one.get("expires_at") else "valid") + secrets
