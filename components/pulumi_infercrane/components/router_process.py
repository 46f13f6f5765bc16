"""The router process of a service: what it is started with. Another command line is another process."""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, ip_address
from pathlib import Path

from pulumi_infercrane.components.errors import ComponentError
from pulumi_infercrane.components.place import Place
from pulumi_infercrane.router.addresses import ListenAddress, Listening, read_listen_address
from pulumi_infercrane.router.clients.trusted_proxies import read_trusted_proxies
from pulumi_infercrane.router.errors import AddressRefused

MAX_WORKERS = 256
_ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - where a client on this machine finds them


class InvalidRouter(ComponentError):
    """The router cannot be started so: `problem` of `argument`."""

    code = "invalid_router"

    def __init__(self, argument: str, problem: str) -> None:
        super().__init__(f"router.{argument}: {problem}")
        self.argument = argument
        self.problem = problem


@dataclass(frozen=True)
class TlsFiles:
    """PEM files, which the router reads again when they change."""

    cert: str
    """The certificate with its chain."""
    key: str
    """Its key, without a password."""


@dataclass(frozen=True)
class RouterArgs:
    """The router of a service. Each argument but `drain_s` is of its command line: a change restarts it.

    Paths are meant from the folder of the program.
    """

    listen: str = "127.0.0.1:8000"
    """Address of the stable endpoint, `host:port`. Loopback only, unless keys are required."""
    drain_s: float = 60.0
    """How long a revision that leaves may finish its open streams."""
    require_keys: bool = False
    """Refuse requests without a client key also before the first one is made. Keys are no part of a program."""
    tls: TlsFiles | None = None
    """Serve clients by TLS."""
    workers: int = 0
    """Processes that serve; 0 is just one."""
    max_connections: int | None = None
    """Of clients, at a time."""
    trusted_proxies: Sequence[str] = ()
    """Addresses and networks whose word for who the client is, and how it came, is believed."""
    idle_s: float | None = None
    """How long a client may keep its connection open between two requests."""
    max_body: int | None = None
    """Bytes that a request may have."""
    status: str = ""
    """Address where `/livez`, `/readyz` and `/metrics` answer, besides the control socket."""
    access_log: str = ""
    """File for a JSON line about every request; `-` is the log of the process."""
    record: str = ""
    """File with a recording policy; without one nothing is kept of requests."""


def refuse_unusable(args: RouterArgs) -> None:
    """Before anything is declared.

    Raises:
        InvalidRouter: naming the argument that is wrong.
    """
    router_address(args)
    _options(args)


def router_address(args: RouterArgs) -> ListenAddress:
    """Where clients reach it.

    Raises:
        InvalidRouter: naming the argument that is wrong.
    """
    address = read_address("listen", args.listen, keyed=args.require_keys)
    if not isinstance(address, ListenAddress):
        raise InvalidRouter("listen", f"{args.listen} is no host:port, for example 127.0.0.1:8000")
    return address


def read_address(argument: str, text: str, *, keyed: bool) -> Listening:
    """An address the router may listen on; other machines' way in only when `keyed`.

    Raises:
        InvalidRouter: naming `argument`.
    """
    try:
        return read_listen_address(text, keyed=keyed)
    except AddressRefused as refused:
        raise InvalidRouter(argument, str(refused)) from None


def read_proxies(argument: str, networks: Sequence[str]) -> str:
    """The addresses and networks of proxies as the router's command line takes them.

    Raises:
        InvalidRouter: naming `argument`.
    """
    text = ",".join(networks)
    try:
        read_trusted_proxies(text)
    except AddressRefused as refused:
        raise InvalidRouter(argument, str(refused)) from None
    return text


def router_url(args: RouterArgs) -> str:
    """Base URL for clients on this machine, without `/v1`."""
    address = router_address(args)
    near = ListenAddress(_ANYWHERE.get(address.host, address.host), address.port)
    return f"{'https' if args.tls else 'http'}://{near}"


def probed_host(address: ListenAddress) -> str:
    """The loopback address whose port has to be free."""
    ip = ip_address(address.host)
    return address.host if isinstance(ip, IPv4Address) and ip.is_loopback else "127.0.0.1"


def router_command(args: RouterArgs, place: Place) -> list[str]:
    """The command line; `{port}` in it stands for the port. What is not asked for is not in it.

    Raises:
        InvalidRouter: naming the argument that is wrong.
    """
    host, _, _ = str(router_address(args)).rpartition(":")
    serve = ["-m", "pulumi_infercrane", "router", "serve", "--listen", f"{host}:{{port}}"]
    return [sys.executable, *serve, "--control", str(place.control), "--state", str(place.router), *_options(args)]


def _options(args: RouterArgs) -> list[str]:
    options = ["--require-keys"] if args.require_keys else []
    if args.tls is not None:
        options += ["--tls-cert", _file("tls.cert", args.tls.cert), "--tls-key", _file("tls.key", args.tls.key)]
    if args.workers:
        options += ["--workers", str(_whole("workers", args.workers, 0, MAX_WORKERS))]
    if args.max_connections is not None:
        options += ["--max-connections", str(_whole("max_connections", args.max_connections, 1))]
    if args.trusted_proxies:
        options += ["--trusted-proxies", read_proxies("trusted_proxies", args.trusted_proxies)]
    if args.idle_s is not None:
        options += ["--idle", str(_seconds("idle_s", args.idle_s))]
    if args.max_body is not None:
        options += ["--max-body", str(_whole("max_body", args.max_body, 1))]
    if args.status:
        options += ["--status", str(read_address("status", args.status, keyed=True))]
    if args.access_log:
        options += [
            "--access-log",
            args.access_log if args.access_log == "-" else str(Path(args.access_log).absolute()),
        ]
    return options + (["--record", _file("record", args.record)] if args.record else [])


def _file(argument: str, path: str) -> str:
    """Absolute: the process runs in a folder of its own."""
    found = Path(path).absolute()
    if not found.is_file():
        raise InvalidRouter(argument, f"{found} is no file")
    return str(found)


def _whole(argument: str, value: int, least: int, most: int | None = None) -> int:
    if type(value) is not int or value < least or (most is not None and value > most):
        allowed = f"from {least}" + (f" to {most}" if most is not None else "")
        raise InvalidRouter(argument, f"{value!r} is not a whole number {allowed}")
    return value


def _seconds(argument: str, value: float) -> float:
    if type(value) not in (int, float) or not 0 < value < math.inf:
        raise InvalidRouter(argument, f"{value!r} is no number of seconds above 0")
    return value
