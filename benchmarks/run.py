"""Every benchmark, one after the other: `make bench`. Ratios are printed; nothing here is a timed test."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import command_line, guard, metrics
from benchmarks.router import goals, rounds
from benchmarks.router.plan import Plan
from benchmarks.rows import publish

if __name__ == "__main__":
    guard.main()
    command_line.main()
    metrics.main()
    publish("router", goals.rows(rounds.run(Plan(peers=("nginx",)))))
