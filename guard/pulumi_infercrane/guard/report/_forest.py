"""Every interval against its limit, on one scale: 0 is no change, 1 is the limit of that rule."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pulumi_infercrane.guard.report._common import NOTHING, Row, rows
from pulumi_infercrane.guard.report._elements import (
    SIGNS,
    box,
    drawing,
    figure,
    keys,
    label,
    line,
    name,
    placed,
    sign,
    text,
)

ROW_HEIGHT, AXIS_HEIGHT = 34, 30
_NEAR_THE_END = 94.0
_SAID = (
    "Each bar is the interval of a rule, on the scale of its own margin. A bar that ends left of the limit passes, one "
    "that lies wholly in the hatched part fails, one that crosses the limit decides nothing."
)


@dataclass(frozen=True)
class Used:
    """How much of its margin a rule uses: 0 is no change, 1 the limit. `lo` is the better end."""

    lo: float
    estimate: float
    hi: float


@dataclass(frozen=True)
class _Scale:
    left: float
    right: float

    def percent(self, value: float) -> float:
        inside = min(max(value, self.left), self.right)
        return 100 * (inside - self.left) / (self.right - self.left)

    def holds(self, value: float) -> bool:
        return self.left <= value <= self.right


def forest(record: Mapping[str, Any]) -> str:
    """The figure; empty when no rule has an interval."""
    found = [(row, margin_used(rule)) for rule, row in zip(record["rules"], rows(record), strict=True)]
    drawn = [used for _, used in found if used]
    if not drawn:
        return ""
    scale = _scale(drawn)
    body = "".join(_line(row, used, scale) for row, used in found)
    legend = keys(
        {
            "estimate in its interval": f'<line class="interval" x1="-16" x2="16"/>{SIGNS["pass"]}',
            "limit": '<line class="limit" y1="-10" y2="10"/>',
            "beyond the limit": '<rect x="-16" y="-8" width="32" height="16" fill="url(#hatch)"/>',
        }
    )
    return figure(
        "Intervals against limits", _SAID, legend, f'<div class="forest">{body}<div></div>{_axis(scale)}</div>'
    )


def margin_used(rule: Mapping[str, Any]) -> Used | None:
    """The interval in units of the margin; None without an interval, or when the limit allows no change at all."""
    if "lo" not in rule or "limit" not in rule:
        return None
    limit = float(rule["limit"])
    neutral = 1.0 if "ratio" in rule.get("method", "") else 0.0
    if limit == neutral:
        return None
    lo, estimate, hi = sorted((float(rule[name]) - neutral) / (limit - neutral) for name in ("lo", "estimate", "hi"))
    return Used(lo, estimate, hi)


def _scale(drawn: Sequence[Used]) -> _Scale:
    lowest = min((used.lo for used in drawn if math.isfinite(used.lo)), default=0.0)
    highest = max((used.hi for used in drawn if math.isfinite(used.hi)), default=1.0)
    return _Scale(max(-1.5, min(lowest - 0.1, -0.15)), min(3.0, max(highest + 0.1, 1.5)))


def _line(row: Row, used: Used | None, scale: _Scale) -> str:
    head = f'<div class="name">{sign(row.outcome)}<b>{name(row.rule)}</b> <span>{text(_beside(row))}</span></div>'
    if used is None:
        return f'{head}<p class="unplotted">{text(row.outcome)}: no interval on this scale</p>'
    title = f"{row.rule}: {row.outcome}"
    description = f"{row.figures}; the interval uses {used.lo:.0%} to {used.hi:.0%} of the margin"
    return head + drawing(title, description, ROW_HEIGHT, "".join(_marks(row, used, scale)), "plot row")


def _beside(row: Row) -> str:
    return row.code if row.interval == NOTHING else f"{row.estimate} {row.interval} against {row.limit}"


def _marks(row: Row, used: Used, scale: _Scale) -> Iterator[str]:
    limit = scale.percent(1)
    yield box(limit, 0, 100 - limit, 100, "beyond", "hatch")
    yield line(scale.percent(0), 0, scale.percent(0), 100, "neutral")
    yield line(limit, 0, limit, 100, "limit")
    yield line(scale.percent(used.lo), 50, scale.percent(used.hi), 50, "interval")
    for end in (used.lo, used.hi):
        yield placed(scale.percent(end), 50, _end(end, scale))
    inwards = _inwards(used, scale)
    shape = SIGNS.get(row.outcome, "")
    yield placed(
        scale.percent(used.estimate),
        50,
        f'<g class="{text(row.outcome)}" transform="translate({inwards},0)">{shape}</g>',
    )


def _end(end: float, scale: _Scale) -> str:
    """The end of an interval, or an arrow where it lies outside the scale."""
    if scale.holds(end):
        return '<line class="interval" y1="-6" y2="6"/>'
    return f'<path class="arrow" d="{"M7,-6 L0,0 L7,6" if end < scale.left else "M-7,-6 L0,0 L-7,6"}"/>'


def _inwards(used: Used, scale: _Scale) -> int:
    """Pixels that keep the estimate off the arrow of an end outside the scale."""
    place = scale.percent(used.estimate)
    if place > _NEAR_THE_END and not scale.holds(used.hi):
        return -20
    return 20 if place < 100 - _NEAR_THE_END and not scale.holds(used.lo) else 0


def _axis(scale: _Scale) -> str:
    neutral, limit = scale.percent(0), scale.percent(1)
    words = label(neutral, 0, "0, or no change", "tick", dy=16) + label(limit, 0, "limit", "tick", dy=16)
    return f'<svg class="plot axis" width="100%" height="{AXIS_HEIGHT}" aria-hidden="true">{words}</svg>'
