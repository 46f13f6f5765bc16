"""The process that was started: it holds the sockets and the lock, and is the only one that changes anything.

SIGHUP replaces its program by the one that is installed now, under the same process id: workers of the new program take
the new connections, those of the old one answer what is open. Nothing is replaced unless the new program accepts its
command line.
"""

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvloop

from pulumi_infercrane.router.clients.key_documents import keys_document
from pulumi_infercrane.router.control.connections import Connections
from pulumi_infercrane.router.control.server import Status
from pulumi_infercrane.router.errors import WorkerFailed
from pulumi_infercrane.router.serving import sockets
from pulumi_infercrane.router.serving.front import Signals, open_admin
from pulumi_infercrane.router.serving.notify import notify
from pulumi_infercrane.router.serving.server import OnReady, Router, Settings, build, certificate_of
from pulumi_infercrane.router.serving.sockets import Sockets
from pulumi_infercrane.router.serving.workers.channel import Message
from pulumi_infercrane.router.serving.workers.crew import Crew, Member
from pulumi_infercrane.router.serving.workers.handover import HANDOVER, Handover, Left, leave, take
from pulumi_infercrane.router.tables.store import locked

CHECK_S = 30.0
CALLS_S = 5.0
"""For calls of the control protocol that run when the program is replaced."""
_REPLACING = {signal.SIGHUP, signal.SIGTERM, signal.SIGINT}
_NOT_FOR_WORKERS = frozenset({HANDOVER, "NOTIFY_SOCKET", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"})

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Held:
    """What one program after the other holds."""

    sockets: Sockets
    lock: int


def supervise(settings: Settings, environment: Mapping[str, str], on_ready: OnReady) -> None:
    """Serve with workers until SIGTERM or SIGINT.

    Raises:
        RouterError: as `serve`; or a worker does not start.
    """
    certificate_of(settings)  # one message here, instead of one from every worker
    before = take(environment)
    with _held(settings, environment, before) as held:
        environment = {name: value for name, value in environment.items() if name != HANDOVER}
        uvloop.run(_Supervisor(settings, environment, held, on_ready).run(before))


@contextmanager
def _held(settings: Settings, environment: Mapping[str, str], before: Handover | None) -> Iterator[_Held]:
    with ExitStack() as closing:
        if before is None:
            lock = closing.enter_context(locked(settings.state))
            yield _Held(closing.enter_context(sockets.opened(settings.wanted, environment)), lock)
            return
        data = tuple(closing.enter_context(socket.socket(fileno=descriptor)) for descriptor in before.data)
        control = closing.enter_context(socket.socket(fileno=before.control))
        status = None if before.status is None else closing.enter_context(socket.socket(fileno=before.status))
        paths = tuple(Path(path) for path in before.paths)
        for path in paths:
            closing.callback(path.unlink, missing_ok=True)
        yield _Held(Sockets(data, control, status, paths), before.lock)


class _Supervisor:
    def __init__(self, settings: Settings, environment: Mapping[str, str], held: _Held, on_ready: OnReady) -> None:
        self._settings = settings
        self._environment = environment
        self._held = held
        self._on_ready = on_ready
        own = {name: value for name, value in environment.items() if name not in _NOT_FOR_WORKERS}
        self._crew = Crew(settings.workers, settings.command, own)
        self._replace_now = asyncio.Event()
        self._admin: list[asyncio.Server] = []
        self._watching: list[asyncio.Task[None]] = []

    async def run(self, before: Handover | None) -> None:
        loop, crew, held = asyncio.get_running_loop(), self._crew, self._held
        signals = Signals(loop)
        loop.add_signal_handler(signal.SIGHUP, self._replace_now.set)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _REPLACING)
        address = sockets.address_of(held.sockets.data[0])
        self._router = router = build(self._settings, self._environment, address, crew, handed_over=before is not None)
        self._control, self._status = Connections(router.api), Connections(Status(router.api))
        try:
            await self._start(router, before)
            await self._open_control()
            self._on_ready(address)
            notify(self._environment, "READY=1")
            self._watch()
            replacing = loop.create_task(self._replace_when_asked())
            await signals.first.wait()
            replacing.cancel()
        finally:
            notify(self._environment, "STOPPING=1")
            self._unwatch()
            for listener in held.sockets.data:
                listener.close()  # nobody takes connections any more: who comes now is refused, and does not wait
            await crew.stop(self._settings.drain_s, signals.second)
            router.live.windows.end()
            self._close_control()

    def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        self._watching = [loop.create_task(self._crew.watch()), loop.create_task(self._router.live.windows.keep())]

    def _unwatch(self) -> None:
        for task in self._watching:
            task.cancel()
        self._watching = []

    async def _start(self, router: Router, before: Handover | None) -> None:
        """With the workers of the program before, if there are: they leave when the new ones serve."""
        crew, left = self._crew, []
        if before is not None:
            crew.ends.update(before.ends)
            crew.ended = dict(before.ended)
            left = [await self._adopted(one, before) for one in before.workers]
            router.live.windows.follow(router.live.tables)
        try:
            data = tuple(listener.fileno() for listener in self._held.sockets.data)
            await crew.start(data, self._held.lock, lambda: _state(router))
        except WorkerFailed as error:
            if not left:
                raise
            _log.error("%s; those of the program before serve on", error)
        else:
            crew.retire(left)

    async def _adopted(self, left: Left, before: Handover) -> Member:
        end = socket.socket(fileno=left.channel)
        return await self._crew.adopt(left.pid, end, counts=left.pid in before.counting)

    async def _open_control(self) -> None:
        held = self._held.sockets
        self._admin = [await open_admin(held.control, self._control.new)]
        if held.status is not None:
            self._admin.append(await open_admin(held.status, self._status.new))

    def _close_control(self) -> None:
        for server in self._admin:
            server.close()

    # the program is replaced

    async def _replace_when_asked(self) -> None:
        while True:
            await self._replace_now.wait()
            self._replace_now.clear()
            if await self._is_accepted():
                await self._replace()

    async def _replace(self) -> None:
        self._close_control()
        if await self._calls_ended():
            self._unwatch()
            await self._become_the_new_program()
            self._watch()
        else:
            _log.error("not replaced: a call of the control protocol has not ended in %g s", CALLS_S)
        await self._open_control()

    async def _become_the_new_program(self) -> None:
        """Returns only when that is not possible."""
        await self._router.live.windows.look()
        await self._crew.loads()  # after these answers no worker says anything that half a program would miss
        notify(self._environment, "RELOADING=1")
        _log.info("going on as the program that is installed now")
        signal.pthread_sigmask(signal.SIG_BLOCK, _REPLACING)  # until its handlers are there
        environment = {**self._environment, HANDOVER: leave(self._handover())}
        try:
            os.execve(self._settings.command[0], self._settings.command, environment)  # noqa: S606 - no shell wanted
        except OSError as error:
            _log.error("not replaced: %s: %s", self._settings.command[0], error.strerror)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _REPLACING)
            notify(self._environment, "READY=1")

    async def _is_accepted(self) -> bool:
        """Whether the new program can be imported and takes its command line."""
        asking = await asyncio.create_subprocess_exec(
            *self._settings.command,
            "--check",
            env=self._environment,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            _, errors = await asyncio.wait_for(asking.communicate(), CHECK_S)
        except TimeoutError:
            asking.kill()
            errors = b"no answer in time"
        if asking.returncode == 0:
            return True
        _log.error("not replaced, everything stays as it is: %s", errors.decode(errors="replace").strip()[-1000:])
        return False

    async def _calls_ended(self) -> bool:
        """Whether all connections of the control socket are closed, each after the call that runs."""
        for _ in range(int(CALLS_S / 0.01)):
            still_open = (*self._control.open, *self._status.open)
            for connection in still_open:
                connection.finish_up()
            if not still_open:
                return True
            await asyncio.sleep(0.01)
        return False

    def _handover(self) -> Handover:
        crew, held = self._crew, self._held
        workers = tuple(
            Left(member.pid, member.channel.transport.get_extra_info("socket").fileno())
            for member in crew.members
            if member.following
        )
        paths = tuple(str(path) for path in held.sockets.paths)
        data = tuple(listener.fileno() for listener in held.sockets.data)
        status = held.sockets.status.fileno() if held.sockets.status is not None else None
        counting = tuple(member.pid for member in crew.members if member.counts)
        control, ends = held.sockets.control.fileno(), dict(crew.ends)
        return Handover(data, control, status, held.lock, paths, workers, ends, crew.ended, counting)


def _state(router: Router) -> Message:
    """What a worker starts with."""
    tables = {name: table.document() for name, table in router.live.tables.items()}
    counting = [name for name, table in router.live.tables.items() if router.live.windows.kept.wants(table)]
    return {
        "tables": tables,
        "counting": counting,
        "keys": keys_document(router.keys.all()) if router.keys.required else None,
    }
