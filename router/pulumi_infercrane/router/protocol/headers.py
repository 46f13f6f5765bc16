"""Which headers end at the router (RFC 9110 7.6.1, and what would let a client or an upstream speak for us)."""

from collections.abc import Iterable
from typing import NamedTuple


class Header(NamedTuple):
    """One header line. `key` is the lower-case name; `name` and `value` are the bytes as received."""

    key: bytes
    name: bytes
    value: bytes


HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"upgrade",
    }
)
OURS = b"x-infercrane-"
REVISION = b"x-infercrane-revision"


def named_in_connection(headers: Iterable[Header]) -> frozenset[bytes]:
    """Lower-case names that a Connection header declares to be hop-by-hop."""
    values = [header.value for header in headers if header.key == b"connection"]
    if not values:
        return frozenset()
    return frozenset(name.strip().lower() for value in values for name in value.split(b","))


def first(headers: Iterable[Header], key: bytes) -> bytes | None:
    """The first value under a lower-case name."""
    return next((header.value for header in headers if header.key == key), None)


def lines(headers: Iterable[Header]) -> bytes:
    """The headers in their order, each ended by CRLF."""
    return b"".join([b"%b: %b\r\n" % (header.name, header.value) for header in headers])
