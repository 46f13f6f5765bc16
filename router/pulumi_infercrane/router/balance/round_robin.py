"""One after the other."""

from collections.abc import Sequence
from itertools import cycle
from typing import TYPE_CHECKING

from pulumi_infercrane.router.balance import Choose

if TYPE_CHECKING:
    from pulumi_infercrane.router.routing.routes import Endpoint


def chooser(endpoints: Sequence["Endpoint"]) -> Choose:
    """Takes turns."""
    turns = cycle(endpoints)
    return lambda _request_id, _body: next(turns)
