"""Header lines, and which of them end at the router (RFC 9110 7.6.1, and what lets others speak for us)."""

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
FRAMING = frozenset({b"content-length", b"transfer-encoding"})
"""What says where a body ends; whoever names it in Connection would have the next reader find another end."""
OURS = b"x-infercrane-"
REVISION = b"x-infercrane-revision"


Line = tuple[bytes, bytes, bytes]
"""The name in lower case, for look-up; name and value as received."""


def size_of(lines: list[Line]) -> int:
    """Bytes on the wire."""
    return sum(len(name) + len(value) + 4 for _, name, value in lines)


class Headers:
    """Header lines in their order, and the first value of each name. Names for look-up are lower-case."""

    __slots__ = ("_lines", "first")

    def __init__(self, lines: list[Line]) -> None:
        self._lines = lines
        self.first = {key: value for key, _, value in reversed(lines)}

    def all(self, key: bytes) -> list[bytes]:
        """Every value of a name."""
        return [value for found, _, value in self._lines if found == key]

    def repeated(self, key: bytes) -> bool:
        """Whether a name occurs more than once."""
        return len(self.first) < len(self._lines) and len(self.all(key)) > 1

    def lines_but(self, key: bytes) -> bytes:
        """The lines, each ended by CRLF, except those of one name."""
        return b"".join([b"%b: %b\r\n" % (name, value) for found, name, value in self._lines if found != key])

    def without(self, dropped: frozenset[bytes]) -> bytes:
        """The lines, each ended by CRLF, except the named ones, ours, and those of Connection but for the framing."""
        if b"connection" in self.first:
            names = {name.strip().lower() for value in self.all(b"connection") for name in value.split(b",")}
            dropped = dropped.union(names - FRAMING)
        return b"".join(
            [
                b"%b: %b\r\n" % (name, value)
                for key, name, value in self._lines
                if key not in dropped and not key.startswith(OURS)
            ]
        )
