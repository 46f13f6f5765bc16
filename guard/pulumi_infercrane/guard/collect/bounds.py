"""How much a measurement may take: time, and money where a price file is given."""

import math
from dataclasses import dataclass
from pathlib import Path

from pulumi_infercrane.guard.collect.prices import load_prices
from pulumi_infercrane.guard.collect.target import CollectError, Target

SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """The part of every plan that bounds it."""

    max_seconds: float = 3600.0
    """For one call, both sides together."""
    max_cost: float | None = None
    """In the currency of the price file, for both sides and for all calls that one measurement takes."""
    prices: Path | None = None
    """A price file, see `prices.py`."""

    def __post_init__(self) -> None:
        if self.max_seconds <= 0 or (self.max_cost is not None and self.max_cost <= 0):
            raise CollectError("max_seconds and max_cost must be positive")
        if self.max_cost is not None and self.prices is None:
            raise CollectError("max_cost needs a price file: what does an hour cost?")


def paid_seconds(bounds: Bounds, *targets: Target) -> float:
    """How long `max_cost` pays for the targets, which all run all the time; infinite without such a bound.

    Raises:
        CollectError: when the price file is wrong or lacks a price.
    """
    if bounds.max_cost is None or bounds.prices is None:
        return math.inf
    prices = load_prices(bounds.prices)
    return bounds.max_cost / math.fsum(prices.per_hour(target) for target in targets) * SECONDS_PER_HOUR
