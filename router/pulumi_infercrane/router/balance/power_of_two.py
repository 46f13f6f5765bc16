"""Two replicas drawn by the request id, of which the one with fewer requests in flight answers.

Nearly as even as looking at all of them, and several routers that do not know of each other do not all run to the
same one.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING

from pulumi_infercrane.router.balance import Choose

if TYPE_CHECKING:
    from pulumi_infercrane.router.routing.routes import Endpoint


def chooser(endpoints: Sequence["Endpoint"]) -> Choose:
    """Draws without a random number: the same id draws the same two."""
    count = len(endpoints)
    if count == 1:
        return lambda _request_id, _body: endpoints[0]

    def choose(request_id: bytes, _body: bytes) -> "Endpoint":
        drawn = int.from_bytes(blake2b(request_id, digest_size=8).digest(), "big")
        first, step = drawn % count, drawn // count % (count - 1)
        one, other = endpoints[first], endpoints[(first + 1 + step) % count]
        return one if one.replica.inflight <= other.replica.inflight else other

    return choose
