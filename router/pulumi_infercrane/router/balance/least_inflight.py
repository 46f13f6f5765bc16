"""The replica that answers the fewest requests at this moment."""

from collections.abc import Sequence
from itertools import cycle
from typing import TYPE_CHECKING

from pulumi_infercrane.router.balance import Choose

if TYPE_CHECKING:
    from pulumi_infercrane.router.routing.routes import Endpoint


def chooser(endpoints: Sequence["Endpoint"]) -> Choose:
    """Looks at all of them; those that are equal take turns."""
    starts = cycle(range(len(endpoints)))

    def choose(_request_id: bytes, _body: bytes) -> "Endpoint":
        start = next(starts)
        return min((*endpoints[start:], *endpoints[:start]), key=_inflight)

    return choose


def _inflight(endpoint: "Endpoint") -> int:
    return endpoint.replica.inflight
