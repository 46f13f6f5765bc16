"""Where clients come in: the data listener of one process, its timers, its end."""

import asyncio
import logging
import resource
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pulumi_infercrane.router.relay.relay import Relay
from pulumi_infercrane.router.serving.collector import watch_collector
from pulumi_infercrane.router.serving.handshakes import Handshakes
from pulumi_infercrane.router.serving.loop_watch import watch_loop
from pulumi_infercrane.router.serving.sockets import BACKLOG

if TYPE_CHECKING:
    from pulumi_infercrane.router.serving.tls import Certificate

MOST_CONNECTIONS = 16_384
"""Of clients, unless somebody says so or fewer files may be open."""
_MOST_FILES = 1_048_576
_FILES_PER_CONNECTION = 2
_OTHER_FILES = 256
_POLL_S = 0.05
_ARRIVING_S = 1.0
_LAST_REQUEST_S = 5.0
"""A connection that is to end, but is open for another request, closes when none has come for so long."""

_log = logging.getLogger(__name__)


class Front:
    """Takes connections from one listening socket. Its timers, and what watches the process, run until `close`."""

    def __init__(self, relay: Relay, server: "asyncio.Server | Handshakes", tasks: list[asyncio.Task[None]]) -> None:
        self._relay = relay
        self._server = server
        self._tasks = tasks
        self._end_watch = watch_collector(relay.traffic.gc_pause)

    def stop_accepting(self) -> None:
        """Connections that are not taken yet stay with the socket, and whoever else has it."""
        self._server.close()

    async def finish(self, drain_s: float, now: asyncio.Event) -> None:
        """Wait for the last stream and its last byte, for the deadline, or for `now`; then cut."""
        relay = self._relay
        _log.info("stopping: %d connections finish, at most %g s", len(relay.clients), drain_s)
        deadline = relay.clock() + drain_s
        look_at = relay.clock() + _LAST_REQUEST_S
        arrived_at = relay.clock() + (relay.timers.head_s if relay.scheme == b"https" else _ARRIVING_S)
        while (relay.clients or self._may_arrive(arrived_at)) and relay.clock() < deadline and not now.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(now.wait(), _POLL_S)
            if relay.clock() >= look_at:
                look_at = relay.clock() + 1
                self._close_idle()
        if relay.clients:
            _log.warning("cutting %d connections", len(relay.clients))
            relay.cut()
            await asyncio.sleep(0)

    def _may_arrive(self, arrived_at: float) -> bool:
        """Whether a connection may be on its way from the socket to us, in a handshake for example."""
        return not self._relay.stopping and self._relay.clock() < arrived_at

    def _close_idle(self) -> None:
        since = self._relay.clock() - _LAST_REQUEST_S
        for client in tuple(self._relay.clients):
            client.leave_if_idle(since)

    def close(self) -> None:
        """End the timers; write down what is not written yet."""
        for task in self._tasks:
            task.cancel()
        self._end_watch()
        if self._relay.recorder is not None:
            self._relay.recorder.close()
        if self._relay.telemetry is not None:
            self._relay.telemetry.close()


async def open_front(relay: Relay, data: socket.socket, certificate: "Certificate | None") -> Front:
    """Begin to take connections."""
    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(relay.sweep_forever()), loop.create_task(watch_loop(relay.traffic.loop_stall))]
    if certificate is not None:
        tasks.append(loop.create_task(certificate.follow()))
        relay.scheme = b"https"
        return Front(relay, Handshakes(relay, data, certificate.context), tasks)
    create: Any = loop.create_unix_server if data.family == socket.AF_UNIX else loop.create_server
    return Front(relay, await create(relay.connection, sock=data, backlog=BACKLOG), tasks)


async def open_admin(listener: socket.socket, connection: Callable[[], asyncio.Protocol]) -> asyncio.Server:
    """Take connections of the control protocol; of a copy of the socket, so that closing it takes it from nobody."""
    loop = asyncio.get_running_loop()
    create: Any = loop.create_unix_server if listener.family == socket.AF_UNIX else loop.create_server
    server: asyncio.Server = await create(connection, sock=listener.dup(), backlog=BACKLOG)
    return server


def most_connections(chosen: int | None) -> int:
    """How many clients one process takes: what was chosen, as far as the files it may open allow."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft = max(soft, min(hard, _MOST_FILES))
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    possible = max(1, (soft - _OTHER_FILES) // _FILES_PER_CONNECTION)
    if chosen is not None and chosen > possible:
        _log.warning("%d connections need more open files than %d: at most %d are taken", chosen, soft, possible)
    return min(chosen or MOST_CONNECTIONS, possible)


class Signals:
    """`first` asks for an orderly end, `second` for an immediate one."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.first = asyncio.Event()
        self.second = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._received)

    def _received(self) -> None:
        (self.second if self.first.is_set() else self.first).set()
