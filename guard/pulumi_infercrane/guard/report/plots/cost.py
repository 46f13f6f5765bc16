"""What the output tokens of both sides cost."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pulumi_infercrane.guard.judging.rule import Member, Sides
from pulumi_infercrane.guard.report._elements import box, drawing, figure, label, table, text

HEIGHT = 96
_SAID = "Price of a million output tokens over the measured window, idle time as the price source counts it."


@dataclass(frozen=True)
class _Cost:
    """One side: pooled cost over pooled output, in `currency`."""

    side: str
    currency: str
    per_million: float
    tokens: int
    prices: str


def draw(record: Mapping[str, Any], sides: Sides) -> Iterator[str]:
    """One figure when either side has a complete cost."""
    found = [cost for name, side in _named(sides) if (cost := _pooled(name, side))]
    if found:
        currency = found[0].currency
        yield figure(f"Cost in {currency}", _SAID, _bars(found), _table(found))


def _named(sides: Sides) -> Iterator[tuple[str, Sequence[Member]]]:
    yield "active", sides.baseline
    yield "candidate", sides.candidate


def _pooled(side: str, members: Sequence[Member]) -> _Cost | None:
    records = [member.record for member in members if member.record.per_million_output_tokens is not None]
    if not records or len({record.currency for record in records}) > 1:
        return None
    tokens = sum(record.output_tokens for record in records)
    spent = math.fsum(record.gpu_cost + record.other_cost for record in records)
    prices = ", ".join(sorted({f"{record.price_source} {record.price_date}".strip() for record in records}))
    return _Cost(side, records[0].currency, spent / tokens * 1e6, tokens, prices)


def _bars(found: Sequence[_Cost]) -> str:
    most = max(cost.per_million for cost in found) or 1.0
    height = 100 / len(found)
    body = "".join(_bar(cost, index * height, height, most) for index, cost in enumerate(found))
    description = "; ".join(f"{cost.side} {cost.per_million:.3g} {cost.currency}" for cost in found)
    return drawing("Cost of a million output tokens", description, HEIGHT, body)


def _bar(cost: _Cost, top: float, height: float, most: float) -> str:
    pattern = "" if cost.side == "active" else "dots"
    said = f"{cost.side}: {cost.per_million:.3g} {cost.currency}"
    bar = box(0, top + height * 0.45, 100 * cost.per_million / most, height * 0.5, f"cost {cost.side}", pattern)
    return bar + label(0, top + height * 0.35, said, "count")


def _table(found: Sequence[_Cost]) -> str:
    lines = [
        (text(cost.side), text(f"{cost.per_million:.4g} {cost.currency}"), text(f"{cost.tokens:,}"), text(cost.prices))
        for cost in found
    ]
    return table("Cost", ("side", "per million output tokens", "output tokens", "prices"), lines)
