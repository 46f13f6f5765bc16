"""Round after round, every data plane after the other."""

import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from benchmarks.router.load import Stand, measure, quietest, stand
from benchmarks.router.plan import MANY, MEMORY, OURS, WORKERS, Cell, Failed, Load, Plan
from benchmarks.router.proxies import PEERS, TOOL_CORES, WORKER_TOOL_CORES, DataPlane, data_planes
from benchmarks.router.report import Report, machine, today
from tests.programs import ProgramMissing
from tests.runtimes.downloads import PrepareError

MANY_STREAMS = 10_000
UNAVAILABLE = (Failed, PrepareError, ProgramMissing, subprocess.CalledProcessError, OSError, TimeoutError)

Found = dict[str, dict[str, list[Cell]]]


def run(plan: Plan) -> Report:
    """A peer that cannot be installed, started or measured is a printed line, and none of its cells stays."""
    planes, found = data_planes(plan.peers), Found()
    with ExitStack() as stack:
        apart = stack.enter_context(stand(TOOL_CORES))
        beside = stack.enter_context(stand(WORKER_TOOL_CORES, resting=True))
        for number in range(plan.rounds):
            for name in list(planes):
                print(f"round {number + 1} of {plan.rounds}: {name}", file=sys.stderr, flush=True)
                on = beside if WORKERS in planes[name].kinds else apart
                if not _taken(name, planes[name], on, plan, found):
                    del planes[name]
    many = _many_streams()
    found[OURS][MANY] = [_memory_of(many)]
    left_out = tuple(name for name in plan.peers if name not in found)
    versions = {name: PEERS[name].version() for name in plan.peers if name in found}
    return Report(machine(), today(), plan, versions, left_out, many, found)


def _taken(name: str, plane: DataPlane, on: Stand, plan: Plan, found: Found) -> bool:
    """Whether it took part in this round. Ours has to."""
    try:
        cells = _round(plane, on, plan)
    except UNAVAILABLE as error:
        if name not in PEERS:
            raise
        print(f"{name}: left out: {error}", file=sys.stderr)
        found.pop(name, None)
        return False
    for kind, cell in cells.items():
        if cell.broken:
            print(f"{name}: {kind}: {cell.broken} broke", file=sys.stderr, flush=True)
        found.setdefault(name, {}).setdefault(kind, []).append(cell)
    return True


def _round(plane: DataPlane, on: Stand, plan: Plan) -> dict[str, Cell]:
    loads = plan.loads()
    with tempfile.TemporaryDirectory(prefix="icb") as folder, plane.start(Path(folder), on.upstream.port) as proxy:

        def measured(load: Load) -> Callable[[], Cell]:
            return lambda: measure(proxy, on, load)

        return {
            kind: measured(loads[kind])() if kind == MEMORY else quietest(measured(loads[kind])) for kind in plane.kinds
        }


def _many_streams() -> int:
    """A stream takes two open files, and the router keeps some for itself."""
    return min(MANY_STREAMS, resource.getrlimit(resource.RLIMIT_NOFILE)[1] // 2 - 200)


def _memory_of(streams: int) -> Cell:
    """Once, with few events per stream: what they cost is measured elsewhere."""
    print(f"memory with {streams} streams", file=sys.stderr, flush=True)
    ours, load = data_planes(())[OURS], Load(streams, "stream", 12, 2)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="icb")))
        on = stack.enter_context(stand(TOOL_CORES, 20, 1_000_000))
        return measure(stack.enter_context(ours.start(folder, on.upstream.port)), on, load)
