"""Generated requests and answers, well-formed, nearly so and broken, beside other readers of HTTP: probe F13."""

import shutil
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.router.ambiguous import AMBIGUOUS
from tests.router.oracles import (
    Framed,
    Node,
    answer_by_h11,
    answer_by_us,
    disagreement,
    requests_by_h11,
    requests_by_us,
    two_blanks,
)

REPEATABLE = settings(max_examples=200, deadline=None, derandomize=True, database=None)

HEADERS = (
    b"Host: a", b"host: b", b"Host:", b"Content-Length: 5", b"Content-Length: 05", b"content-length:5 ",
    b"Content-Length: 5, 5", b"Content-Length: -5", b"Content-Length: 5x", b"Content-Length:",
    b"Transfer-Encoding: chunked", b"Transfer-Encoding: Chunked", b"Transfer-Encoding: gzip, chunked",
    b"Transfer-Encoding:\tchunked", b"Transfer-Encoding: chunked ", b"Transfer-Encoding : chunked",
    b"Transfer-Encoding: identity", b"Transfer-Encoding:", b"Transfer-Encoding: chunked\x0b",
    b"Transfer_Encoding: chunked", b"Connection: close", b"Connection: keep-alive", b"Connection: Upgrade",
    b"Upgrade: websocket", b"Upgrade: h2c", b"Expect: 100-continue", b"Expect: x", b"X: \xc3\xa9", b"X:",
    b" folded: c", b"\tx", b"X: a\x00b", b"X: a\rb", b"X: a\x7fb", b"X-\xe9: 1", b"X Y: 1", b"(): 1", b":", b"x",
    b"Connection: Upgrade, Content-Length", b"Connection: Upgrade, Transfer-Encoding", b"Connection: Content-Length",
    b"Connection: Transfer-Encoding, close", b"TE: trailers", b"Trailer: X",
)  # fmt: skip
ENDS = st.sampled_from([b"\r\n"] * 30 + [b"\n", b"\r", b"\r\r\n", b"\n\r\n"])
SIZES = (
    b"5", b"05", b"5;x=y", b"5 ", b" 5", b"0x5", b"+5", b"-5", b"5;", b"5\t", b"FFFFFFFFFFFFFFFFF5", b"", b"g",
    b"5;\x00",
    b'5;a="b\rc"',
)  # fmt: skip
BODIES = st.sampled_from([b"hello", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"", b"hell"])
CHUNKED = st.builds(
    lambda size, data, end, last, trailer: size + b"\r\n" + data + end + last + trailer,
    st.sampled_from(SIZES),
    st.sampled_from([b"hello", b"hell", b"hello!"]),
    ENDS,
    st.sampled_from([b"0\r\n", b"0\n", b"00\r\n", b"0;x\r\n", b"0 \r\n", b""]),
    st.sampled_from([b"\r\n", b"X: 1\r\n\r\n", b"Content-Length: 9\r\n\r\n", b"X\r\n\r\n", b"\n", b"X: a\0\r\n\r\n"]),
)


def lines(start: st.SearchStrategy[bytes], few: st.SearchStrategy[list[bytes]]) -> st.SearchStrategy[bytes]:
    """A head of this start line and these headers."""
    return st.builds(
        lambda first, headers, ends: b"".join(
            line + end for line, end in zip([first, *headers, b""], ends, strict=False)
        ),
        start,
        few,
        st.lists(ENDS, min_size=12, max_size=12),
    )


FEW = st.lists(st.sampled_from(HEADERS), max_size=4).map(lambda found: [b"Host: a", *found]) | st.lists(
    st.sampled_from(HEADERS), max_size=4
)
REQUEST_LINES = st.builds(
    lambda method, target, version: method + b" " + target + b" " + version,
    st.sampled_from([b"POST"] * 6 + [b"GET", b"HEAD", b"OPTIONS", b"post", b"CONNECT", b"PO ST", b"", b"PRI"]),
    st.sampled_from([b"/"] * 6 + [b"/a?b", b"*", b"http://a/", b"/\xff", b"/#x", b"/ x", b"a", b"", b"a:80"]),
    st.sampled_from(
        [b"HTTP/1.1"] * 8 + [b"HTTP/1.0", b"HTTP/2.0", b"HTTP/1.2", b"HTTP/1.10", b"http/1.1", b"RTSP/1.0", b""]
    ),
)  # fmt: skip
STATUS_LINES = st.sampled_from(
    [b"HTTP/1.1 200 OK"] * 8
    + [
        b"HTTP/1.0 200 OK",
        b"HTTP/1.1 200",
        b"HTTP/1.1 204 No",
        b"HTTP/1.1 304 No",
        b"HTTP/1.1 100 Go",
        b"HTTP/1.1 103 H",
    ]
    + [b"HTTP/1.1 99 x", b"HTTP/1.1 2000 x", b"HTTP/1.1  200 OK", b"HTTP/2 200 OK", b"HTTP/1.1 2x0 OK", b"ICY 200 OK"]
)
PAYLOADS = BODIES | CHUNKED
REQUESTS = st.lists(st.builds(bytes.__add__, lines(REQUEST_LINES, FEW), PAYLOADS), min_size=1, max_size=2).map(b"".join)
ANSWERS = st.lists(st.builds(bytes.__add__, lines(STATUS_LINES, FEW), PAYLOADS), min_size=1, max_size=2).map(b"".join)
CUTS = st.lists(st.integers(0, 400), max_size=5)


def bent(data: bytes, place: int, byte: int, kind: int) -> bytes:
    """One byte left out, put in, or replaced; or none."""
    place %= len(data) + 1
    if kind == 0:
        return data
    inserted = bytes([byte]) if kind > 1 else b""
    return data[:place] + inserted + data[place + (kind != 2) :]


BENT = {"place": st.integers(0, 400), "byte": st.sampled_from(b"\r\n\0 \t:;,0aA\x80\x0b"), "kind": st.integers(0, 3)}


def pieces(data: bytes, cuts: list[int]) -> Iterator[bytes]:
    edges = sorted({0, *(cut for cut in cuts if cut < len(data)), len(data)})
    return (data[start:end] for start, end in pairwise(edges))


@REPEATABLE
@given(data=REQUESTS, cuts=CUTS, **BENT)
def test_F13_requests_beside_h11(data: bytes, cuts: list[int], place: int, byte: int, kind: int) -> None:
    data = bent(data, place, byte, kind)
    ours = requests_by_us([data])
    assert requests_by_us(pieces(data, cuts)) == ours
    assert two_blanks(data) or disagreement(ours, requests_by_h11(data)) == ""


@REPEATABLE
@given(data=ANSWERS, cuts=CUTS, ended=st.booleans(), **BENT)
def test_F13_answers_beside_h11(data: bytes, cuts: list[int], ended: bool, place: int, byte: int, kind: int) -> None:
    data = bent(data, place, byte, kind)
    ours = answer_by_us([data], ended=ended)
    in_pieces = answer_by_us(pieces(data, cuts), ended=ended)
    assert (in_pieces.wrong, in_pieces.messages) == (ours.wrong, ours.messages)
    assert disagreement(ours, answer_by_h11(data, ended=ended)) == ""


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    executable = shutil.which("node")
    if executable is None:
        pytest.skip("there is no node on PATH")
    with Node(executable) as process:
        yield process


def test_F13_requests_beside_llhttp(node: Node) -> None:
    @REPEATABLE
    @given(data=REQUESTS, **BENT)
    def alike(data: bytes, place: int, byte: int, kind: int) -> None:
        data = bent(data, place, byte, kind)
        assert disagreement(requests_by_us([data]), node.requests(data)) == ""

    alike()


def test_F13_answers_beside_llhttp(node: Node) -> None:
    @REPEATABLE
    @given(data=ANSWERS, **BENT)
    def alike(data: bytes, place: int, byte: int, kind: int) -> None:
        data = bent(data, place, byte, kind)
        assert disagreement(answer_by_us([data], ended=False), node.answers(data)) == ""

    alike()


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_F13_what_is_ambiguous_is_never_taken_where_h11_refuses(name: str) -> None:
    data, status = AMBIGUOUS[name]
    ours = requests_by_us([data])
    assert disagreement(ours, requests_by_h11(data)) == ""
    assert ours.wrong is (status != 200)


def test_F13_a_disagreement_would_be_noticed() -> None:
    one = [(b"POST /", b"")]
    assert disagreement(Framed(one * 2), Framed(one))
    assert disagreement(Framed([(b"POST /", b"x")]), Framed(one))
    assert disagreement(Framed(), Framed(wrong=True))
    assert not disagreement(Framed(wrong=True), Framed(one))
