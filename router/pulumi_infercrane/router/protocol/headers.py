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
OURS = b"x-infercrane-"
REVISION = b"x-infercrane-revision"


class Headers:
    """Headers in their order, and the first value of each name. Names for look-up are lower-case."""

    __slots__ = ("_lines", "first", "repeated", "size")

    def __init__(self) -> None:
        self.first: dict[bytes, bytes] = {}
        self.repeated: set[bytes] = set()
        """Names that occur more than once."""
        self.size = 0
        """Bytes on the wire, about."""
        self._lines: list[tuple[bytes, bytes, bytes]] = []

    def __len__(self) -> int:
        return len(self._lines)

    def add(self, name: bytes, value: bytes) -> None:
        """Append one line as received."""
        key = name.lower()
        self.size += len(name) + len(value) + 4
        self._lines.append((key, name, value))
        if key in self.first:
            self.repeated.add(key)
        else:
            self.first[key] = value

    def all(self, key: bytes) -> list[bytes]:
        """Every value of a name."""
        return [value for name, _, value in self._lines if name == key]

    def without(self, dropped: frozenset[bytes]) -> bytes:
        """The lines, each ended by CRLF, except the named ones, those a Connection header names, and ours."""
        if b"connection" in self.first:
            dropped = dropped.union(
                name.strip().lower() for value in self.all(b"connection") for name in value.split(b",")
            )
        return b"".join(
            [
                b"%b: %b\r\n" % (name, value)
                for key, name, value in self._lines
                if key not in dropped and not key.startswith(OURS)
            ]
        )
