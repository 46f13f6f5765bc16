"""Which requests fall into a share: by a hash of what identifies them, the same in every router and at every time."""

from hashlib import blake2b

from pulumi_infercrane.router.tables.table import WHOLE


class Share:
    """A part of all requests. Of two shares with one name the larger contains the smaller."""

    __slots__ = ("_hasher", "_rest")

    def __init__(self, name: str, percent: int) -> None:
        """`name` tells one share from another of the same size; for a canary step it is the candidate's digest."""
        self._hasher = blake2b(name.encode(), digest_size=8)
        self._rest = WHOLE - percent

    def takes(self, key: bytes) -> bool:
        """Whether a request with this id, or of this session, belongs to the share."""
        hasher = self._hasher.copy()
        hasher.update(key)
        return int.from_bytes(hasher.digest(), "big") % WHOLE >= self._rest
