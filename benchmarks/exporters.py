"""Flips of exported proxies under load: what failed, how long they took, what the old revision still answered.

.venv/bin/python -m benchmarks.exporters, which rewrites the table of docs/exporters.md. About a minute.
"""

import asyncio
import statistics
import tempfile
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic

from pulumi_infercrane.components.supervision.ports import free_port
from pulumi_infercrane.router.export._deliver import deliver
from pulumi_infercrane.router.export._place import Place, read_place
from pulumi_infercrane.router.tables.table import RouteTable
from tests.router.conftest import R1, R2, revision
from tests.router.export.conftest import table_of
from tests.router.export.load import Load, load, speak
from tests.router.export.proxies import PROGRAMS, running
from tests.router.upstream import Upstream

PAGE = Path(__file__).parents[1] / "docs" / "exporters.md"
BEGIN, END = "<!-- measured: flips -->\n", "<!-- end -->\n"
CHANGES, BETWEEN_S, LOOK_S = 10, 0.5, 0.3

Next = Callable[[RouteTable, int], RouteTable]


@dataclass
class Series:
    """Changes of one kind on one proxy, and the load meanwhile."""

    load: Load
    took_s: list[float] = field(default_factory=list)
    applied: list[tuple[float, str]] = field(default_factory=list)

    def old(self) -> int:
        """Requests sent soon after a change was applied, and answered by another revision all the same."""
        return sum(
            moment < one.began < moment + LOOK_S and one.revision != active
            for one in self.load.done
            for moment, active in self.applied
        )


def main() -> None:
    rows = ["| | failed, of | applied, median | old answers |\n", "|---|---|---|---|\n"]
    for target in sorted(PROGRAMS):
        for what, after in (("flip", flipped), ("flip to a new revision", renewed)):
            series = asyncio.run(measure(target, after))
            median = statistics.median(series.took_s) * 1000
            count = len(series.load.done) + len(series.load.failed)
            rows.append(
                f"| {target}: {what} | {len(series.load.failed)} of {count:,} | {median:.0f} ms | {series.old()} |\n"
            )
            print(rows[-1], end="", flush=True)
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(before + BEGIN + "".join(rows) + END + rest.partition(END)[2], encoding="utf-8")


def flipped(table: RouteTable, number: int) -> RouteTable:
    return replace(table, generation=table.generation + 1, active=(R2, R1)[number % 2])


def renewed(table: RouteTable, number: int) -> RouteTable:
    """The revision that becomes active changed its label as well: to a proxy it is a new one."""
    following = flipped(table, number)
    revisions = dict(table.declared.revisions)
    revisions[following.active] = replace(revisions[following.active], label=f"again-{number}")
    return replace(following, declared=replace(table.declared, revisions=revisions))


async def measure(target: str, after: Next) -> Series:
    async with AsyncExitStack() as closing:
        upstreams = [Upstream(), Upstream()]
        for upstream, name in zip(upstreams, ("r1", "r2"), strict=True):
            await upstream.start()
            closing.push_async_callback(upstream.stop)
            speak(upstream, name)
        folder = closing.enter_context(tempfile.TemporaryDirectory(prefix="icx"))
        place = read_place(Path(folder) / target, f"127.0.0.1:{free_port()}")
        table = table_of({R1: revision("r1", upstreams[0].url), R2: revision("r2", upstreams[1].url)}, R1)
        deliver(target, table, place)
        closing.enter_context(running(target, place))
        return await change_under_load(target, table, place, after)


async def change_under_load(target: str, table: RouteTable, place: Place, after: Next) -> Series:
    async with load(place.listen.port) as found:
        series = Series(found)
        for number in range(CHANGES):
            await asyncio.sleep(BETWEEN_S)
            table, began = after(table, number), monotonic()
            await asyncio.to_thread(deliver, target, table, place)
            series.took_s.append(monotonic() - began)
            series.applied.append((monotonic(), table.active))
        await asyncio.sleep(BETWEEN_S)
    return series


if __name__ == "__main__":
    main()
