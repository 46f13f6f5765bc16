"""What judging costs: a ratio bound against resampling, `guard check` on large and on many files, `guard verify` of a
long ledger.

.venv/bin/python -m benchmarks.guard
"""

import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import count, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from scipy import stats

from benchmarks.rows import Row, publish
from pulumi_infercrane.guard import decide, load_evidence, load_policy
from pulumi_infercrane.guard.canonical import canonical_bytes, digest
from pulumi_infercrane.guard.ledger import SCHEMA
from pulumi_infercrane.guard.statistics import quantile_ratio, rank_of
from pulumi_infercrane.guard.times import format_time
from tests.guard.conftest import AS_OF, Folder

ROUNDS = 5
REQUESTS = 2000
RESAMPLES = 2000
DECISIONS = 10_000
PER_CANDIDATE = 10
POLICY = """\
schema: infercrane.policy/v1
required_kinds: [benchmark]
rules:
  - {id: benchmark.error_fraction}
  - {id: benchmark.error_fraction_difference}
  - {id: benchmark.ttft_p50}
  - {id: benchmark.ttft_p95}
  - {id: benchmark.tpot_p50}
  - {id: benchmark.tpot_p95}
  - {id: benchmark.e2e_p95}
"""
SMALL_POLICY = """\
schema: infercrane.policy/v1
required_kinds: [benchmark]
rules:
  - {id: benchmark.error_fraction, limit: 0.05}
"""
PEAK = """
import atexit, sys
from pathlib import Path
def peak():
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    sys.stderr.write("peak " + status["VmHWM"].split()[0])
atexit.register(peak)
from pulumi_infercrane.stacks.cli import main
main()
"""


def main() -> None:
    publish("guard", [*bound(), *large_files(), *many_files(), *long_ledger()])


def bound() -> Iterator[Row]:
    """The interval of a ratio of two p95s of 2,000 requests, a few more each time so that nothing is remembered."""
    source = random.Random(1)
    sides = [
        tuple([source.lognormvariate(0, 0.5) for _ in range(REQUESTS + number)] for _ in range(2))
        for number in range(ROUNDS)
    ]
    ours = statistics.median(timed(lambda side=side: quantile_ratio(*side, 0.95)) for side in sides)
    peer = statistics.median(timed(lambda side=side: resampled(*side, seed=1)) for side in sides)
    yield Row("bounds of a p95 ratio, s (peer: scipy.stats.bootstrap)", ours, peer, goal=1 / 20)
    exact, drawn = quantile_ratio(*sides[0], 0.95), [resampled(*sides[0], seed=seed) for seed in range(12)]
    for name, value, others in (
        ("lower", exact.lo, [low for low, _ in drawn]),
        ("upper", exact.hi, [high for _, high in drawn]),
    ):
        away = abs(value - statistics.mean(others)) / statistics.stdev(others)
        yield Row(f"{name} bound off scipy's mean, in its Monte-Carlo errors", away, goal=2.0)


def resampled(baseline: Sequence[float], candidate: Sequence[float], seed: int) -> tuple[float, float]:
    """The same bounds by resampling, with the quickest statistic numpy has."""

    def ratio(above: Any, below: Any, axis: int) -> Any:
        sides = [np.partition(x, rank_of(0.95, x.shape[axis]) - 1, axis=axis) for x in (above, below)]
        above, below = (np.take(x, rank_of(0.95, x.shape[axis]) - 1, axis=axis) for x in sides)
        return above / below

    found = stats.bootstrap(
        (np.array(candidate), np.array(baseline)),
        ratio,
        n_resamples=RESAMPLES,
        confidence_level=0.9,
        method="percentile",
        vectorized=True,
        rng=np.random.default_rng(seed),
    )
    return float(found.confidence_interval.low), float(found.confidence_interval.high)


def large_files() -> Iterator[Row]:
    """A decision on 2 × 100,000 requests beside reading the lines of the same files with json."""
    with TemporaryDirectory() as place:
        folder = Folder(Path(place) / "evidence")
        for role in ("candidate", "baseline"):
            folder.benchmark(role, folder.seconds(100_000, seed=len(role)))
        files = sorted(folder.root.glob("*.jsonl"))
        size = sum(file.stat().st_size for file in files)
        seconds, peak = least(lambda: check(folder, POLICY))
        peer = min(timed(lambda: read_lines(files)) for _ in range(ROUNDS))
    yield Row("guard check, 2 × 100,000 requests, s (peer: json.loads)", seconds, peer, goal=3.0)
    yield Row("its peak memory, MiB (peer: size of both files)", peak, size / 2**20, goal=4.0)


def many_files() -> Iterator[Row]:
    """A thousand files against a quarter of them: every pair may be two copies of one run."""
    yield Row("guard check, 20 files of 1,000 requests, s", check_files(20, 1000), goal=1.0)
    quarter, whole = (check_files(number, 100) for number in (250, 1000))
    yield Row("guard check, 1,000 files of 100 requests, s (peer: 4 × a quarter)", whole, 4 * quarter, goal=1.2)


def check_files(number: int, requests: int) -> float:
    """Seconds for so many files, half of them of each side."""
    with TemporaryDirectory() as place:
        folder = Folder(Path(place) / "evidence")
        for index in range(number):
            role = ("candidate", "baseline")[index % 2]
            folder.benchmark(role, folder.seconds(requests, seed=index), name=f"{role}-{index}")
        seconds, _ = least(lambda: check(folder, POLICY))
    return seconds


def long_ledger() -> Iterator[Row]:
    """Verifying a ledger against one a quarter as long."""
    (quarter, quarter_peak), (whole, whole_peak) = (verify(number) for number in (DECISIONS // 4, DECISIONS))
    yield Row(f"guard verify, {DECISIONS:,} decisions, s (peer: 4 × a quarter)", whole, 4 * quarter, goal=1.2)
    yield Row("its peak memory, MiB (peer: a quarter of them)", whole_peak, quarter_peak, goal=1.5)


def verify(number: int) -> tuple[float, float]:
    """Seconds and memory for a ledger of so many decisions, all of which are computed again."""
    with TemporaryDirectory() as place:
        policy, evidence, ledger = (Path(place) / name for name in ("policy.yaml", "evidence", "ledger.jsonl"))
        policy.write_text(SMALL_POLICY)
        with ledger.open("wb") as lines:
            lines.writelines(chained(islice(decisions(evidence), number)))
        return infercrane(["guard", "verify", str(ledger), "--evidence", str(evidence), "--policy", str(policy)])


def decisions(place: Path) -> Iterator[Mapping[str, Any]]:
    """Decision records without end: candidates with a measurement of their own and ten decisions each."""
    policy, first = load_policy(SMALL_POLICY), datetime.fromisoformat(AS_OF)
    for number in count():
        folder = Folder(place / f"r{number}", candidate=f"r{number}", baseline="r")
        for role in ("candidate", "baseline"):
            folder.benchmark(role, folder.seconds(60, seed=2 * number + len(role)))
        evidence, history = load_evidence(folder.root), list[Mapping[str, Any]]()
        for turn in range(PER_CANDIDATE):
            asked = {"as_of": format_time(first + timedelta(minutes=turn)), "history": tuple(history)}
            sides = {"candidate": folder.candidate, "baseline": folder.baseline}
            history.append(decide(policy, evidence, service="chat", stack="dev", **sides, **asked).record)
            yield history[-1]


def chained(records: Iterable[Mapping[str, Any]]) -> Iterator[bytes]:
    """Lines of a ledger; `Ledger.append` reads the whole file before each of them."""
    prev = ""
    for seq, record in enumerate(records, start=1):
        body = {"schema": SCHEMA, "seq": seq, "prev": prev, "decision": record}
        prev = digest(body)
        yield canonical_bytes({**body, "entry": prev}) + b"\n"


def check(folder: Folder, policy: str) -> tuple[float, float]:
    file = folder.root.parent / "policy.yaml"
    file.write_text(policy)
    return infercrane(["guard", "check", "--evidence", str(folder.root), "--policy", str(file), "--as-of", AS_OF])


def infercrane(arguments: Sequence[str]) -> tuple[float, float]:
    """Seconds of a whole command, and the most memory it held, MiB."""
    started = time.perf_counter()
    command = [sys.executable, "-c", PEAK, *arguments]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    seconds = time.perf_counter() - started
    if done.returncode not in (0, 3, 4):
        raise SystemExit(f"{arguments} ended with {done.returncode}: {done.stderr}")
    return seconds, int(done.stderr.rpartition("peak ")[2]) / 1024


def least(measure: Callable[[], tuple[float, float]]) -> tuple[float, float]:
    """The quickest of several rounds, and its memory."""
    return min(measure() for _ in range(ROUNDS))


def read_lines(files: Sequence[Path]) -> None:
    for file in files:
        with file.open("rb") as lines:
            for line in lines:
                json.loads(line)


def timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
