"""Durations counted in buckets, for Prometheus."""

from bisect import bisect_left
from itertools import accumulate

EDGES = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
"""Seconds: from what a router adds to what a long answer takes."""

_SHOWN = (*(f"{edge:g}" for edge in EDGES), "+Inf")


class Histogram:
    """`counts[i]` durations were at most `EDGES[i]` seconds, the last count lies beyond every edge."""

    __slots__ = ("counts", "sum")

    def __init__(self) -> None:
        self.counts = [0] * (len(EDGES) + 1)
        self.sum = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(EDGES, seconds)] += 1
        self.sum += seconds

    def add_together(self, seconds: float, count: int) -> None:
        """So many durations, at least one, of which only the sum is known: each counts as their mean."""
        self.counts[bisect_left(EDGES, seconds / count)] += count
        self.sum += seconds

    @property
    def count(self) -> int:
        return sum(self.counts)

    def cumulative(self) -> list[tuple[str, int]]:
        """Every edge as Prometheus writes it, and how many durations were at most that."""
        return list(zip(_SHOWN, accumulate(self.counts), strict=True))
