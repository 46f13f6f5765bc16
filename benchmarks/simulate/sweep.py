"""What both guards say, share by share, over many draws of a situation."""

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.simulate import ours, peer
from benchmarks.simulate.acceptance import Cell
from benchmarks.simulate.situations import Load, Pairs


@dataclass(frozen=True)
class Row:
    """Shares of draws with the counted verdict, 0..1. The goal is for ours."""

    group: str
    metric: str
    ours: float
    peer: float
    goal: float | None
    draws: int

    @property
    def ratio(self) -> float | None:
        return self.ours / self.peer if self.peer else None

    @property
    def error(self) -> float:
        """Standard error of ours: of the true share where none was counted, of one count in its place."""
        share = max(self.ours, 1 / self.draws)
        return math.sqrt(share * (1 - share) / self.draws)

    @property
    def holds(self) -> bool | None:
        """Not beyond the goal by more than chance: two standard errors."""
        return None if self.goal is None else self.ours <= self.goal + 2 * self.error


def rows(chosen: Sequence[Cell], scale: float = 1.0) -> Iterator[Row]:
    """The measured rows, one after the other; `scale` shortens or lengthens every cell.

    Both guards see the same draws, and cells of one situation share them.
    """
    seen: dict[Load | Pairs, list[tuple[str, str]]] = {}
    for cell in chosen:
        if cell.situation not in seen:
            draws = max(other.draws for other in chosen if other.situation == cell.situation)
            seen[cell.situation] = _verdicts(cell, max(1, round(scale * draws)))
        found = seen[cell.situation]
        mine, theirs = (sum(one[side] == cell.counted for one in found) / len(found) for side in (0, 1))
        yield Row(cell.group, cell.name, mine, theirs, cell.goal, len(found))


def _verdicts(cell: Cell, draws: int) -> list[tuple[str, str]]:
    key = hashlib.sha256(repr(cell.situation).encode()).digest()
    source = np.random.default_rng(int.from_bytes(key[:8], "big"))
    return [_verdict(cell, source) for _ in range(draws)]


def _verdict(cell: Cell, source: np.random.Generator) -> tuple[str, str]:
    if isinstance(cell.situation, Pairs):
        right = cell.situation.draw(source)
        return ours.of_pairs(cell.situation, *right), peer.of_pairs(cell.situation, *right)
    drawn = cell.situation.draw(source)
    return ours.of_load(cell.situation, *drawn), peer.of_load(cell.situation, *drawn)
