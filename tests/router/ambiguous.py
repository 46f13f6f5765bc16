"""Requests that two readers could understand in two ways, with the status that answers them here."""

BODY = b'{"model":"chat","messages":[]}'
PATH = "/v1/chat/completions"


def raw(start: str, *headers: str, body: bytes = b"") -> bytes:
    return "\r\n".join([start, *headers, "", ""]).encode("latin-1") + body


def post(*headers: str, body: bytes = BODY, target: str = PATH, version: str = "HTTP/1.1") -> bytes:
    return raw(f"POST {target} {version}", *headers, body=body)


def upgrade(*named: str) -> tuple[str, str]:
    """A wish for another protocol, on a connection that ends, whose Connection header names other headers too."""
    return f"Connection: {', '.join(('Upgrade', *named, 'close'))}", "Upgrade: h2c"


LENGTH = f"Content-Length: {len(BODY)}"
HOST = "Host: router"
CHUNKED = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)

AMBIGUOUS = {
    "length and chunked": (post(HOST, LENGTH, "Transfer-Encoding: chunked", body=CHUNKED), 400),
    "chunked and length": (post(HOST, "Transfer-Encoding: chunked", LENGTH, body=CHUNKED), 400),
    "two lengths": (post(HOST, LENGTH, "Content-Length: 5"), 400),
    "two equal lengths": (post(HOST, LENGTH, LENGTH), 400),
    "length list": (post(HOST, f"Content-Length: {len(BODY)}, {len(BODY)}"), 400),
    "signed length": (post(HOST, f"Content-Length: +{len(BODY)}"), 400),
    "hex length": (post(HOST, "Content-Length: 0x1e"), 400),
    "huge length": (post(HOST, "Content-Length: 99999999999999999999999"), 400),
    "gzip, chunked": (post(HOST, "Transfer-Encoding: gzip, chunked", body=CHUNKED), 501),
    "identity then chunked": (
        post(HOST, "Transfer-Encoding: identity", "Transfer-Encoding: chunked", body=CHUNKED),
        501,
    ),
    "xchunked": (post(HOST, "Transfer-Encoding: xchunked", body=CHUNKED), 501),
    "identity": (post(HOST, "Transfer-Encoding: identity", body=CHUNKED), 501),
    "chunked twice": (post(HOST, "Transfer-Encoding: chunked, chunked", body=CHUNKED), 400),
    "chunked on 1.0": (post(HOST, "Transfer-Encoding: chunked", body=CHUNKED, version="HTTP/1.0"), 400),
    "folded header": (post(HOST, "X-A: b", " folded: c", LENGTH), 400),
    "blank before colon": (post(HOST, "Content-Length : 30"), 400),
    "bare LF": (b"POST /v1/chat/completions HTTP/1.1\nHost: a\n\n", 400),
    "NUL in value": (post(HOST, "X-A: a\0b", LENGTH), 400),
    "bad name": (post(HOST, "X A: b", LENGTH), 400),
    "chunk size in hex": (post(HOST, "Transfer-Encoding: chunked", body=b"0x1e\r\n" + BODY + b"\r\n0\r\n\r\n"), 400),
    "chunk end": (post(HOST, "Transfer-Encoding: chunked", body=b"1e\r\n" + BODY + b"xx0\r\n\r\n"), 400),
    "unknown method": (raw(f"FROB {PATH} HTTP/1.1", HOST), 400),
    "lower-case method": (raw(f"post {PATH} HTTP/1.1", HOST, LENGTH, body=BODY), 400),
    "tab separator": (raw(f"POST\t{PATH} HTTP/1.1", HOST, LENGTH, body=BODY), 400),
    "control byte in target": (post(HOST, LENGTH, target=f"{PATH}\x01"), 400),
    "non-ASCII target": (post(HOST, LENGTH, target=f"{PATH}\xff"), 400),
    "no host": (post(LENGTH), 400),
    "two hosts": (post(HOST, "Host: other", LENGTH), 400),
    "absolute form": (post(HOST, LENGTH, target=f"http://router{PATH}"), 400),
    "fragment": (post(HOST, LENGTH, target=f"{PATH}#x"), 400),
    "body on GET": (raw("GET /v1/models HTTP/1.1", HOST, LENGTH, body=BODY), 400),
    "HTTP/0.9": (post(HOST, LENGTH, version="HTTP/0.9"), 505),
    "HTTP/2.0": (post(HOST, LENGTH, version="HTTP/2.0"), 505),
    "RTSP/1.0": (post(HOST, LENGTH, version="RTSP/1.0"), 505),
    "RTSP/1.1": (post(HOST, LENGTH, version="RTSP/1.1"), 505),
    "RTSP on GET": (raw("GET /v1/models RTSP/1.0", HOST), 505),
    "ICE/1.0": (raw(f"SOURCE {PATH} ICE/1.0", HOST), 505),
    "RTSP and a wish for another protocol": (post(HOST, LENGTH, *upgrade(), version="RTSP/1.1"), 505),
    "CONNECT": (raw("CONNECT router:80 HTTP/1.1", HOST), 501),
    "compressed body": (post(HOST, LENGTH, "Content-Encoding: gzip"), 415),
    "upgrade that names the length": (post(HOST, LENGTH, *upgrade("Content-Length")), 200),
    "upgrade that names the coding": (
        post(HOST, "Transfer-Encoding: chunked", *upgrade("Transfer-Encoding"), body=CHUNKED),
        200,
    ),
    "upgrade that hides a body": (
        raw("GET /v1/models HTTP/1.1", HOST, LENGTH, *upgrade("Content-Length"), body=BODY),
        400,
    ),
    "upgrade that hides two hosts": (post(HOST, "Host: other", LENGTH, *upgrade("Host")), 400),
    "upgrade and two framings": (
        post(HOST, LENGTH, "Transfer-Encoding: chunked", *upgrade("Content-Length"), body=CHUNKED),
        400,
    ),
    "compressed behind identity": (post(HOST, LENGTH, "Content-Encoding: identity", "Content-Encoding: gzip"), 415),
    "length named": (post(HOST, LENGTH, "Connection: close, Content-Length"), 200),
    "coding named": (
        post(HOST, "Transfer-Encoding: chunked", "Connection: Transfer-Encoding, close", body=CHUNKED),
        200,
    ),
    "after close": (post(HOST, LENGTH, "Connection: close"), 200),
}
