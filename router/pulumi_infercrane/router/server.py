"""The router process: data listener, control listener, signals, an orderly end."""

import asyncio
import logging
import os
import signal
import socket
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

import uvloop

from pulumi_infercrane.router.addresses import ListenAddress
from pulumi_infercrane.router.admin import Api, ControlConnection
from pulumi_infercrane.router.errors import AddressRefused, AddressTaken
from pulumi_infercrane.router.key_store import KeyStore
from pulumi_infercrane.router.live import LiveRoutes
from pulumi_infercrane.router.live_keys import LiveKeys
from pulumi_infercrane.router.protocol.request import Limits
from pulumi_infercrane.router.relay.relay import ConnectionTimers, Relay
from pulumi_infercrane.router.routes import Compiler
from pulumi_infercrane.router.store import TableStore, locked
from pulumi_infercrane.router.traffic import TrafficBook

if TYPE_CHECKING:
    from pulumi_infercrane.router.recording.policy import RecordingPolicy
    from pulumi_infercrane.router.telemetry.telemetry import Telemetry

MAX_SOCKET_PATH = 107
BACKLOG = 4096
_POLL_S = 0.05

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Settings:
    """`drain_s` bounds how long open streams may take to finish after SIGTERM."""

    listen: ListenAddress
    control: Path
    state: Path
    drain_s: float = 600
    limits: Limits = field(default_factory=Limits)
    timers: ConnectionTimers = field(default_factory=ConnectionTimers)
    require_keys: bool = False
    """Refuse requests without a key even while no key was ever made."""
    record: "RecordingPolicy | None" = None
    """What may be kept of requests; without it the recorder is not even loaded."""
    access_log: str = ""
    """A file, or `-` for standard output."""
    trace_sample: float | None = None
    """Share of the traces beginning here that are kept; None exports no spans."""


def serve(settings: Settings, environment: Mapping[str, str], on_ready: Callable[[ListenAddress], None]) -> None:
    """Serve until SIGTERM or SIGINT, then let open streams finish; a second signal ends at once.

    Raises:
        RouterError: the state directory, the address or the control socket cannot be used.
    """
    with locked(settings.state), _listening(settings.listen) as data, _control_socket(settings.control) as control:
        uvloop.run(_serve(settings, data, control, environment, on_ready))


@dataclass(frozen=True)
class Router:
    """The parts of a router: data plane, tables, client keys, control protocol."""

    relay: Relay
    live: LiveRoutes
    keys: LiveKeys
    api: Api


def build(settings: Settings, environment: Mapping[str, str], address: ListenAddress) -> Router:
    """A router that serves the persisted tables; `address` is where clients will reach it.

    Raises:
        RouterError: the tables, the folder of the recording, or the access log cannot be used.
    """

    def key(reference: str) -> str | None:
        return environment.get(reference.removeprefix("env:")) or None

    traffic = TrafficBook(monotonic)
    compiler = Compiler(key, traffic, settings.timers.pool_idle_s)
    relay = Relay(compiler, traffic, settings.limits, settings.timers)
    if settings.record is not None:
        from pulumi_infercrane.router.recording.recorder import Recorder

        relay.recorder = Recorder(settings.record, traffic.recorded)
        relay.recorder.start()
    relay.telemetry = _telemetry(settings, traffic)
    store = TableStore(settings.state)
    live = LiveRoutes(relay, store, address)
    live.serve(store.load())
    keys = LiveKeys(relay, KeyStore(settings.state), required=settings.require_keys)
    return Router(relay, live, keys, Api(live, keys, traffic))


def _telemetry(settings: Settings, traffic: TrafficBook) -> "Telemetry | None":
    if not settings.access_log and settings.trace_sample is None:
        return None
    from pulumi_infercrane.router.telemetry.telemetry import Telemetry, listeners

    wanted = listeners(settings.access_log, traces=settings.trace_sample is not None)
    return Telemetry(wanted, traffic.told, traffic.clock, settings.trace_sample)


async def _serve(
    settings: Settings,
    data: socket.socket,
    control: socket.socket,
    environment: Mapping[str, str],
    on_ready: Callable[[ListenAddress], None],
) -> None:
    loop = asyncio.get_running_loop()
    signals = _Signals(loop)
    address = ListenAddress(*data.getsockname()[:2])
    router = build(settings, environment, address)
    listener = await loop.create_server(router.relay.connection, sock=data, backlog=BACKLOG)
    admin = await loop.create_unix_server(lambda: ControlConnection(router.api), sock=control)
    sweeping = loop.create_task(router.relay.sweep_forever())
    on_ready(address)
    await signals.first.wait()
    listener.close()
    await _finish(router.relay, settings.drain_s, signals.second)
    admin.close()
    sweeping.cancel()
    if router.relay.recorder is not None:
        router.relay.recorder.close()
    if router.relay.telemetry is not None:
        router.relay.telemetry.close()


async def _finish(relay: Relay, drain_s: float, now: asyncio.Event) -> None:
    """Wait for the last stream and its last byte, for the deadline, or for `now`."""
    relay.finish_up()
    _log.info("stopping: %d connections finish, at most %g s", len(relay.clients), drain_s)
    deadline = relay.clock() + drain_s
    while relay.clients and relay.clock() < deadline and not now.is_set():
        with suppress(TimeoutError):
            await asyncio.wait_for(now.wait(), _POLL_S)
    if relay.clients:
        _log.warning("cutting %d connections", len(relay.clients))
        relay.cut()
        await asyncio.sleep(0)


class _Signals:
    """`first` asks for an orderly end, `second` for an immediate one."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.first = asyncio.Event()
        self.second = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._received)

    def _received(self) -> None:
        (self.second if self.first.is_set() else self.first).set()


@contextmanager
def _listening(address: ListenAddress) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((address.host, address.port))
            listener.listen(BACKLOG)
        except OSError as error:
            raise AddressTaken(f"cannot listen on {address}: {error.strerror}; choose another --listen") from error
        yield listener


@contextmanager
def _control_socket(path: Path) -> Iterator[socket.socket]:
    """A unix socket that only its owner may connect to, removed at the end."""
    if len(os.fsencode(path)) > MAX_SOCKET_PATH:
        raise AddressRefused(f"--control {path}: a socket path may have {MAX_SOCKET_PATH} bytes; choose a shorter one")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        _remove_stale(path)
        mask = os.umask(0o177)
        try:
            listener.bind(os.fspath(path))
        except OSError as error:
            raise AddressTaken(f"cannot create the control socket {path}: {error.strerror}") from error
        finally:
            os.umask(mask)
        listener.listen(BACKLOG)
        try:
            yield listener
        finally:
            path.unlink(missing_ok=True)


def _remove_stale(path: Path) -> None:
    """A router that was killed leaves its socket; one that answers is somebody's."""
    try:
        if not stat.S_ISSOCK(path.stat().st_mode):
            raise AddressTaken(f"--control {path} exists and is not a socket")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(os.fspath(path))
        except OSError:
            path.unlink(missing_ok=True)
            return
    raise AddressTaken(f"another router answers on the control socket {path}: stop it, or choose another --control")
