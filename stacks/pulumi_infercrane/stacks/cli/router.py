"""`infercrane router`."""

import asyncio
import json
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pulumi_infercrane.stacks.cli._export import export
from pulumi_infercrane.stacks.cli._router_errors import fail, router_errors
from pulumi_infercrane.stacks.cli._router_keys import key
from pulumi_infercrane.stacks.cli._router_window import window

if TYPE_CHECKING:
    from pulumi_infercrane.router.clients.trusted_proxies import TrustedProxies
    from pulumi_infercrane.router.control.client import LiveService
    from pulumi_infercrane.router.recording.policy import RecordingPolicy


_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group("router")
def command() -> None:
    """Run the router, and look at what it serves.

    \b
    Example:
      infercrane router table --control /run/infercrane/router.sock
    """


command.add_command(key)
command.add_command(export)
command.add_command(window)


@command.command("serve")
@click.option("--listen", default="127.0.0.1:8000", show_default=True, help="For clients: host:port or unix:/path.")
@click.option("--control", type=click.Path(path_type=Path), required=True, help="Control socket of the router.")
@click.option(
    "--state", type=click.Path(path_type=Path), required=True, help="Folder in which the router keeps tables and keys."
)
@click.option("--drain", default=600.0, show_default=True, help="Seconds open streams may take after SIGTERM.")
@click.option("--require-keys", is_flag=True, help="Refuse requests without a client key, also before one was made.")
@click.option(
    "--record", type=click.Path(dir_okay=False, path_type=Path), help="Recording policy; without one nothing is kept."
)
@click.option(
    "--access-log", default="", metavar="FILE", help="Write a JSON line for every request here; - is standard output."
)
@click.option(
    "--trace-sample",
    type=click.FloatRange(0, 1),
    help="Export OpenTelemetry spans, and keep this share of the traces that begin here.",
)
@click.option("--tls-cert", type=_FILE, help="Certificate chain (PEM); with it clients are served by TLS.")
@click.option("--tls-key", type=_FILE, help="Private key of the certificate (PEM).")
@click.option("--trusted-proxies", metavar="CIDR,…", help="Addresses whose X-Forwarded-For and -Proto are believed.")
@click.option(
    "--max-connections",
    type=click.IntRange(min=1),
    help="Connections of clients at once, idle ones included.  [default: 16384]",
)
@click.option(
    "--max-body",
    type=click.IntRange(min=1),
    help="Bytes a request may have; a larger one gets 413.  [default: 16777216]",
)
@click.option(
    "--idle",
    type=click.FloatRange(min=0, min_open=True),
    help="Seconds a connection may be open between two requests.  [default: 75]",
)
@click.option("--status", help="Address where /livez, /readyz and /metrics answer; default: only the control socket.")
@click.option(
    "--workers",
    type=click.IntRange(min=0, max=256),
    default=0,
    show_default=True,
    help="Processes that serve; 0 is just this one.",
)
@click.option("--check", is_flag=True, help="Read options and files, say what is wrong with them, and serve nothing.")
@router_errors
def serve(
    listen: str,
    control: Path,
    state: Path,
    drain: float,
    require_keys: bool,
    record: Path | None,
    access_log: str,
    trace_sample: float | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    max_connections: int | None,
    trusted_proxies: str | None,
    max_body: int | None,
    idle: float | None,
    status: str | None,
    workers: int,
    check: bool,
) -> None:
    """Serve the tables of a state folder until SIGTERM; a second signal ends at once.

    \b
    Example:
      infercrane router serve --listen 127.0.0.1:8000 --control /run/infercrane/router.sock --state /var/lib/infercrane
    """
    from pulumi_infercrane.router.addresses import Listening, UnixAddress, read_listen_address
    from pulumi_infercrane.router.protocol.request import Limits
    from pulumi_infercrane.router.relay.relay import ConnectionTimers
    from pulumi_infercrane.router.serving import server
    from pulumi_infercrane.router.serving.logs import STDERR, LogHandler
    from pulumi_infercrane.router.serving.server import Settings

    tls = _tls(tls_cert, tls_key)

    def ready(address: Listening) -> None:
        scheme = "" if isinstance(address, UnixAddress) else "https://" if tls else "http://"
        click.echo(f"router: listening on {scheme}{address}, control socket {control}")

    handlers = [LogHandler(STDERR)]
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", handlers=handlers)
    address = read_listen_address(listen, keyed=require_keys)
    settings = Settings(
        address,
        control,
        state,
        drain,
        require_keys=require_keys,
        record=_policy(record),
        access_log=access_log,
        trace_sample=trace_sample,
        tls=tls,
        limits=Limits() if max_body is None else Limits(body=max_body),
        timers=ConnectionTimers() if idle is None else ConnectionTimers(idle_s=idle),
        max_connections=max_connections,
        trusted_proxies=_proxies(trusted_proxies),
        status=read_listen_address(status, keyed=True) if status else None,
        workers=workers,
        command=(sys.executable, *sys.orig_argv[1:]),
    )
    if check:
        server.check(settings)
        return
    server.serve(settings, os.environ, ready)


def _tls(chain: Path | None, key: Path | None) -> tuple[Path, Path] | None:
    if chain is None and key is None:
        return None
    if chain is None or key is None:
        raise click.UsageError("--tls-cert and --tls-key go together")
    return chain, key


def _proxies(text: str | None) -> "TrustedProxies | None":
    if text is None:
        return None
    from pulumi_infercrane.router.clients.trusted_proxies import read_trusted_proxies
    from pulumi_infercrane.router.errors import AddressRefused

    try:
        return read_trusted_proxies(text)
    except AddressRefused as refused:
        raise AddressRefused(f"--trusted-proxies: {refused}") from None


def _policy(path: Path | None) -> "RecordingPolicy | None":
    if path is None:
        return None
    from pulumi_infercrane.router.recording.policy import read_policy

    return read_policy(path)


@command.command("ready")
@click.option("--control", type=click.Path(path_type=Path), required=True, help="Control socket of the router.")
@click.option("--live", is_flag=True, help="Ask only whether the router answers.")
@router_errors
def ready(control: Path, live: bool) -> None:
    """Exit with 0 when every service has an active revision that takes connections, else say why not.

    \b
    Example:
      infercrane router ready --control /run/infercrane/router.sock
    """
    if reasons := asyncio.run(_why_not(control, live)):
        fail("; ".join(reasons))


async def _why_not(control: Path, live: bool) -> tuple[str, ...]:
    from pulumi_infercrane.router.control.client import ControlClient

    async with ControlClient(control) as client:
        if live:
            return () if await client.live() else ("the router is not live",)
        return await client.why_not_ready()


@command.command("table")
@click.argument("service", required=False)
@click.option("--control", type=click.Path(path_type=Path), required=True, help="Control socket of the router.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document on standard output.")
@router_errors
def table(service: str | None, control: Path, as_json: bool) -> None:
    """Print what a running router serves: revisions, the active one, requests in flight.

    \b
    Example:
      infercrane router table --control /run/infercrane/router.sock
    """
    found = asyncio.run(_tables(control, service))
    if as_json:
        document = {live.table["service"]: {"table": live.table, "inflight": live.inflight} for live in found}
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
        return
    for live in found:
        _print(live)
    if not found:
        click.echo("the router has no route table yet", err=True)


async def _tables(control: Path, service: str | None) -> "list[LiveService]":
    from pulumi_infercrane.router.control.client import ControlClient

    async with ControlClient(control) as client:
        names = [service] if service else await client.services()
        return [await client.get(name) for name in names]


def _print(live: "LiveService") -> None:
    from pulumi_infercrane.router.relay.probes import ANY_PATH, PATHS

    table = live.table
    click.echo(f"{table['service']}  generation {live.generation}  aliases {', '.join(table['aliases'])}")
    for digest, revision in table["revisions"].items():
        role = "active" if digest == live.active else revision["state"]
        urls = ", ".join(upstream["url"] for upstream in revision["upstreams"])
        share, busy = live.weights.get(digest, 0), live.inflight.get(digest, 0)
        click.echo(f"  {revision['label']:12} {role:9} {share:3} % {busy:5} in flight  {digest[:19]}  {urls}")
        if (dialect := revision["dialect"]) not in PATHS:
            told = f"note: {revision['label']}: no special dialect {dialect}; probes ask for {ANY_PATH.decode()}"
            click.echo(f"{told}, as of any server; there is: {', '.join(PATHS)}", err=True)
