"""Latency of both sides: every quantile, with the judged ones, their intervals and the limit drawn on."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pulumi_infercrane.guard.judging.latency import pooled_seconds
from pulumi_infercrane.guard.judging.rule import Sides
from pulumi_infercrane.guard.report._common import NOTHING
from pulumi_infercrane.guard.report._elements import (
    ACTIVE,
    CANDIDATE,
    box,
    curve,
    drawing,
    figure,
    keys,
    label,
    line,
    outcome,
    percent,
    table,
    text,
)
from pulumi_infercrane.guard.statistics import Interval, quantile, quantile_interval

HEIGHT, POINTS, TICKS = 280, 160, 5
_JUDGED = re.compile(r"benchmark\.(ttft|tpot|e2e)_p(\d{1,4})")
_NAMES = {"ttft": "Time to first token", "tpot": "Time per output token", "e2e": "Duration of a request"}
_QUANTILES = (0.5, 0.9, 0.95, 0.99, 0.999)
_ENOUGH = 5
"""Requests beyond the last quantile that is drawn."""
_SAID = (
    "How long the given share of all requests took at most, failed ones counted as endless. Lower is better. The bar "
    "across a judged quantile is its limit; the uprights are 90 % intervals of each side alone."
)
_MARKS = {"active": ACTIVE, "candidate": CANDIDATE}
_NEVER = '<path class="{0} stroke" d="M0,18 V1 M-5,7 L0,1 L5,7"/><text class="tick" x="9" y="14">never</text>'
_KEYS = {
    "candidate": f'<line class="candidate stroke" x1="-18" x2="18"/>{CANDIDATE}',
    "active": f'<line class="active stroke" x1="-18" x2="18"/>{ACTIVE}',
    "limit": '<path class="limit" d="M-14,0 H14 M-14,-5 V5 M14,-5 V5"/>',
}


@dataclass(frozen=True)
class _Judged:
    """One judged quantile: the sides in seconds, and the highest the candidate's may be."""

    q: float
    outcome: str
    active: Interval
    candidate: Interval
    limit: float | None

    @property
    def seconds(self) -> Iterator[float]:
        yield from (self.active.hi, self.candidate.hi)
        if self.limit is not None:
            yield self.limit


@dataclass(frozen=True)
class _Frame:
    """Shares on a scale that gives every nine the same room; seconds linear from 0 to `top`."""

    last: float
    top: float

    def x(self, q: float) -> float:
        return 11 + 86 * _nines(q) / _nines(self.last)

    def y(self, seconds: float) -> float:
        return 100 * (1 - min(seconds, self.top) / self.top)

    def shown(self, seconds: float) -> str:
        if math.isinf(seconds):
            return "never"
        return f"{seconds * 1000:.3g} ms" if self.top < 2 else f"{seconds:.3g} s"


def draw(record: Mapping[str, Any], sides: Sides) -> Iterator[str]:
    """One figure per latency the policy judges."""
    for metric, rules in _by_metric(record).items():
        active, candidate = (pooled_seconds(side, f"{metric}_s") for side in (sides.baseline, sides.candidate))
        if active and candidate:
            yield _figure(metric, rules, active, candidate)


def _by_metric(record: Mapping[str, Any]) -> Mapping[str, list[tuple[float, Mapping[str, Any]]]]:
    found: dict[str, list[tuple[float, Mapping[str, Any]]]] = {}
    for rule in record["rules"]:
        if match := _JUDGED.fullmatch(rule["rule"]):
            found.setdefault(match[1], []).append((float(f"0.{match[2]}"), rule))
    return found


def _figure(
    metric: str,
    rules: Sequence[tuple[float, Mapping[str, Any]]],
    active: Sequence[float],
    candidate: Sequence[float],
) -> str:
    judged = [_judged(q, rule, active, candidate) for q, rule in sorted(rules, key=lambda pair: pair[0]) if q > 0]
    frame = _frame(judged, active, candidate)
    title = f"{_NAMES[metric]}, {len(candidate)} requests to the candidate and {len(active)} to the active revision"
    plot = drawing(title, _described(judged, frame), HEIGHT, "".join(_marks(judged, frame, active, candidate)))
    drawn = {name: mark for name, mark in _KEYS.items() if name != "limit" or any(one.limit for one in judged)}
    return figure(_NAMES[metric], _SAID, keys(drawn), plot, _axis(frame), _table(judged, frame, active, candidate))


def _judged(q: float, rule: Mapping[str, Any], active: Sequence[float], candidate: Sequence[float]) -> _Judged:
    below = quantile_interval(active, q)
    limit = below.estimate * float(rule["limit"]) if "limit" in rule and math.isfinite(below.estimate) else None
    return _Judged(q, rule["outcome"], below, quantile_interval(candidate, q), limit)


def _frame(judged: Sequence[_Judged], active: Sequence[float], candidate: Sequence[float]) -> _Frame:
    fewest = min(len(active), len(candidate))
    last = max([0.9, min(0.999, 1 - _ENOUGH / fewest), *(one.q for one in judged)])
    ends = [quantile(active, last), quantile(candidate, last), *(value for one in judged for value in one.seconds)]
    finite = [value for value in ends if math.isfinite(value)] or [
        value for value in (*active, *candidate) if math.isfinite(value)
    ]
    return _Frame(last, 1.1 * max(finite, default=1.0))


def _nines(q: float) -> float:
    return -math.log10(1 - q)


def _marks(
    judged: Sequence[_Judged], frame: _Frame, active: Sequence[float], candidate: Sequence[float]
) -> Iterator[str]:
    for seconds in _ticks(frame.top):
        yield line(0, frame.y(seconds), 100, frame.y(seconds), "grid")
        yield label(0, frame.y(seconds), frame.shown(seconds), "tick", dx=2, dy=-3)
    for one in judged:
        yield line(frame.x(one.q), 0, frame.x(one.q), 100, "judged")
    yield curve(_points(active, frame), "active stroke")
    yield curve(_points(candidate, frame), "candidate stroke")
    for one in judged:
        yield _uprights(one, frame)


def _ticks(top: float) -> Iterator[float]:
    """Round values up to `top`, about five of them."""
    rough = top / TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough)
    yield from (step * index for index in range(1, int(top / step) + 1))


def _points(ordered: Sequence[float], frame: _Frame) -> Iterator[tuple[float, float]]:
    for index in range(POINTS + 1):
        q = 1 - 10 ** (-_nines(frame.last) * index / POINTS)
        seconds = quantile(ordered, max(q, 1e-9))
        yield frame.x(q), frame.y(seconds)
        if seconds > frame.top:
            return


def _uprights(one: _Judged, frame: _Frame) -> str:
    """Both intervals side by side around their quantile, and the limit across them."""
    parts = [_upright("active", -8, one.active, frame), _upright("candidate", 8, one.candidate, frame)]
    if one.limit is not None:
        bar = '<path class="limit" d="M-18,0 H18 M-18,-5 V5 M18,-5 V5"/>'
        parts.append(f'<svg y="{percent(frame.y(one.limit))}" overflow="visible">{bar}</svg>')
    place = f'x="{percent(frame.x(one.q))}" width="100%" height="100%"'
    return f'<svg {place} overflow="visible">{"".join(parts)}</svg>'


def _upright(kind: str, x: int, side: Interval, frame: _Frame) -> str:
    ends = f'y1="{percent(frame.y(side.lo))}" y2="{percent(frame.y(side.hi))}"'
    place = f'x="{x}" y="{percent(frame.y(side.estimate))}"'
    mark = _NEVER.format(kind) if math.isinf(side.estimate) else _MARKS[kind]
    line = f'<line class="{kind} upright" x1="{x}" x2="{x}" {ends}/>'
    return f'{line}<svg {place} overflow="visible">{mark}</svg>'


def _axis(frame: _Frame) -> str:
    shown = [q for q in _QUANTILES if q <= frame.last]
    words = "".join(label(frame.x(q), 0, f"{100 * q:g} %", "tick", dy=15) for q in shown)
    ticks = "".join(box(frame.x(q), 0, 0.15, 15, "ticks") for q in shown)
    return f'<svg class="plot axis" width="100%" height="24" aria-hidden="true">{ticks}{words}</svg>'


def _described(judged: Sequence[_Judged], frame: _Frame) -> str:
    return "; ".join(_sentence(one, frame) for one in judged)


def _sentence(one: _Judged, frame: _Frame) -> str:
    limit = "no limit" if one.limit is None else f"limit {frame.shown(one.limit)}"
    sides = f"active {frame.shown(one.active.estimate)}, candidate {frame.shown(one.candidate.estimate)}"
    return f"p{100 * one.q:g}: {sides}, {limit}, {one.outcome}"


def _table(judged: Sequence[_Judged], frame: _Frame, active: Sequence[float], candidate: Sequence[float]) -> str:
    columns = ("quantile", "active", "candidate", "limit", "outcome")
    failed = [f"{sum(map(math.isinf, side))} of {len(side)}" for side in (active, candidate)]
    lines = [*(_line(one, frame) for one in judged), ("failed", *failed, NOTHING, NOTHING)]
    return table("Judged quantiles, and requests that failed", columns, lines)


def _line(one: _Judged, frame: _Frame) -> tuple[str, ...]:
    sides = [
        f"{frame.shown(s.estimate)} [{frame.shown(s.lo)}, {frame.shown(s.hi)}]" for s in (one.active, one.candidate)
    ]
    limit = NOTHING if one.limit is None else frame.shown(one.limit)
    return (f"p{100 * one.q:g}", *map(text, sides), text(limit), outcome(one.outcome))
