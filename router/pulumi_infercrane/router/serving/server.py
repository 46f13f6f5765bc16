"""The router process: data listener, control listener, signals, an orderly end."""

import asyncio
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

import uvloop

from pulumi_infercrane.router.addresses import Listening
from pulumi_infercrane.router.clients.key_store import KeyStore
from pulumi_infercrane.router.control.connections import Connections
from pulumi_infercrane.router.control.live import LiveRoutes
from pulumi_infercrane.router.control.live_keys import LiveKeys
from pulumi_infercrane.router.control.server import Api, Status
from pulumi_infercrane.router.counting.live_windows import LiveWindows
from pulumi_infercrane.router.counting.traffic import TrafficBook
from pulumi_infercrane.router.counting.windows import Windows
from pulumi_infercrane.router.protocol.request import Limits
from pulumi_infercrane.router.relay.relay import ConnectionTimers, Relay
from pulumi_infercrane.router.routing.routes import Compiler
from pulumi_infercrane.router.routing.upstream_keys import UpstreamKeys
from pulumi_infercrane.router.serving import sockets
from pulumi_infercrane.router.serving.collector import spare_what_stays
from pulumi_infercrane.router.serving.front import Signals, most_connections, open_admin, open_front
from pulumi_infercrane.router.serving.notify import notify
from pulumi_infercrane.router.serving.sockets import Sockets, Wanted
from pulumi_infercrane.router.tables.store import TableStore, locked

if TYPE_CHECKING:
    from pulumi_infercrane.router.clients.trusted_proxies import TrustedProxies
    from pulumi_infercrane.router.recording.policy import RecordingPolicy
    from pulumi_infercrane.router.serving.tls import Certificate
    from pulumi_infercrane.router.serving.workers.crew import Crew
    from pulumi_infercrane.router.telemetry.telemetry import Telemetry


@dataclass(frozen=True)
class Settings:
    """`drain_s` bounds how long open streams may take to finish after SIGTERM."""

    listen: Listening
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
    tls: tuple[Path, Path] | None = None
    """PEM files of the certificate chain and its key; None is clear text."""
    max_connections: int | None = None
    """Of clients; None takes `front.MOST_CONNECTIONS`, or what the open files allow."""
    trusted_proxies: "TrustedProxies | None" = None
    """Whose X-Forwarded-For is believed; None takes every client for what its connection says."""
    workers: int = 0
    """Processes that serve clients, kept by this one; 0 serves them here."""
    command: tuple[str, ...] = ()
    """What starts this very router again; needed for workers."""
    status: Listening | None = None
    """Where probes and Prometheus may ask; None is the control socket only."""

    @property
    def wanted(self) -> Wanted:
        """The sockets it takes."""
        return Wanted(self.listen, self.control, self.status, self.require_keys, max(1, self.workers))


OnReady = Callable[[Listening], None]
"""Told where clients reach the router, once they do."""


def serve(settings: Settings, environment: Mapping[str, str], on_ready: OnReady) -> None:
    """Serve until SIGTERM or SIGINT, then let open streams finish; a second signal ends at once.

    SIGHUP reads the certificate again; with workers it starts the whole router anew, and loses nobody.

    Raises:
        RouterError: the state directory, the address or the control socket cannot be used.
    """
    if settings.workers:
        from pulumi_infercrane.router.serving.workers import run

        run(settings, environment, on_ready)
        return
    with locked(settings.state), sockets.opened(settings.wanted, environment) as found:
        uvloop.run(_serve(settings, found, environment, on_ready))


@dataclass(frozen=True)
class Router:
    """The parts of a router: data plane, tables, client keys, control protocol."""

    relay: Relay
    live: LiveRoutes
    keys: LiveKeys
    api: Api


def build_relay(settings: Settings, environment: Mapping[str, str]) -> Relay:
    """A data plane that serves nothing yet."""
    traffic = TrafficBook(monotonic)
    compiler = Compiler(UpstreamKeys(environment), traffic, settings.timers.pool_idle_s)
    relay = Relay(compiler, traffic, settings.limits, settings.timers)
    relay.proxies = settings.trusted_proxies
    return relay


def build(
    settings: Settings,
    environment: Mapping[str, str],
    address: Listening,
    crew: "Crew | None" = None,
    *,
    handed_over: bool = False,
) -> Router:
    """A router that serves the persisted tables; `address` is where clients will reach it.

    With a crew it takes no client itself: it decides what the workers serve. `handed_over`: the workers of the program
    before go on.

    Raises:
        RouterError: the tables, the folder of the recording, or the access log cannot be used.
    """
    relay = build_relay(settings, environment)
    if crew is None:
        tell(relay, settings)
    store = TableStore(settings.state)
    windows = LiveWindows(Windows(settings.state / "windows"), relay.counters, crew)
    windows.kept.resume(handed_over=handed_over)
    live = LiveRoutes(relay, store, address, windows, crew=crew)
    live.serve(store.load())
    keys = LiveKeys(relay, KeyStore(settings.state), required=settings.require_keys, crew=crew)
    return Router(relay, live, keys, Api(live, keys, relay.traffic, crew))


def tell(relay: Relay, settings: Settings) -> None:
    """Begin to record requests and to tell of them, as far as that was asked for.

    Raises:
        RecordingRefused, AccessLogRefused: the folder or the file cannot be used.
    """
    if settings.record is not None:
        from pulumi_infercrane.router.recording.recorder import Recorder

        relay.recorder = Recorder(settings.record, relay.traffic.recorded)
        relay.recorder.start()
    relay.telemetry = _telemetry(settings, relay.traffic)


def _telemetry(settings: Settings, traffic: TrafficBook) -> "Telemetry | None":
    if not settings.access_log and settings.trace_sample is None:
        return None
    from pulumi_infercrane.router.telemetry.telemetry import Telemetry, listeners

    wanted = listeners(settings.access_log, traces=settings.trace_sample is not None)
    return Telemetry(wanted, traffic.told, traffic.clock, settings.trace_sample)


async def _serve(settings: Settings, found: Sockets, environment: Mapping[str, str], on_ready: OnReady) -> None:
    loop = asyncio.get_running_loop()
    signals = Signals(loop)
    address = sockets.address_of(found.data[0])
    router = build(settings, environment, address)
    router.relay.max_connections = most_connections(settings.max_connections)
    certificate = certificate_of(settings)
    if certificate is not None:
        loop.add_signal_handler(signal.SIGHUP, certificate.reload)
    front = await open_front(router.relay, found.data[0], certificate)
    admin = [await open_admin(found.control, Connections(router.api).new)]
    if found.status is not None:
        admin.append(await open_admin(found.status, Connections(Status(router.api)).new))
    spare_what_stays()
    on_ready(address)
    notify(environment, "READY=1")
    keeping = loop.create_task(router.live.windows.keep())
    await signals.first.wait()
    notify(environment, "STOPPING=1")
    front.stop_accepting()
    router.relay.finish_up()
    await front.finish(settings.drain_s, signals.second)
    keeping.cancel()
    router.live.windows.end()
    for server in admin:
        server.close()
    front.close()


def check(settings: Settings) -> None:
    """Whether a router could be started so, as far as that can be told without disturbing one that runs.

    Raises:
        RouterError: it could not.
    """
    if settings.workers:
        from pulumi_infercrane.router.serving.workers import supervisor  # noqa: F401 - that it can be imported
    certificate_of(settings)


def certificate_of(settings: Settings) -> "Certificate | None":
    """What the data listener shows; None for clear text.

    Raises:
        CertificateRefused: the files cannot be used.
    """
    if settings.tls is None:
        return None
    from pulumi_infercrane.router.serving.tls import Certificate

    return Certificate(*settings.tls)
