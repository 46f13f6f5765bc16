"""A model server that does as told: counts attempts, records bytes, sees who hangs up and when."""

import asyncio
import json
import socket
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

Script = Callable[["Call"], Awaitable[None]]

STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"
DONE = b"data: [DONE]\n\n"


def delta(text: str = "x", finish: str | None = None, **more: Any) -> bytes:
    """One chat event."""
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
    return event({"id": "c1", "choices": [choice], **more})


def event(document: Any) -> bytes:
    return b"data: " + json.dumps(document, ensure_ascii=False).encode() + b"\n\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def whole(document: Any, status: str = "200 OK", headers: bytes = b"") -> bytes:
    """A not streamed answer."""
    body = json.dumps(document).encode()
    head = b"HTTP/1.1 %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%b\r\n"
    return head % (status.encode(), len(body), headers) + body


ANSWER = {"choices": [{"index": 0, "message": {"content": "hello"}, "finish_reason": "stop"}]}


@dataclass
class Call:
    """One request and the connection it came on."""

    head: bytes
    body: bytes
    reader: asyncio.StreamReader = field(repr=False)
    writer: asyncio.StreamWriter = field(repr=False)
    told_at: float | None = None

    @property
    def document(self) -> Any:
        return json.loads(self.body)

    def header(self, name: str) -> str | None:
        for line in self.head.decode("latin-1").split("\r\n")[1:]:
            key, _, value = line.partition(":")
            if key.lower() == name.lower():
                return value.strip()
        return None

    async def send(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.writer.write(piece)
        await self.writer.drain()

    async def stream(self, *events: bytes) -> None:
        await self.send(STREAM_HEAD, *map(chunk, events))

    async def end_stream(self) -> None:
        await self.send(chunk(delta(finish="stop")), chunk(DONE), LAST_CHUNK)

    async def until_told(self) -> None:
        """Wait until the router ends the connection."""
        try:
            while await self.reader.read(65_536):
                pass
        except ConnectionError:
            pass
        self.told_at = monotonic()

    def reset(self) -> None:
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


async def answer(call: Call) -> None:
    """A complete answer, streamed if asked for."""
    if call.document.get("stream"):
        await call.stream(delta("a"), delta("b"))
        await call.end_stream()
    else:
        await call.send(whole(ANSWER))


class Upstream:
    """Listens on loopback; `script` answers every request."""

    def __init__(self) -> None:
        self.script: Script = answer
        self.reads_body = True
        """Whether a script begins behind the body of a request, or already behind its head."""
        self.calls: list[Call] = []
        self.connections = 0
        """Ever made."""
        self.open = 0
        self.port = 0
        self.arrived = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def attempts(self) -> int:
        return len(self.calls)

    async def call(self, number: int = 0) -> Call:
        """The request of this number, once it has arrived."""
        async with asyncio.timeout(5):
            while len(self.calls) <= number:
                self.arrived.clear()
                await self.arrived.wait()
        return self.calls[number]

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, backlog=4096)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        self.open += 1
        try:
            await self._answer_all(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            self.open -= 1
            writer.close()

    async def _answer_all(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while not writer.is_closing():
            head = await reader.readuntil(b"\r\n\r\n")
            call = Call(head, b"", reader, writer)
            if self.reads_body:
                call.body = await _body(call)
            self.calls.append(call)
            self.arrived.set()
            await self.script(call)


async def _body(call: Call) -> bytes:
    """By its length or its chunks; trailers end with the empty line."""
    if call.header("expect") is not None:
        await call.send(b"HTTP/1.1 100 Continue\r\n\r\n")
    if call.header("transfer-encoding") is None:
        return await call.reader.readexactly(int(call.header("content-length") or 0))
    body, size = b"", -1
    while size:
        size = int((await call.reader.readuntil(b"\r\n")).partition(b";")[0], 16)
        body += await call.reader.readexactly(size)
        while (line := await call.reader.readuntil(b"\r\n")) != b"\r\n" and size == 0:
            call.head += line
    return body
