"""Requests of a load run while a reader fills them in, one by one, as columns.

A hundred thousand requests are nothing unusual: nothing but numbers is kept of them.
"""

import math
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from pulumi_infercrane.guard.evidence.records import Column, Requests
from pulumi_infercrane.guard.reasons import Inadmissible

FIGURES = ("ttft_s", "tpot_s", "e2e_s", "in_tokens", "out_tokens")
MAX_LATENCY_S = 600.0
TOLERATED_BAD_SHARE = 0.005

_LATENCIES = 3
_NOTHING = (math.nan,) * len(FIGURES)


@dataclass
class Rows:
    """Requests while they are added: rows of `FIGURES` one behind the other."""

    ok: bytearray = field(default_factory=bytearray)
    figures: Column = field(default_factory=lambda: array("d"))
    errors: Counter[str] = field(default_factory=Counter)

    def add(self, values: Sequence[float]) -> None:
        """A complete request: seconds and tokens in the order of `FIGURES`, NaN where it has no such figure.

        One with an impossible latency counts as failed, as `bad_value`.

        Raises:
            Inadmissible: `bad_value` when a number of tokens is negative.
        """
        for value in values[:_LATENCIES]:
            if value <= 0 or value > MAX_LATENCY_S:  # false for NaN
                return self.fail("bad_value")
        if values[-2] < 0 or values[-1] < 0:
            raise Inadmissible("bad_value", "a request has a negative number of tokens")
        self.ok.append(1)
        self.figures.extend(values)
        return None

    def fail(self, outcome: str) -> None:
        """A request without a complete answer, by class or status."""
        self.ok.append(0)
        self.errors[outcome] += 1
        self.figures.extend(_NOTHING)

    def requests(self) -> Requests:
        """All of them.

        Raises:
            Inadmissible: `bad_value` when more than a few latencies are impossible.
        """
        bad = self.errors["bad_value"]
        if bad > TOLERATED_BAD_SHARE * len(self.ok):
            text = f"{bad} of {len(self.ok)} complete requests have a latency outside 0 to {MAX_LATENCY_S:.0f} s"
            raise Inadmissible("bad_value", text)
        return Requests(bytes(self.ok), *(self.figures[index :: len(FIGURES)] for index in range(len(FIGURES))))


def tpot(ttft_s: float, e2e_s: float, out_tokens: float) -> float:
    """Seconds per output token after the first; NaN for an answer of one token."""
    return (e2e_s - ttft_s) / (out_tokens - 1) if out_tokens > 1 else math.nan


def mean(column: Column) -> float | None:
    """Over the requests that have the figure; None when none has."""
    known = [value for value in column if value == value]
    return math.fsum(known) / len(known) if known else None
