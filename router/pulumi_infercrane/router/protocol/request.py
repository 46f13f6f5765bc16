"""Requests from bytes, strictly.

httptools refuses much of what is ambiguous by itself; what it lets through is refused here. Nothing is repaired:
a request is understood in one way only, or answered with an error and the connection closed.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

import httptools

from pulumi_infercrane.router.errors import RequestRefused
from pulumi_infercrane.router.protocol.headers import Headers, Line, size_of

MOST_FRAMING = 8
"""Bytes of chunk framing for one of the body; five are needed when it comes in chunks of one byte."""

_after_blanks = re.compile(rb" +HTTP/").match


@dataclass(frozen=True)
class Limits:
    """Bytes, except `headers`. `head` is also the most of trailers or chunk extensions."""

    request_line: int = 8 * 1024
    head: int = 32 * 1024
    headers: int = 100
    body: int = 16 * 1024 * 1024


@dataclass(slots=True)
class Head:
    """Everything before the body. `path` is the target without its query.

    Not frozen, like all that is made per request: a frozen one or a named tuple takes three times as long to make.
    """

    method: bytes
    target: bytes
    path: bytes
    version: str
    headers: Headers


@dataclass(slots=True)
class Request:
    """One complete request, its body de-chunked, trailers dropped."""

    head: Head
    body: bytes
    keep_alive: bool


class Phase(Enum):
    """What the connection is in the middle of."""

    IDLE = auto()
    HEAD = auto()
    BODY = auto()


_IDLE, _HEAD, _BODY = Phase
"""Names of their own: in CPython 3.11 looking a member up at its class takes longer than calling a function."""


class RequestReader:
    """Feeds bytes, calls back per head and per complete request.

    `on_head` may raise RequestRefused to answer before the body is read. `on_continue` is called when the client
    waits for `100 Continue`.
    """

    __slots__ = (
        "_beside_body",
        "_beside_head",
        "_body",
        "_body_before",
        "_continue",
        "_ended_size",
        "_head",
        "_head_done",
        "_limits",
        "_lines",
        "_one_ended",
        "_parser",
        "_read",
        "_request_done",
        "_start",
        "_target",
        "_target_at",
        "_underscores",
        "_upgrade_ignored",
        "phase",
    )

    def __init__(
        self,
        limits: Limits,
        on_head: Callable[[Head], None],
        on_request: Callable[[Request], None],
        on_continue: Callable[[], None],
    ) -> None:
        self.phase = _IDLE
        self._limits = limits
        self._head_done = on_head
        self._request_done = on_request
        self._continue = on_continue
        self._parser = httptools.HttpRequestParser(self)
        self._head: Head | None = None
        self._upgrade_ignored = False
        self._read = b""
        """What came since the feed in which an unfinished head began."""
        self._start = 0
        """Where in it that head begins; behind chunks, a place before."""
        self._target_at = -1
        """Where in it the target is that was read last; negative when that was another feed."""
        self._ended_size = 0
        """Of the request that ended last."""
        self._body_before = 0
        """Bytes of the body that earlier feeds brought."""
        self._beside_body = 0
        """Bytes of earlier feeds that are neither body nor the framing it needs."""
        self._beside_head = 0
        """Bytes of `_read` that may be of the request before, because it ended in the same feed."""
        self._one_ended = False
        """Whether a request ended in this feed."""

    def feed(self, data: bytes) -> None:
        """Take what was received.

        Raises:
            RequestRefused: the connection must be closed after the answer; requests before it were called back.
        """
        while True:  # once more for every wish for another protocol
            began_in, self._one_ended = self.phase, False
            self._read += data
            try:
                self._parser.feed_data(data)
                break
            except httptools.HttpParserUpgrade as upgrade:
                data = self._without_upgrade(data[upgrade.args[0] :])
            except httptools.HttpParserCallbackError as error:
                raise _cause(error) from None
            except httptools.HttpParserError as error:
                raise RequestRefused(400, "bad_request", f"not valid HTTP: {error}", close=True) from None
        if self.phase is _HEAD:
            self._bound_head(first=began_in is not _HEAD or self._one_ended)
            return
        self._read, self._target_at = b"", -1
        if self.phase is _BODY:
            self._bound_body(len(data), first=began_in is not _BODY or self._one_ended)

    @property
    def awaits_continue(self) -> bool:
        """Whether the client has asked for `100 Continue` and sent nothing of the body yet."""
        head = self._head
        return head is not None and head.version != "1.0" and not self._body and b"expect" in head.headers.first

    @property
    def unfinished(self) -> int:
        """Bytes that have arrived of a body that is not complete."""
        return len(self._body) if self.phase is _BODY else 0

    def close(self) -> None:
        """Let go of the parser, which refers back to this reader."""
        del self._parser

    def on_message_begin(self) -> None:
        self.phase = _HEAD
        self._target = b""
        self._lines: list[Line] = []
        self._underscores = False
        self._start = self._behind() if self._one_ended else 0
        self._head = None
        self._body: bytes | bytearray = b""

    def on_url(self, piece: bytes) -> None:
        self._target += piece
        if len(self._target) > self._limits.request_line:
            raise _head_too_large()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._head is None:  # else a trailer: it arrives here too, after the body
            self._lines.append((name.lower(), name, value))
            if b"_" in name:
                self._underscores = True

    def on_headers_complete(self) -> None:
        lines = self._lines
        too_large = len(self._read) > self._limits.head and size_of(lines) > self._limits.head
        if too_large or len(lines) > self._limits.headers:
            raise _head_too_large()
        parser, target = self._parser, self._target
        path = target.partition(b"?")[0]
        if self._underscores:  # upstreams that map names to variables take `_` for a dash
            lines = [line for line in lines if b"_" not in line[0]]
        head = Head(parser.get_method(), target, path, parser.get_http_version(), Headers(lines))
        refuse_ambiguous(head)
        if not self._says_http():
            raise _other_protocol()
        self._upgrade_ignored = parser.should_upgrade()
        self._head = head
        if self._upgrade_ignored:
            return
        if int(head.headers.first.get(b"content-length", 0)) > self._limits.body:
            raise self._body_too_large()
        self._head_done(head)
        self.phase = _BODY
        if b"expect" in head.headers.first and head.version != "1.0":
            self._continue()

    def on_body(self, piece: bytes) -> None:
        body = self._body
        if len(body) + len(piece) > self._limits.body:
            raise self._body_too_large()
        if not body:
            self._body = piece
            return
        if isinstance(body, bytes):
            body = self._body = bytearray(body)  # a list of many small pieces would take many times their bytes
        body += piece

    def on_message_complete(self) -> None:
        head = self._head
        if self._upgrade_ignored or head is None:
            return
        body = bytes(self._body)
        self._one_ended, self._ended_size = True, len(body)
        self.phase, self._head, self._lines, self._body = _IDLE, None, [], b""
        self._request_done(Request(head, body, self._parser.should_keep_alive()))

    def _behind(self) -> int:
        """Where in `_read` the request that just ended does; with chunks, a place in it."""
        if self._target_at < 0:
            return self._ended_size - self._body_before
        return self._read.find(b"\r\n\r\n", self._target_at) + 4 + self._ended_size

    def _says_http(self) -> bool:
        """Whether the request line does: the parser takes `RTSP/1.0` for a version too, and does not tell."""
        read, target = self._read, self._target
        self._target_at = at = read.find(target, self._start)
        return read.startswith(b" HTTP/", at + len(target)) or _after_blanks(read, at + len(target)) is not None

    def _bound_head(self, *, first: bool) -> None:
        if first:
            self._beside_head = len(self._read) if self._one_ended else 0
        if len(self._read) - self._beside_head > self._limits.head + self._limits.request_line:
            raise _head_too_large()

    def _bound_body(self, fed: int, *, first: bool) -> None:
        """Refuse trailers and chunk extensions without end: the parser does not tell of them before they end."""
        before, self._body_before = self._body_before, len(self._body)
        if first:  # other bytes came with it
            self._beside_body = 0
            return
        grown = self._body_before - before
        self._beside_body = max(0, self._beside_body + fed - grown - MOST_FRAMING * grown)
        if self._beside_body > self._limits.head:
            raise RequestRefused(431, "head_too_large", "trailers or chunk extensions are too large", close=True)

    def _body_too_large(self) -> RequestRefused:
        return RequestRefused(413, "body_too_large", f"the body may have {self._limits.body} bytes", close=True)

    def _without_upgrade(self, rest: bytes) -> bytes:
        """The parser stops behind a head that asks for another protocol: what a new one is to read instead.

        Without the Upgrade lines the rest means what it meant: its framing, `close`, and what Connection names.
        """
        head, self._upgrade_ignored, self._read = self._head, False, b""
        if head is None:
            raise RequestRefused(400, "bad_request", "not valid HTTP", close=True)
        plain = head.headers.lines_but(b"upgrade")
        self._parser = httptools.HttpRequestParser(self)
        start = b"%b %b HTTP/%b\r\n" % (head.method, head.target, head.version.encode())
        return start + plain + b"\r\n" + rest


def refuse_ambiguous(head: Head) -> None:
    """Refuse what the parser accepts although two readers could understand it in two ways.

    Raises:
        RequestRefused: the connection must be closed.
    """
    if head.version != "1.1" and head.version != "1.0":
        raise _other_protocol()
    if head.method == b"CONNECT":
        raise RequestRefused(501, "not_implemented", "this is no forward proxy", close=True)
    if not head.target.startswith(b"/") or b"#" in head.target:
        raise _bad("the request target must be a path, without a fragment")
    headers = head.headers
    if headers.repeated(b"host") or (b"host" not in headers.first and head.version == "1.1"):
        raise _bad("exactly one Host header is needed")
    _refuse_framing(head, headers)
    expectation = headers.first.get(b"expect")
    if expectation is not None and expectation.strip().lower() != b"100-continue":
        raise RequestRefused(417, "expectation_failed", "the only expectation met is 100-continue", close=True)


def _refuse_framing(head: Head, headers: Headers) -> None:
    coding = headers.first.get(b"transfer-encoding")
    if coding is not None and head.version == "1.0":
        raise _bad("HTTP/1.0 has no Transfer-Encoding")
    if coding is not None and (headers.repeated(b"transfer-encoding") or coding.strip().lower() != b"chunked"):
        raise RequestRefused(501, "not_implemented", "the only transfer coding taken is chunked", close=True)
    if head.method in (b"GET", b"HEAD") and has_body(head):
        raise _bad("this method takes no body")
    if b"content-encoding" in headers.first and any(
        coding.strip().lower() != b"identity" for coding in headers.all(b"content-encoding")
    ):
        raise RequestRefused(415, "compressed_body", "send the body uncompressed", close=True)


def has_body(head: Head) -> bool:
    """Whether body bytes follow the head."""
    values = head.headers.first
    return b"transfer-encoding" in values or int(values.get(b"content-length", 0)) > 0


def _bad(message: str) -> RequestRefused:
    return RequestRefused(400, "bad_request", message, close=True)


def _other_protocol() -> RequestRefused:
    return RequestRefused(505, "http_version", "only HTTP/1.0 and HTTP/1.1 are spoken here", close=True)


def _head_too_large() -> RequestRefused:
    return RequestRefused(431, "head_too_large", "request line or headers are too large", close=True)


def _cause(error: httptools.HttpParserCallbackError) -> Exception:
    cause = error.__context__
    return cause if isinstance(cause, Exception) else error
