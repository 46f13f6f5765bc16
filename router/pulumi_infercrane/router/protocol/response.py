"""Answers: reading an upstream's, rewriting its head, writing our own."""

import re
from collections.abc import Callable
from http import HTTPStatus

import httptools
import orjson

from pulumi_infercrane.router.errors import AnswerInvalid
from pulumi_infercrane.router.protocol.headers import FRAMING, HOP_BY_HOP, OURS, Headers, Line

MAX_HEAD = 64 * 1024
MAX_FRAMING = 64 * 1024
"""Bytes of trailers, or of chunk extensions between two pieces of a body."""
MAX_INTERIM = 64
"""Interim answers before an answer: each is read and passed on, and they need not end."""

FRAMED = HOP_BY_HOP | {b"x-request-id"}
"""Headers that end here when the body goes out as it comes."""
DECHUNKED = FRAMED | {b"transfer-encoding"}
REFRAMED = DECHUNKED | {b"content-digest", b"content-length", b"content-md5", b"digest", b"etag", b"repr-digest"}
"""When its content is another one: what was said about its bytes does not hold."""
_NO_TRAILERS = FRAMED | FRAMING | {b"content-encoding", b"content-type", b"set-cookie"}
"""What may not come behind a body: it would tell of the message itself, or in the name of the router."""
_INTERIM = FRAMED | FRAMING
_BODILESS = (204, 304)
_START = b"HTTP/1."
_has_bare_lf = re.compile(rb"(?<!\r)\n").search
_has_control = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]").search
_NO_HEADERS = Headers([])


class ResponseReader:
    """Frames exactly one answer. Body pieces without transfer coding are appended to `pieces`."""

    __slots__ = (
        "_held",
        "_interim_heads",
        "_keep_alive",
        "_lines",
        "_parser",
        "_pieces",
        "_start_line",
        "_trailers",
        "beside_body",
        "chunked",
        "complete",
        "ends_at_eof",
        "feed_body",
        "head_done",
        "headers",
        "interim",
        "is_event_stream",
        "keep_alive",
        "on_body",
        "over",
        "status",
        "surplus",
    )

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces
        self.on_body = pieces.append
        self.status = 0
        self.headers = _NO_HEADERS
        """Until the head is written."""
        self.head_done = False
        self.chunked = False
        self.is_event_stream = False
        self._keep_alive: bytes | None = None
        self.over = False
        """Complete, or worse."""
        self.complete = False
        self.surplus = False
        """More came than one answer has: response splitting, or an upstream out of step."""
        self.keep_alive = False
        self.ends_at_eof = True
        """Whether only the end of the connection ends the body."""
        self.interim: list[bytes] = []
        """Heads of 103 answers, to be passed on."""
        self._interim_heads = 0
        self.beside_body = 0
        """Bytes of reads without a piece of the body; begins anew whenever pieces were observed."""
        self._trailers = 0
        """Bytes of those that are complete."""
        self._held = b""
        self._start_line = b""
        self._lines: list[Line] = []
        self._parser = httptools.HttpResponseParser(self)
        self.feed_body: Callable[[bytes], None] = self._parser.feed_data
        """Takes body bytes once the head is done; sets `over`, raises HttpParserError."""

    def close(self) -> None:
        """Let go of the parser, which refers back to this reader."""
        del self._parser, self.feed_body

    def feed_head(self, data: bytes) -> bytes | None:
        """Take bytes until the final head is complete; then the body bytes that came with it, not yet fed, else None.

        Raises:
            AnswerInvalid: not HTTP/1.x, or framed in a way we do not pass on.
        """
        self._held += data
        while (end := self._held.find(b"\r\n\r\n") + 4) > 3:
            if end > MAX_HEAD:
                raise AnswerInvalid("head too large")
            head, self._held = self._held[:end], self._held[end:]
            if not head.startswith(_START):  # the parser skips line ends before it
                raise AnswerInvalid("not HTTP/1.x")
            self._feed(head)
            self._start_line = _start_line(head)
            if self.status >= 200:
                self._final()
                rest, self._held = self._held, b""
                return rest
            self._interim()
        _refuse_begun(self._held)
        return None

    def feed(self, data: bytes) -> None:
        """Take body bytes.

        Raises:
            AnswerInvalid: broken chunk framing, too much of it, or more than one answer.
        """
        if self.complete:
            self.surplus = self.surplus or bool(data)
        elif data:
            before = len(self._pieces)
            self._feed(data)
            self.surplus = self.surplus or (self.complete and self.ends_late(data))
            if len(self._pieces) == before:
                self.bound_framing(data)
        if self.surplus:
            raise AnswerInvalid("more than one answer")

    def bound_framing(self, data: bytes) -> None:
        """A read brought no piece of the body: the parser does not tell of extensions and trailers before they end.

        Raises:
            AnswerInvalid: there were too many of them.
        """
        self.beside_body += len(data)
        if self.beside_body > MAX_FRAMING:
            raise AnswerInvalid("trailers or chunk extensions too large")

    def ends_late(self, data: bytes) -> bool:
        """Whether line ends follow the answer, which these bytes completed: the parser skips them, a client may not."""
        if self.chunked:
            return len(data) - len(data.rstrip(b"\r\n")) > len(b"\r\n\r\n")
        return len(self._pieces[-1]) < len(data)

    def head(self, added: bytes, dropped: frozenset[bytes]) -> bytes:
        """The head for the client: theirs without what is dropped, then `added` header lines.

        Their headers are let go, so that none is kept for as long as a stream lasts.
        """
        kept = self.headers.without(dropped)
        self.headers, self._lines = _NO_HEADERS, []
        return b"HTTP/1.1 %b\r\n%b%b\r\n" % (self._start_line, kept, added)

    def idle_seconds(self, most: float) -> float:
        """How long this connection may wait for its next use: earlier than the upstream closes it."""
        given = self._keep_alive
        for part in given.split(b",") if given else ():
            name, _, value = part.strip().partition(b"=")
            if name.lower() == b"timeout" and value.isdigit():
                return min(most, float(value) - 2)
        return most

    def on_message_begin(self) -> None:
        if self.complete:
            self.surplus = True
        self._lines = []

    def on_header(self, name: bytes, value: bytes) -> None:
        key = name.lower()
        if not self.head_done:
            self._lines.append((key, name, value))
        elif key in _NO_TRAILERS or key.startswith(OURS):
            raise AnswerInvalid("a trailer that a client could take for a header of the answer")
        else:
            self._trailers += len(name) + len(value)
            if self._trailers > MAX_FRAMING:
                raise AnswerInvalid("trailers too large")

    def on_headers_complete(self) -> None:
        self.headers = Headers(self._lines)
        self.status = self._parser.get_status_code()
        self.keep_alive = self._parser.should_keep_alive()

    def on_message_complete(self) -> None:
        if self.status >= 200:
            self.complete = self.over = True

    def _feed(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            raise AnswerInvalid("switched protocols without being asked") from None
        except httptools.HttpParserError as error:
            raise AnswerInvalid(str(error)) from None

    def _interim(self) -> None:
        self._interim_heads += 1
        if self._interim_heads > MAX_INTERIM:
            raise AnswerInvalid("too many interim answers")
        if self.status not in (100, 102, 103):
            raise AnswerInvalid(f"unexpected interim answer {self.status}")
        self._read_coding()
        if self.status == 103:
            kept = self.headers.without(_INTERIM)
            self.interim.append(b"HTTP/1.1 %b\r\n%b\r\n" % (self._start_line, kept))

    def _final(self) -> None:
        coded = self._read_coding()
        self.head_done = True
        self.complete = self.complete or self.status in _BODILESS
        values = self.headers.first
        self.ends_at_eof = not (self.complete or coded or b"content-length" in values)
        self.chunked = coded
        self.is_event_stream = values.get(b"content-type", b"").startswith(b"text/event-stream")
        self._keep_alive = values.get(b"keep-alive")

    def _read_coding(self) -> bool:
        """Whether the body comes in chunks."""
        coding = self.headers.first.get(b"transfer-encoding")
        if coding is None:
            return False
        if self.headers.repeated(b"transfer-encoding") or coding.strip().lower() != b"chunked":
            raise AnswerInvalid("a transfer coding other than chunked")
        if self._parser.get_http_version() == "1.0":
            raise AnswerInvalid("HTTP/1.0 has no Transfer-Encoding")
        return True


def _refuse_begun(held: bytes) -> None:
    """What can become no head is refused at once: the rest may never come."""
    if not held.startswith(_START[: len(held)]):
        raise AnswerInvalid("not HTTP/1.x")
    if _has_bare_lf(held):
        raise AnswerInvalid("a line that ends without CR")
    if len(held) > MAX_HEAD:
        raise AnswerInvalid("head too large")


def _start_line(head: bytes) -> bytes:
    """Status and reason."""
    line = head[: head.index(b"\r\n")].partition(b" ")[2]
    if line != b"200 OK" and _has_control(line):
        raise AnswerInvalid("control characters in the reason phrase")
    return line


def own_answer(
    status: int, body: bytes, headers: bytes, *, media: bytes = b"application/json", head_only: bool = False
) -> bytes:
    """A complete answer of the router itself. `headers` are whole lines with CRLF."""
    head = b"HTTP/1.1 %d %b\r\nContent-Type: %b\r\nContent-Length: %d\r\n%b\r\n"
    phrase = HTTPStatus(status).phrase.encode()
    return head % (status, phrase, media, len(body), headers) + (b"" if head_only else body)


def error_body(code: str, message: str, kind: str) -> bytes:
    """An error in the shape OpenAI clients read."""
    return orjson.dumps({"error": {"message": message, "type": kind, "param": None, "code": code}})
