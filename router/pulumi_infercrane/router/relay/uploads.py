"""How much of bodies that are still coming is held, by all connections together."""

from pulumi_infercrane.router.errors import RequestRefused

SMALL = 64 * 1024
"""Bytes of a body that never count, so that those who send much keep nobody from sending little."""
MOST = 256 * 1024 * 1024
LARGEST_BODIES = 4
"""At least so many of the largest size can come at once."""


class Uploads:
    """Of one process; `largest` is the most bytes that a body may have."""

    def __init__(self, largest: int) -> None:
        self.held = 0
        """Bytes."""
        self._most = max(MOST, LARGEST_BODIES * largest)

    def hold(self, held: int, arrived: int) -> int:
        """What a connection holds, now that so many bytes of a body have arrived; `held` is what it held before.

        Raises:
            RequestRefused: 503; it still holds what it held.
        """
        wanted = max(0, arrived - SMALL)
        if wanted > held and self.held + wanted - held > self._most:
            message = "too many large bodies are coming at once"
            raise RequestRefused(503, "overloaded", message, close=True, retry_after_s=1, reason="uploads")
        self.held += wanted - held
        return wanted
