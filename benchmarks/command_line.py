"""What the command line costs: start, `guard check`, `infercrane up` without a change against plain `pulumi`, memory.

.venv/bin/python -m benchmarks.command_line
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.rows import Row, publish
from tests.e2e.lab import STACK, Lab
from tests.engine.engine import prepare
from tests.guard.conftest import Folder
from tests.runtimes import prepare as runtimes

ROUNDS = 5
INFERCRANE = [sys.executable, "-m", "pulumi_infercrane"]


def main() -> None:
    lab = Lab(prepare(), runtimes.prepare(tiny=True))
    try:
        rows = [*start_up(), *no_change(lab), *many_revisions(lab)]
    finally:
        lab.close()
    publish("command_line", rows)


def start_up() -> list[Row]:
    """The version, and a decision on 1,000 requests a side."""
    version = median(lambda: run([*INFERCRANE, "--version"]))
    with TemporaryDirectory() as folder:
        evidence = Folder(Path(folder) / "evidence")
        for role in ("candidate", "baseline"):
            evidence.benchmark(role, evidence.seconds(1000, seed=len(role)))
            evidence.quality(role, (1.0,) * 300)
        policy = Path(folder) / "policy.yaml"
        policy.write_text(evidence.policy)
        asked = ["--evidence", str(evidence.root), "--policy", str(policy), "--as-of", "2026-11-30T05:00:00Z"]
        check = median(lambda: run([*INFERCRANE, "guard", "check", *asked]))
    return [
        Row("infercrane --version, s", version, goal=0.35),
        Row("guard check, 2 × 1,000 requests, s more than --version", check - version, goal=0.6),
    ]


def no_change(lab: Lab) -> list[Row]:
    """`infercrane up` against `pulumi preview` + `pulumi up` of the same stack, in turn."""
    revisions = {"r1": lab.revision(), "r2": lab.revision(max_concurrency=4)}
    lab.declare({"r1": revisions["r1"]})
    lab.up()
    lab.declare(revisions, "r2")
    lab.up(code=4)
    ours, plain, provider = [], [], []
    for _ in range(ROUNDS):
        ours.append(timed(lambda: lab.up(code=4)))
        plain.append(timed(lambda: plain_pulumi(lab)))
        provider.append(provider_memory(lab))
    return [
        Row("infercrane up without a change, s", statistics.median(ours), statistics.median(plain), goal=1.3),
        Row("provider process, resident memory at its peak, MiB", max(provider)),
    ]


def plain_pulumi(lab: Lab) -> None:
    lab.pulumi("preview", "--stack", STACK)
    lab.pulumi("up", "--yes", "--skip-preview", "--stack", STACK)


def provider_memory(lab: Lab) -> float:
    """Peak of the provider's resident memory during one preview, MiB."""
    command = ["pulumi", "preview", "--stack", STACK, "--non-interactive"]
    engine = subprocess.Popen(command, cwd=lab.project, env=lab.environment, stdout=subprocess.DEVNULL)
    peak = 0.0
    while engine.poll() is None:
        peak = max([peak, *(resident(pid) for pid in children_called("pulumi-resource-infercrane"))])
        time.sleep(0.02)
    return peak


def children_called(name: str) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if name.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def resident(pid: int) -> float:
    try:
        pages = int((Path("/proc") / str(pid) / "statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def many_revisions(lab: Lab) -> list[Row]:
    """A preview with 2 and with 50 declared revisions: the growth per revision should not grow itself."""
    figures = {}
    for count in (2, 26, 50):
        declared = {"r1": lab.revision(), "r2": lab.revision(max_concurrency=4)}
        declared |= {f"r{n}": lab.revision(max_context_len=512 + n) for n in range(3, count + 1)}
        lab.declare(declared, "r2")
        figures[count] = median(lambda: lab.pulumi("preview", "--stack", STACK), rounds=3)
    first, second = figures[26] - figures[2], figures[50] - figures[26]
    return [
        Row("preview with 2 revisions, s", figures[2]),
        Row("preview with 50 revisions, s", figures[50], figures[2]),
        Row("growth from 26 to 50 against growth from 2 to 26 revisions", second, first, goal=1.5),
    ]


def median(work: Callable[[], object], rounds: int = ROUNDS) -> float:
    work()
    return statistics.median(timed(work) for _ in range(rounds))


def timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 3, 4):
        raise SystemExit(f"{json.dumps(command)} ended with {done.returncode}: {done.stderr}")


if __name__ == "__main__":
    main()
