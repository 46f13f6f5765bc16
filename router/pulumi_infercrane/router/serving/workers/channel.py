"""Messages between the supervisor and one worker: JSON lines on a socket pair.

The supervisor asks, the worker answers in order, except that its metrics may take a while; its first line is a
greeting, its last one a report nobody asked for.
"""

import asyncio
import socket
from collections.abc import Callable
from typing import Any, cast

import orjson

WORKER = "INFERCRANE_ROUTER_WORKER"
"""Environment variable of a worker: its file descriptors, see `worker.Descriptors`."""
PROTOCOL = 1

Message = dict[str, Any]


class Channel(asyncio.Protocol):
    """One end. `on_lost` is called once, when the other process is gone or has closed its end."""

    transport: asyncio.Transport

    def __init__(self, on_message: Callable[[Message], None], on_lost: Callable[[], None]) -> None:
        self._on_message = on_message
        self._on_lost = on_lost
        self._unfinished = bytearray()

    def send(self, message: Message) -> None:
        """Lost without a word when the other end is."""
        if not self.transport.is_closing():
            self.transport.write(orjson.dumps(message) + b"\n")

    def close(self) -> None:
        """After everything that was sent."""
        self.transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        *lines, rest = data.split(b"\n")
        if not lines:
            self._unfinished += rest
            return
        lines[0] = bytes(self._unfinished) + lines[0]
        self._unfinished = bytearray(rest)
        for line in lines:
            self._on_message(orjson.loads(line))

    def connection_lost(self, exc: Exception | None) -> None:
        self._on_lost()


async def connected(end: socket.socket, channel: Channel) -> Channel:
    """The channel, on its end of the socket pair."""
    end.setblocking(False)
    await asyncio.get_running_loop().create_unix_connection(lambda: channel, sock=end)
    return channel
