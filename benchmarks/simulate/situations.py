"""Situations whose truth is known, and what a measurement of each would see. Seconds, shares of 1."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Run:
    """One load run of one side: a time to first token per request, and which requests failed."""

    ttft_s: Floats
    failed: Bools


@dataclass(frozen=True)
class Load:
    """Load runs of both sides. The truth of the candidate differs from the baseline's by `slower` and `errors`."""

    n: int
    """Requests in a run."""
    sigma: float = 0.5
    """Of the logarithm of the time to first token."""
    slower: float = 1.0
    errors: tuple[float, float] = (0.0, 0.0)
    """Failed share of baseline and candidate."""
    noise: float = 0.0
    """Standard deviation of the logarithm of what a whole run is slower or faster by."""
    runs: int = 1
    rules: tuple[str, ...] = ()
    """Lines of the policy; empty for the default rules of the kind."""

    def draw(self, source: np.random.Generator) -> tuple[list[Run], list[Run]]:
        """Runs of baseline and candidate."""
        baseline = [self._run(source, 1.0, self.errors[0]) for _ in range(self.runs)]
        return baseline, [self._run(source, self.slower, self.errors[1]) for _ in range(self.runs)]

    def _run(self, source: np.random.Generator, slower: float, errors: float) -> Run:
        mean = np.log(0.05 * slower) + source.normal(0, self.noise)
        return Run(source.lognormal(mean, self.sigma, self.n), source.random(self.n) < errors)


@dataclass(frozen=True)
class Pairs:
    """Right and wrong answers of both sides to the same items."""

    n: int
    difference: float = 0.0
    """Of the candidate's share of right answers from the baseline's."""
    discordant: float = 0.02
    """Share of items only one side answers right."""
    accuracy: float = 0.8
    margin: float = 0.02

    def draw(self, source: np.random.Generator) -> tuple[Bools, Bools]:
        """Right answers of baseline and candidate."""
        lost, gained = (self.discordant - self.difference) / 2, (self.discordant + self.difference) / 2
        shares = [lost, gained, self.accuracy - lost, 1 - self.accuracy - gained]
        kinds: NDArray[Any] = source.choice(4, self.n, p=shares)
        return (kinds == 0) | (kinds == 2), (kinds == 1) | (kinds == 2)
