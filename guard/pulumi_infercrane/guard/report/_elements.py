"""Pieces of the HTML report: escaped text, tables that stack on a narrow screen, and SVG that scales with its place.

Drawings place everything in percent of their width and height and write text at its own size, so a picture is as
readable at 400 pixels as at 1,200. Each has a title and a description for those who do not see it.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from pulumi_infercrane.guard.printable import one_line
from pulumi_infercrane.guard.report._common import NOTHING

DEFINITIONS = (
    '<svg class="definitions" aria-hidden="true" focusable="false" width="0" height="0"><defs>'
    '<pattern id="hatch" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<line class="hatching" x1="0" y1="0" x2="0" y2="7"/></pattern>'
    '<pattern id="dots" width="8" height="8" patternUnits="userSpaceOnUse"><circle class="dot" cx="4" cy="4" r="1.8"/>'
    "</pattern></defs></svg>"
)
"""Patterns the drawings fill with; once per page."""

SIGNS = {
    "pass": '<circle r="8"/><path class="cut" d="M-4,0 L-1,3.5 L4.5,-3.5"/>',
    "fail": '<path d="M-4,-9 H4 L9,-4 V4 L4,9 H-4 L-9,4 V-4 Z"/><path class="cut" d="M-4,-4 L4,4 M4,-4 L-4,4"/>',
    "unknown": '<path d="M0,-10 L10,0 L0,10 L-10,0 Z"/><path class="cut" d="M-2.6,-2.6 C-2.6,-6 3,-6 2.6,-2.4 '
    'C2.4,-0.8 0,-0.6 0,1.6 M0,4.4 V4.8"/>',
    "waived": '<path d="M0,-9 L10,8 H-10 Z"/><path class="cut" d="M0,-4 V2 M0,5 V5.4"/>',
}
"""Outcomes by shape: circle, octagon, diamond, triangle. Nothing is told by colour alone."""

CANDIDATE = '<path class="candidate mark" d="M0,-6 L6,0 L0,6 L-6,0 Z"/>'
ACTIVE = '<circle class="active mark" r="5"/>'


def text(value: object) -> str:
    """Text that stays text, in elements and in attributes."""
    return escape(one_line(value))


def whole(value: object) -> str:
    """Text that is not broken between lines: a figure, a digest, a time."""
    return f'<span class="whole">{text(value)}</span>'


def name(value: object) -> str:
    """The id of a rule, broken between lines only where its parts meet."""
    return text(value).replace(".", ".<wbr>").replace("_", "_<wbr>")


def outcome(value: str) -> str:
    """An outcome by shape and word."""
    return f'<span class="outcome">{sign(value)}{text(value)}</span>'


def sign(outcome: str) -> str:
    """The shape of an outcome; other outcomes have none."""
    shape = SIGNS.get(outcome, "")
    if not shape:
        return ""
    return f'<svg class="sign {outcome}" viewBox="-11 -11 22 22" aria-hidden="true">{shape}</svg>'


def table(caption: str, columns: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table of cells that are HTML already; the first cell of a line heads it.

    Roles are written out, because a table that is laid out as blocks is no table to a screen reader any more.
    """
    head = "".join(f'<th scope="col" role="columnheader">{text(column)}</th>' for column in columns)
    body = "".join(f'<tr role="row">{_line(columns, cells)}</tr>' for cells in lines)
    parts = f'<thead role="rowgroup"><tr role="row">{head}</tr></thead><tbody role="rowgroup">{body}</tbody>'
    return f'<table role="table"><caption>{text(caption)}</caption>{parts}</table>'


def _line(columns: Sequence[str], cells: Sequence[str]) -> str:
    rest = "".join(_cell(column, cell) for column, cell in zip(columns[1:], cells[1:], strict=True))
    return f'<th scope="row" role="rowheader">{cells[0]}</th>{rest}'


def _cell(column: str, cell: str) -> str:
    kind = ' class="nothing"' if cell in (NOTHING, whole(NOTHING)) else ""
    return f'<td role="cell"{kind} data-label="{text(column)}">{cell}</td>'


def drawing(title: str, description: str, height: int, body: str, kind: str = "plot") -> str:
    """An SVG as wide as its place and `height` pixels high."""
    name = "d" + hashlib.sha256(f"{title}\n{description}\n{body}".encode()).hexdigest()[:12]
    return (
        f'<svg class="{kind}" role="img" width="100%" height="{height}" aria-labelledby="{name}-t {name}-d">'
        f'<title id="{name}-t">{text(title)}</title><desc id="{name}-d">{text(description)}</desc>{body}</svg>'
    )


def placed(x: float, y: float, body: str) -> str:
    """A body around the origin, moved to a point in percent."""
    return f'<svg x="{percent(x)}" y="{percent(y)}" overflow="visible">{body}</svg>'


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    """A line between two points in percent."""
    return f'<line class="{kind}" x1="{percent(x1)}" y1="{percent(y1)}" x2="{percent(x2)}" y2="{percent(y2)}"/>'


def box(x: float, y: float, width: float, height: float, kind: str, fill: str = "") -> str:
    """A rectangle in percent; `fill` names a pattern of `DEFINITIONS` to lay over it."""
    place = f'x="{percent(x)}" y="{percent(y)}" width="{percent(width)}" height="{percent(height)}"'
    pattern = f'<rect {place} fill="url(#{fill})"/>' if fill else ""
    return f'<rect class="{kind}" {place}/>{pattern}'


def label(x: float, y: float, value: str, kind: str = "", dx: float = 0, dy: float = 0) -> str:
    """Text beside a point in percent, moved by pixels; it never leaves the drawing to the left or right."""
    anchor = "start" if x < 6 else "end" if x > 94 else "middle"
    move = f' dx="{dx:g}" dy="{dy:g}"' if dx or dy else ""
    kind = f' class="{kind}"' if kind else ""
    return f'<text{kind} x="{percent(x)}" y="{percent(y)}"{move} text-anchor="{anchor}">{text(value)}</text>'


def curve(points: Iterable[tuple[float, float]], kind: str) -> str:
    """A line through points in percent; its stroke keeps its width however the drawing is stretched."""
    path = " ".join(f"{x:.2f},{y:.2f}" for x, y in points)
    return (
        '<svg viewBox="0 0 100 100" preserveAspectRatio="none" width="100%" height="100%">'
        f'<polyline class="{kind}" points="{path}" vector-effect="non-scaling-stroke"/></svg>'
    )


def keys(entries: Mapping[str, str]) -> str:
    """The legend: what each mark means."""
    shown = (
        f'<li><svg class="key" viewBox="-18 -10 36 20" aria-hidden="true">{mark}</svg>{text(name)}</li>'
        for name, mark in entries.items()
    )
    return f'<ul class="keys">{"".join(shown)}</ul>'


def figure(title: str, said: str, *parts: str) -> str:
    """A drawing with its heading and the sentence that says how to read it; `parts` are HTML already."""
    return f"<figure><figcaption><h3>{text(title)}</h3><p>{text(said)}</p></figcaption>{''.join(parts)}</figure>"


def percent(value: float) -> str:
    return f"{value:.2f}%"
