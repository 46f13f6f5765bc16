"""A client on bytes: what it sends and what it receives is exactly what a test says."""

import asyncio
import json
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self


def request(body: bytes, *headers: str, path: str = "/v1/chat/completions", host: str = "Host: router") -> bytes:
    """A POST with its Content-Length."""
    lines = [f"POST {path} HTTP/1.1", *([host] if host else []), "Content-Type: application/json", *headers]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body


def chat(stream: bool = True, *headers: str, model: str = "chat", **more: Any) -> bytes:
    return request(json.dumps({"model": model, "stream": stream, "messages": [], **more}).encode(), *headers)


@dataclass
class Answer:
    """One answer. `body` is without chunk framing; `raw` is with it. `whole` tells whether the framing ended."""

    status: int
    headers: list[tuple[str, str]]
    raw: bytes = b""
    body: bytes = b""
    whole: bool = False
    reset: bool = field(default=False)

    def header(self, name: str) -> str | None:
        values = self.all(name)
        return values[0] if values else None

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key == name.lower()]

    @property
    def error(self) -> str:
        return str(json.loads(self.body)["error"]["code"])


class Client:
    """One connection to the router."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, port: int) -> Self:
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=2**24))

    @classmethod
    async def over(cls, host: str, port: int, tls: ssl.SSLContext | None = None) -> Self:
        """On another address, or by TLS."""
        return cls(*await asyncio.open_connection(host, port, limit=2**24, ssl=tls))

    @classmethod
    async def over_unix(cls, path: Path) -> Self:
        return cls(*await asyncio.open_unix_connection(path, limit=2**24))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.hang_up()

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    def hang_up(self) -> None:
        self.writer.transport.abort()

    async def head(self) -> Answer:
        async with asyncio.timeout(5):
            lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = [(key.lower(), value.strip()) for key, _, value in (line.partition(":") for line in lines[1:-2])]
        return Answer(int(lines[0].split(" ")[1]), headers)

    async def answer(self, *, body: bool = True) -> Answer:
        """The next answer, as far as it comes."""
        answer = await self.head()
        if body and answer.status >= 200 and answer.status not in (204, 304):
            async with asyncio.timeout(10):
                try:
                    await self._body(answer)
                except asyncio.IncompleteReadError as cut:
                    answer.raw += cut.partial
                    answer.body += cut.partial
                except ConnectionResetError:
                    answer.reset = True
        return answer

    async def ask(self, data: bytes) -> Answer:
        await self.send(data)
        return await self.answer()

    async def until_closed(self) -> bytes:
        """Everything until the router closes; a reset counts as the end."""
        data = b""
        async with asyncio.timeout(10):
            try:
                while piece := await self.reader.read(65_536):
                    data += piece
            except ConnectionResetError:
                pass
        return data

    async def _body(self, answer: Answer) -> None:
        length = answer.header("content-length")
        if answer.header("transfer-encoding") == "chunked":
            await self._chunks(answer)
        elif length is not None:
            answer.body = answer.raw = await self.reader.readexactly(int(length))
        else:
            while piece := await self.reader.read(65_536):
                answer.body += piece
        answer.whole = True

    async def _chunks(self, answer: Answer) -> None:
        size = -1
        while size:
            line = await self.reader.readuntil(b"\r\n")
            size = int(line, 16)
            answer.raw += line
            data = await self.reader.readexactly(size + 2)
            answer.raw += data
            answer.body += data[:-2]
