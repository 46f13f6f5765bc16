"""TLS connections from a listening socket, counted from the moment they are accepted.

A server of the event loop tells of a connection when its handshake is done. Until then it holds a file that nobody
counts, and whoever connects and says nothing takes all there are.
"""

import asyncio
import logging
import socket
import ssl
from contextlib import suppress

from pulumi_infercrane.router.relay.relay import Relay
from pulumi_infercrane.router.routing.dispatch import crowded

_AT_ONCE = 16
"""Connections accepted in one turn of the loop."""
_REST_S = 1.0
"""After the system would not let one be accepted."""
_LONGER_THAN_WE_WAIT_S = 86_400.0
"""For a client to take the last bytes: the sweep ends such connections, and sees whether they come forward."""

_log = logging.getLogger(__name__)


class Handshakes:
    """Accepts until `close`. Where there is no room, the handshake that has taken longest makes it."""

    def __init__(self, relay: Relay, listener: socket.socket, context: ssl.SSLContext) -> None:
        self._loop = asyncio.get_running_loop()
        self._relay = relay
        self._listener = listener
        self._context = context
        self._shaking: dict[asyncio.Task[None], None] = {}
        """The oldest is first."""
        listener.setblocking(False)
        self._loop.add_reader(listener, self._accept)

    def close(self) -> None:
        """Accept no more; handshakes that have begun go on."""
        self._loop.remove_reader(self._listener)
        self._listener.close()

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                accepted, _ = self._listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                self._rest(error)
                return
            self._begin(accepted)

    def _rest(self, error: OSError) -> None:
        _log.warning("no connection can be accepted for %g s: %s", _REST_S, error)
        self._loop.remove_reader(self._listener)
        self._loop.call_later(_REST_S, self._go_on)

    def _go_on(self) -> None:
        if self._listener.fileno() >= 0:
            self._loop.add_reader(self._listener, self._accept)

    def _begin(self, accepted: socket.socket) -> None:
        relay = self._relay
        if len(self._shaking) + len(relay.clients) >= relay.max_connections + relay.most_turned_away:
            relay.count_refused(crowded())
            if not self._shaking:
                accepted.close()
                return
            self._drop(next(iter(self._shaking)))
        task = self._loop.create_task(self._shake_hands(accepted))
        self._shaking[task] = None
        task.add_done_callback(lambda done: self._over(done, accepted))

    def _drop(self, task: asyncio.Task[None]) -> None:
        del self._shaking[task]
        task.cancel()

    def _over(self, task: asyncio.Task[None], accepted: socket.socket) -> None:
        self._shaking.pop(task, None)
        if task.cancelled():
            accepted.close()  # it may never have begun

    async def _shake_hands(self, accepted: socket.socket) -> None:
        with suppress(OSError):  # not TLS, too slow, or gone
            await self._loop.connect_accepted_socket(
                self._relay.connection,
                accepted,
                ssl=self._context,
                ssl_handshake_timeout=self._relay.timers.head_s,
                ssl_shutdown_timeout=_LONGER_THAN_WE_WAIT_S,
            )
