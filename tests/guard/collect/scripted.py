"""A scripted model server on a real socket, the events it sends, and targets to measure it as."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from pulumi_infercrane.guard.collect import Target
from pulumi_infercrane.guard.evidence import revision_digest

CUT = "cut the connection here"
Step = bytes | float | str
"""Bytes to send, seconds to wait, or CUT."""
StartScripted = Callable[..., Awaitable["ScriptedServer"]]
DIGEST = "sha256:" + "d" * 64


def event(**fields: Any) -> bytes:
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


def delta(**fields: Any) -> bytes:
    return event(choices=[{"index": 0, "delta": fields, "finish_reason": None}], system_fingerprint="b1-abc")


def finish(reason: str = "stop") -> bytes:
    return event(choices=[{"index": 0, "delta": {}, "finish_reason": reason}])


def usage(prompt: int = 30, completion: int = 3, cached: int = 0) -> bytes:
    details = {"cached_tokens": cached}
    counts = {"prompt_tokens": prompt, "completion_tokens": completion, "prompt_tokens_details": details}
    return event(choices=[], usage=counts)


ROLE = delta(role="assistant", content=None)
DONE = b"data: [DONE]\n\n"


def good(text: str = "one two three") -> list[Step]:
    """A plain answer, a word an event."""
    words = [delta(content=word + " ") for word in text.split()]
    return [ROLE, *words, finish(), usage(completion=len(words)), DONE]


@dataclass
class ScriptedServer:
    """Answers each completion by `script(number, body)`, numbers from 0; remembers what it was asked."""

    script: Callable[[int, dict[str, Any]], Iterable[Step]] = lambda number, body: good()
    models: list[str] = field(default_factory=lambda: ["chat"])
    metrics: str = ""
    status: int = 200
    revision: str = ""
    """What answers say of whose they are; empty says nothing."""
    asked: list[dict[str, Any]] = field(default_factory=list)
    open: int = 0
    most_open: int = 0
    url: str = ""
    _server: asyncio.Server | None = None

    @property
    def prompts(self) -> list[str]:
        """What was asked, without the short probes."""
        prompts = [body["messages"][0]["content"] for body in self.asked]
        return [prompt for prompt in prompts if prompt != "Hello"]

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        """Nobody listens any more; open answers end."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            await self._answer(head, reader, writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _answer(self, head: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if head.startswith("GET /v1/models"):
            _plain(writer, 200, json.dumps({"data": [{"id": name} for name in self.models]}).encode())
        elif head.startswith("GET"):
            _plain(writer, 200 if self.metrics else 404, self.metrics.encode())
        else:
            length = next(int(line[15:]) for line in head.split("\r\n") if line.lower().startswith("content-length:"))
            await self._complete(json.loads(await reader.readexactly(length)), writer)

    async def _complete(self, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        number = len(self.asked)
        self.asked.append(body)
        if self.status != 200:
            _plain(writer, self.status, b'{"error": {"message": "secret text"}}')
            return
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            await _stream(self.script(number, body), writer, self.revision)
        finally:
            self.open -= 1


def _plain(writer: asyncio.StreamWriter, status: int, body: bytes) -> None:
    head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    writer.write(head.encode() + body)


async def _stream(steps: Iterable[Step], writer: asyncio.StreamWriter, revision: str) -> None:
    says = f"X-InferCrane-Revision: {revision}\r\n" if revision else ""
    plain = "Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n"
    head = f"HTTP/1.1 200 OK\r\n{says}{plain}\r\n"
    writer.write(head.encode())
    for step in steps:
        if step == CUT:
            return
        if isinstance(step, bytes):
            writer.write(b"%x\r\n%s\r\n" % (len(step), step))
            await writer.drain()
        else:
            await asyncio.sleep(float(step))
    writer.write(b"0\r\n\r\n")


def target_of(label: str, url: str, model: str = "chat", **changes: Any) -> Target:
    """A target whose revision differs from others by its label."""
    subject = {
        "model": {"source": "file:model.gguf", "weights_digest": DIGEST},
        "tokenizer_digest": DIGEST,
        "chat_template_sha": DIGEST,
        "runtime": {"image": DIGEST},
        "engine": {"name": "llama.cpp", "version": label, "args_digest": DIGEST},
        "accelerator": {"vendor": "cpu", "sku": "host", "count": 1},
        "parallelism": {"tp": 1, "pp": 1, "dp": 1, "ep": 1},
        "provider": "local",
        "region": "local",
    } | changes
    digest = revision_digest(subject)
    return Target(label, digest, subject | {"revision_digest": digest}, url, model)
