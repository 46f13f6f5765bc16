"""Listening sockets: made here, or handed over by systemd (sd_listen_fds(3))."""

import os
import socket
import stat
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from pulumi_infercrane.router.addresses import ListenAddress, Listening, UnixAddress, refuse_open
from pulumi_infercrane.router.errors import AddressRefused, AddressTaken

MAX_SOCKET_PATH = 107
BACKLOG = 4096
DATA = "data"
CONTROL = "control"
STATUS = "status"

_FIRST_HANDED_OVER = 3
_OWNER, _OWNER_AND_GROUP = 0o600, 0o660


@dataclass(frozen=True)
class Sockets:
    """All of them are listening. `paths` were made for them.

    `data` are several of one address where several processes take clients: the kernel divides new connections.
    """

    data: tuple[socket.socket, ...]
    control: socket.socket
    status: socket.socket | None = None
    paths: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Wanted:
    """Which sockets a router needs."""

    data: Listening
    control: Path
    status: Listening | None = None
    open_to_others: bool = False
    """Whether other machines may connect to `data`."""
    processes: int = 1
    """That take clients."""


@contextmanager
def opened(wanted: Wanted, environment: Mapping[str, str]) -> Iterator[Sockets]:
    """The sockets that systemd handed over, and new ones for those it did not.

    Sockets made here are closed at the end and their paths removed; others stay as they are.

    Raises:
        AddressRefused, AddressTaken: one of them cannot be used.
    """
    with ExitStack() as closing:
        given = handed_over(environment, os.getpid())
        for one in given.values():
            closing.enter_context(one)
        if DATA in given and not wanted.open_to_others:
            _refuse_open(given[DATA])
        data = (given[DATA],) if DATA in given else closing.enter_context(_tcp_or_unix(wanted.data, wanted.processes))
        control = given.get(CONTROL) or closing.enter_context(_unix(wanted.control, _OWNER, "--control"))
        status = given.get(STATUS)
        if status is None and wanted.status is not None:
            (status,) = closing.enter_context(_tcp_or_unix(wanted.status, 1, "--status"))
        yield Sockets(data, control, status, _made(wanted, given))


def handed_over(environment: Mapping[str, str], pid: int) -> dict[str, socket.socket]:
    """Sockets by name: `data`, `control`, `status`; a single one without a name is `data`.

    Raises:
        AddressRefused: what was handed over is something else.
    """
    if environment.get("LISTEN_PID") != str(pid):
        return {}
    count = int(environment.get("LISTEN_FDS", "0"))
    names = environment.get("LISTEN_FDNAMES", "").split(":")
    if count == 1 and names[0] not in (DATA, CONTROL, STATUS):
        names = [DATA]
    if not {DATA, CONTROL, STATUS}.issuperset(names) or not count == len(names) == len(set(names)):
        raise AddressRefused(
            f"systemd handed over {count} sockets named {names}: "
            f"give each unit one socket and FileDescriptorName={DATA}, {CONTROL} or {STATUS}"
        )
    return {name: _listener(_FIRST_HANDED_OVER + index, name) for index, name in enumerate(names)}


def _listener(descriptor: int, name: str) -> socket.socket:
    os.set_inheritable(descriptor, False)
    listener = socket.socket(fileno=descriptor)
    if listener.type != socket.SOCK_STREAM or not listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        raise AddressRefused(f"the socket {name} that systemd handed over does not listen: use ListenStream=")
    if name == CONTROL and listener.family != socket.AF_UNIX:
        raise AddressRefused("the control protocol is spoken on a unix socket only: ListenStream=/run/…")
    return listener


def address_of(listener: socket.socket) -> Listening:
    """Where clients reach it."""
    name = listener.getsockname()
    if listener.family == socket.AF_UNIX:
        return UnixAddress(Path(name))
    return ListenAddress(*name[:2])


def _refuse_open(listener: socket.socket) -> None:
    address = address_of(listener)
    if isinstance(address, ListenAddress):
        refuse_open(str(address), address.host)


def _made(wanted: Wanted, given: Mapping[str, socket.socket]) -> tuple[Path, ...]:
    """Paths of the socket files that were not handed over."""
    places = {DATA: wanted.data, CONTROL: UnixAddress(wanted.control), STATUS: wanted.status}
    made = (place for name, place in places.items() if name not in given)
    return tuple(place.path.absolute() for place in made if isinstance(place, UnixAddress))


@contextmanager
def _tcp_or_unix(address: Listening, processes: int, option: str = "--listen") -> Iterator[tuple[socket.socket, ...]]:
    if isinstance(address, UnixAddress):
        with _unix(address.path, _OWNER_AND_GROUP, option) as listener:
            yield (listener,)
        return
    with ExitStack() as closing:
        first = closing.enter_context(_bound(address, option))
        others = []
        if processes > 1:
            # Only now: a router that is started twice by mistake must not get a share of the connections.
            first.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            same = ListenAddress(*first.getsockname()[:2])
            others = [closing.enter_context(_bound(same, option, shared=True)) for _ in range(processes - 1)]
        for listener in (first, *others):
            listener.listen(BACKLOG)
        yield (first, *others)


def _bound(address: ListenAddress, option: str, *, shared: bool = False) -> socket.socket:
    family, kind, _, _, name = socket.getaddrinfo(
        address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
    )[0]
    listener = socket.socket(family, kind)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shared:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    if family == socket.AF_INET6:
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)  # [::] takes IPv4 too, on every system
    try:
        listener.bind(name)
    except OSError as error:
        listener.close()
        raise AddressTaken(f"cannot listen on {address}: {error.strerror}; choose another {option}") from error
    return listener


@contextmanager
def _unix(path: Path, mode: int, option: str) -> Iterator[socket.socket]:
    """A unix socket that only those of `mode` may connect to, removed at the end."""
    if len(os.fsencode(path)) > MAX_SOCKET_PATH:
        raise AddressRefused(f"{option} {path}: a socket path may have {MAX_SOCKET_PATH} bytes; choose a shorter one")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        _remove_stale(path, option)
        mask = os.umask(0o777 & ~mode)
        try:
            listener.bind(os.fspath(path))
        except OSError as error:
            raise AddressTaken(f"cannot create the socket {option} {path}: {error.strerror}") from error
        finally:
            os.umask(mask)
        listener.listen(BACKLOG)
        try:
            yield listener
        finally:
            path.unlink(missing_ok=True)


def _remove_stale(path: Path, option: str) -> None:
    """A router that was killed leaves its socket; one that answers is somebody's."""
    try:
        if not stat.S_ISSOCK(path.stat().st_mode):
            raise AddressTaken(f"{option} {path} exists and is not a socket")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(os.fspath(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return
        except OSError as error:
            raise AddressTaken(f"{option} {path}: {error.strerror}; remove it, or choose another") from error
    raise AddressTaken(f"another router answers on {option} {path}: stop it, or choose another")
