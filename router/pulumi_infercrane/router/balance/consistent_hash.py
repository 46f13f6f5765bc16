"""Requests that begin alike go to the same replica, which has the beginning in its prefix cache.

A ring of hashes: a replica that leaves gives up only its own requests, one that comes takes only its share. Where
everybody begins alike (a system prompt) one replica would get everything: beyond a load of `BOUND` times the mean and
`SLACK` more, a request goes to the next one on the ring (consistent hashing with bounded loads).
"""

import re
from bisect import bisect
from collections.abc import Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING

from pulumi_infercrane.router.balance import Choose

if TYPE_CHECKING:
    from pulumi_infercrane.router.routing.routes import Endpoint

PREFIX = 1024
"""Bytes of the first message, as they stand in the body."""
POINTS = 64
"""Places of a replica on the ring."""
BOUND = 1.25
SLACK = 8
"""Requests in flight that make no replica too busy, however idle the others are."""

_begins = re.compile(rb'"(?:messages|prompt|input)"[ \t\r\n]*:').search


def chooser(endpoints: Sequence["Endpoint"]) -> Choose:
    """Places the replicas by their ids, when the first request comes."""
    places: list[tuple[int, int]] = []
    count = len(endpoints)

    def choose(_request_id: bytes, body: bytes) -> "Endpoint":
        if not places:
            places.extend(_ring(endpoints))
        start = bisect(places, (_hash(first_bytes(body)), count))
        most = SLACK + BOUND * sum(endpoint.replica.inflight for endpoint in endpoints) / count
        for step in range(len(places)):
            endpoint = endpoints[places[(start + step) % len(places)][1]]
            if endpoint.replica.inflight < most:
                return endpoint
        raise AssertionError("some replica is below the mean")

    return choose


def first_bytes(body: bytes) -> bytes:
    """What the request begins with: its first message, prompt or input."""
    found = _begins(body)
    start = found.end() if found else 0
    return body[start : start + PREFIX]


def _ring(endpoints: Sequence["Endpoint"]) -> list[tuple[int, int]]:
    points = ((_hash(b"%b#%d" % (e.id.encode(), n)), i) for i, e in enumerate(endpoints) for n in range(POINTS))
    return sorted(points)


def _hash(data: bytes) -> int:
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big")
