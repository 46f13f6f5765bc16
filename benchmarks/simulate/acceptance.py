"""The acceptance table: in which situations which verdict may come up how often."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from benchmarks.simulate.situations import Load, Pairs

Verdict = Literal["promote", "reject"]

PAST: dict[Verdict, str] = {"promote": "promoted", "reject": "rejected"}
P50, P95 = "id: benchmark.ttft_p50", "id: benchmark.ttft_p95"
ERRORS, MORE_ERRORS = "id: benchmark.error_fraction", "id: benchmark.error_fraction_difference"


@dataclass(frozen=True)
class Cell:
    """A situation, the verdict that is counted, and the largest share of draws that may get it; None = shown only."""

    group: str
    name: str
    situation: Load | Pairs
    counted: Verdict
    goal: float | None
    draws: int
    """The most that a cell of the same situation asks for are made."""


def cells() -> Iterator[Cell]:
    """The acceptance table: one cell a row."""
    yield from _identical()
    yield from _below_minimum()
    yield from _at_the_margin()
    yield from _regressions()
    yield from _errors()
    yield from _noise()
    yield from _quality()


def _identical() -> Iterator[Cell]:
    group = "Identical revisions"
    for n, draws in ((5, 1500), (20, 1500), (100, 1500), (500, 800), (1000, 600), (2000, 500)):
        for sigma in (0.3, 0.5):
            yield Cell(group, f"{n} requests, σ {sigma}: rejected", Load(n, sigma), "reject", 0.01, draws)
    for n, draws in ((100, 1500), (1000, 600)):
        same = Load(n, 0.5, errors=(0.002, 0.002))
        yield Cell(group, f"{n} requests, 0.2 % errors: rejected", same, "reject", 0.01, draws)
    for n in (500, 1000, 2000):
        for sigma in (0.3, 0.5):
            yield Cell(group, f"{n} requests, σ {sigma}: promoted", Load(n, sigma), "promote", None, 1)


def _below_minimum() -> Iterator[Cell]:
    for slower in (1.0, 1.3):
        for counted in PAST:
            name = f"150 requests, TTFT × {slower}: {PAST[counted]}"
            few = Load(150, slower=slower, rules=(P95,))
            yield Cell("Below the minimum of the p95 rule", name, few, counted, 0.0, 1000)


def _at_the_margin() -> Iterator[Cell]:
    group = "True value exactly at the margin: promoted"
    for n, sigma, draws in ((1000, 0.3, 2000), (1000, 0.5, 2000), (2000, 0.3, 1500), (2000, 0.5, 1500)):
        at = Load(n, sigma, slower=1.15, rules=(P95,))
        yield Cell(group, f"TTFT p95 × 1.15, {n} requests, σ {sigma}", at, "promote", 0.07, draws)
    for n in (500, 1000):
        at = Load(n, 0.5, slower=1.10, rules=(P50,))
        yield Cell(group, f"TTFT p50 × 1.10, {n} requests, σ 0.5", at, "promote", 0.07, 1500)
    for n in (299, 1000, 2070):
        at_limit = Load(n, errors=(0.01, 0.01), rules=(ERRORS,))
        yield Cell(group, f"1 % errors, limit 1 %, {n} requests", at_limit, "promote", 0.05, 3000)
    more = Load(2000, errors=(0.005, 0.010), rules=(MORE_ERRORS,))
    yield Cell(group, "0.5 % more errors, margin 0.5 %, 2000 requests", more, "promote", 0.05, 3000)
    for n, discordant in ((300, 0.02), (300, 0.05), (312, 0.02), (1000, 0.02), (1000, 0.05), (1000, 0.10)):
        pairs = Pairs(n, -0.02, discordant)
        name = f"quality −2 points, {n} pairs, {100 * discordant:g} % discordant"
        yield Cell(group, name, pairs, "promote", 0.06, 2000)
    at = Pairs(331, -0.01, 0.01, margin=0.01)
    yield Cell(group, "quality −1 point, margin 1 point, 331 pairs, 1 % discordant", at, "promote", 0.06, 2000)


def _regressions() -> Iterator[Cell]:
    group = "True regression: promoted"
    for n, draws in ((20, 1500), (100, 1500), (500, 800), (1000, 600), (2000, 600)):
        for sigma in (0.3, 0.5):
            worse = Load(n, sigma, slower=1.3)
            yield Cell(group, f"TTFT × 1.3, {n} requests, σ {sigma}", worse, "promote", 0.01, draws)
    for n in (300, 1000):
        yield Cell(group, f"quality −5 points, {n} pairs, 7 % discordant", Pairs(n, -0.05, 0.07), "promote", 0.01, 1500)


def _errors() -> Iterator[Cell]:
    only = (ERRORS, MORE_ERRORS)
    for n in (20, 100, 1000, 2000):
        equal = Load(n, errors=(0.01, 0.01), rules=only)
        yield Cell("Errors", f"1 % on both sides, {n} requests: rejected", equal, "reject", 0.05, 2000)
    for n in (20, 100, 300, 1000):
        worse = Load(n, errors=(0.01, 0.03), rules=only)
        yield Cell("Errors", f"3 % against 1 %, {n} requests: promoted", worse, "promote", 0.05, 2000)


def _noise() -> Iterator[Cell]:
    group = "5 % noise between runs of 2000 requests"
    asked: tuple[tuple[float, Verdict, float | None], ...]
    asked = (1.0, "reject", 0.01), (1.0, "promote", None), (1.15, "promote", 0.07)
    for runs, how in ((1, "one run"), (3, "3 runs in pairs"), (5, "5 runs in pairs")):
        for slower, counted, goal in asked:
            situation = Load(2000, 0.3, slower, noise=0.05, runs=runs, rules=(P95,))
            truth = "identical" if slower == 1 else "TTFT p95 at the margin"
            draws = 400 if runs > 1 else 1000
            yield Cell(group, f"{truth}, {how}: {PAST[counted]}", situation, counted, goal, draws)


def _quality() -> Iterator[Cell]:
    for n in (300, 1000):
        same = Pairs(n, 0.0, 0.02)
        yield Cell("Identical quality", f"{n} pairs, 2 % discordant: rejected", same, "reject", 0.01, 1500)
        yield Cell("Identical quality", f"{n} pairs, 2 % discordant: promoted", same, "promote", None, 1500)
