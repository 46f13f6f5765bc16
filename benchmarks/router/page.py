"""The tables of `docs/performance.md` made from the cells of the last run that was written."""

import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.router.goals import rows
from benchmarks.router.plan import BARE, DIRECT, FEW, FEW_STREAMS, OURS, QUIET_CORES, STREAM, WHOLE
from benchmarks.router.report import Report, read
from benchmarks.rows import Row

PAGE = Path(__file__).parents[2] / "docs" / "performance.md"
BEGIN, END = "<!-- measured: router -->\n", "<!-- end -->\n"
HOLDS = {True: "yes", False: "**no**", None: ""}


def write(report: Report) -> None:
    PAGE.write_text(render(PAGE.read_text(), report))


def render(page: str, report: Report) -> str:
    """The page with its tables made anew.

    Raises:
        ValueError: when a marker is missing.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{PAGE}: the markers of the tables are missing")
    return before + BEGIN + "\n".join([_said(report), _side_by_side(report), _bars(rows(report))]) + END + after


def _said(report: Report) -> str:
    """Where, when, how long, and how far it is to be believed."""
    plan, foreign = report.plan, report.foreign_cores()
    lines = [f"{report.machine}; {report.date}; medians of {plan.rounds} × {plan.measure_s:g} s."]
    if foreign > QUIET_CORES:
        lines.append(
            f"**Others used the machine meanwhile, up to {foreign:.1f} cores: not the figures of a quiet one.**"
        )
    else:
        lines.append(f"Others used at most {foreign:.2f} cores meanwhile.")
    if report.left_out:
        lines.append(f"Left out, since it could not be started or measured: {', '.join(report.left_out)}.")
    return "\n".join(lines) + "\n"


def _side_by_side(report: Report) -> str:
    """A row for each data plane, and how much of its CPU ours takes, all on."""
    head = ["", "CPU per event, µs", "ours ÷", f"… {FEW_STREAMS} streams, µs", "ours ÷", "CPU per small request, µs"]
    head += ["ours ÷", "events per second", "first event, ms", "an event's delay, ms", "MiB", "broken", "others, cores"]
    names = (OURS, BARE, *report.plan.peers, DIRECT)
    return _table(head, [_plane(report, name) for name in names if name in report.cells])


def _plane(report: Report, name: str) -> Sequence[str]:
    cells = [cell for kind in (STREAM, FEW, WHOLE) for cell in report.cells[name].get(kind, [])]
    cpu = [text for kind in (STREAM, FEW, WHOLE) for text in _cpu(report, name, kind)]
    delays = [_both(report, name, "ttft_ms", "ttft_p99_ms"), _both(report, name, "delay_ms", "delay_p99_ms")]
    memory = "" if name == DIRECT else _figure(report.median(name, STREAM, "memory_mib"))
    broken, foreign = sum(cell.broken for cell in cells), max(cell.foreign_cores for cell in cells)
    rate = _figure(report.median(name, STREAM, "per_s"))
    return [
        f"{name} {report.versions.get(name, '')}".strip(),
        *cpu,
        rate,
        *delays,
        memory,
        str(broken),
        f"{foreign:.2f}",
    ]


def _cpu(report: Report, name: str, kind: str) -> tuple[str, str]:
    """The median with the smallest and the largest, and the part that ours takes."""
    found, ours = report.figures(name, kind, "cpu_us"), report.median(OURS, kind, "cpu_us")
    if not found or name == DIRECT:
        return "", ""
    median = statistics.median(found)
    spread = f" ({_figure(min(found))} to {_figure(max(found))})" if len(found) > 1 else ""
    return _figure(median) + spread, "" if ours is None or name == OURS else _figure(ours / median)


def _both(report: Report, name: str, middle: str, p99: str) -> str:
    if not report.figures(name, STREAM, middle):
        return ""
    return f"{_figure(report.median(name, STREAM, middle))}, p99 {_figure(report.median(name, STREAM, p99))}"


def _bars(found: Iterable[Row]) -> str:
    lines = [
        (_plain(row.metric), *map(_figure, (row.ours, row.peer, row.ratio, row.goal)), HOLDS[row.holds])
        for row in found
        if row.goal is not None
    ]
    return _table(["", "ours, all on", "beside", "ratio", "bar", "holds"], lines)


def _plain(metric: str) -> str:
    return metric.replace(" us", " µs")


def _figure(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(line)} |\n" for line in [head, ["---"] * len(head), *lines])


if __name__ == "__main__":
    write(read())  # after the words of a table changed
