"""What our reading of HTTP is compared with: h11, and the llhttp of Node.

Nothing of ours may accept what one of them calls wrong, and what both accept is cut into the same messages.
"""

import base64
import json
import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import h11

from pulumi_infercrane.router.errors import AnswerInvalid, RequestRefused
from pulumi_infercrane.router.protocol.request import Limits, Phase, Request, RequestReader
from pulumi_infercrane.router.protocol.response import ResponseReader

ASKED = h11.Request(method="POST", target="/", headers=[("Host", "a"), ("Content-Length", "0")])
LIMIT = 10**7


@dataclass
class Framed:
    """The messages that were found, as (method and target, or status; body), and whether reading ended in an error."""

    messages: list[tuple[bytes, bytes]] = field(default_factory=list)
    wrong: bool = False
    last: bool = False
    """Whether no message may follow, because the last one asked for the end of the connection."""
    held: bool = False
    """Whether nothing of a further message was looked at: empty lines, or a head of an answer that is not whole."""


def requests_by_us(pieces: Iterable[bytes]) -> Framed:
    """As our client connections read."""
    found = Framed()

    def take(request: Request) -> None:
        if found.last:
            return
        found.messages.append((request.head.method + b" " + request.head.target, request.body))
        found.last = not request.keep_alive or request.head.version == "1.0"

    reader = RequestReader(Limits(), lambda head: None, take, lambda: None)
    try:
        for piece in pieces:
            reader.feed(piece)
    except RequestRefused:
        found.wrong = True
    finally:
        found.held = reader.phase is Phase.IDLE
        reader.close()
    return found


def requests_by_h11(data: bytes) -> Framed:
    """As a server written with h11 reads."""
    found, connection = Framed(), _server(data)
    start, body = b"", b""
    while True:
        try:
            event = connection.next_event()
        except h11.RemoteProtocolError:
            found.wrong = True
            return found
        if isinstance(event, h11.Request):
            if event.method == b"CONNECT":  # what follows is no HTTP
                found.wrong = True
                return found
            start, body = event.method + b" " + event.target, b""
        elif isinstance(event, h11.Data):
            body += bytes(event.data)
        elif isinstance(event, h11.EndOfMessage):
            found.messages.append((start, body))
            connection.send(h11.Response(status_code=200, headers=[("Content-Length", "0")]))
            connection.send(h11.EndOfMessage())
            if connection.our_state is not h11.DONE:
                found.last = True
                return found
            connection = _server(connection.trailing_data[0])
        else:
            return found


def _server(data: bytes) -> h11.Connection:
    """Behind the empty lines that RFC 9112 2.2 lets a server skip before a request; h11 takes only CRLF for one."""
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=LIMIT)
    connection.receive_data(data.lstrip(b"\r\n"))
    return connection


def answer_by_us(pieces: Iterable[bytes], *, ended: bool) -> Framed:
    """As our upstream connections read one answer; `ended` when the connection does behind it."""
    found, body = Framed(), list[bytes]()
    reader = ResponseReader(body)
    try:
        for piece in pieces:
            rest = piece if reader.head_done else reader.feed_head(piece)
            if rest is not None:
                reader.feed(rest)
    except AnswerInvalid:
        found.wrong = True
    if not found.wrong and (reader.complete or (ended and reader.head_done and reader.ends_at_eof)):
        found.messages.append((b"%d" % reader.status, b"".join(body)))
    elif ended:
        found.wrong = True
    found.held = not reader.head_done
    reader.close()
    return found


def answer_by_h11(data: bytes, *, ended: bool) -> Framed:
    """As a client written with h11 reads one answer."""
    found, connection = Framed(), h11.Connection(h11.CLIENT, max_incomplete_event_size=LIMIT)
    connection.send(ASKED)
    connection.send(h11.EndOfMessage())
    status, body = b"", b""
    try:
        connection.receive_data(data)
        if ended:
            connection.receive_data(b"")
        while True:
            event = connection.next_event()
            if isinstance(event, h11.Response):
                status = b"%d" % event.status_code
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                found.messages.append((status, body))
                return found
            elif not isinstance(event, h11.InformationalResponse):
                return found
    except h11.RemoteProtocolError:
        found.wrong = True
        return found


def two_blanks(data: bytes) -> bool:
    """The one thing that we take and h11 does not: more than one blank between the words of a request line.

    RFC 9112 3 lets a server read it by its words; upstreams get a line of our own.
    """
    return _TWO_BLANKS.search(data) is not None


_TWO_BLANKS = re.compile(rb"(?:^|[\r\n])[A-Z]+ (?: +\S+ |\S+  ) *HTTP/1\.")


def disagreement(ours: Framed, oracle: Framed) -> str:
    """What we accept and the oracle does not, or cut in another way; nothing when we are as strict or stricter."""
    if len(ours.messages) > len(oracle.messages):
        return f"we take {len(ours.messages)} messages, the oracle {len(oracle.messages)}"
    for number, (one, other) in enumerate(zip(ours.messages, oracle.messages, strict=False)):
        if one != other:
            return f"message {number} is {one!r} for us, {other!r} for the oracle"
    if oracle.wrong and len(ours.messages) == len(oracle.messages) and not (ours.wrong or ours.last or ours.held):
        return "the oracle refuses what we wait for the rest of"
    return ""


class Node:
    """A process of Node, which reads with the llhttp that it has."""

    def __init__(self, executable: str) -> None:
        script = Path(__file__).with_name("oracle.cjs")
        self._process = subprocess.Popen([executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self._process.communicate()

    def requests(self, data: bytes) -> Framed:
        return self._framed("request", data)

    def answers(self, data: bytes) -> Framed:
        return self._framed("answer", data)

    def _framed(self, kind: str, data: bytes) -> Framed:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{kind} {base64.b64encode(data).decode()}\n")
        self._process.stdin.flush()
        said = json.loads(self._process.stdout.readline())
        messages = [(start.encode("latin-1"), base64.b64decode(body)) for start, body in said["messages"]]
        return Framed(messages, said["wrong"], said["last"])
