"""Coverage-guided fuzzing of whatever reads bytes from outside: `make fuzz MINUTES=10 [READER=vllm-bench]`.

Targets run one after the other, each in a process of its own: the engine ends its process, and one that ran out of
memory must not take the others with it. A target ends at its first finding. What was learned is kept in the cache for
the next run, findings beside it; how long each target ran is added to `recorded.json`.
"""

import datetime
import os
import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import click

try:
    import atheris
except ImportError:
    sys.exit("atheris has no wheel for this Python or this machine: fuzz with another one, see docs/fuzzing.md")

with atheris.instrument_imports(include=["pulumi_infercrane.guard", "pulumi_infercrane.router.protocol"]):
    from tests.fuzz.forbidden import Watch
    from tests.fuzz.targets import all_targets

    TARGETS = tuple(all_targets())
    for target in TARGETS:
        for seed in target.seeds:
            target.run(seed, Watch())  # so that what is imported late is instrumented, and there before it is forbidden

from tests.fuzz.record import Ran, add
from tests.fuzz.target import Target

TIMEOUT_S, MEMORY_MB = 10, 1024
LONGEST = 256 * 1024
"""Bytes of an input: more than any seed has."""


@dataclass(frozen=True)
class Bounds:
    """When a target ends without a finding; 0 is no bound."""

    seconds: int = 0
    executions: int = 0


@click.command(help=__doc__)
@click.option("--minutes", type=click.FloatRange(min=0.1), default=10.0, show_default=True, help="For each target.")
@click.option("--executions", type=int, help="Instead of minutes; from the seeds alone, not recorded.")
@click.option("--target", "wanted", multiple=True, help="Only this one: a target, or a tool for that of its reader.")
def main(minutes: float, executions: int | None, wanted: Sequence[str]) -> None:
    bounds = Bounds(executions=executions) if executions else Bounds(seconds=round(60 * minutes))
    home, findings = _home(), 0
    for target in _chosen(wanted):
        ran = _fuzz(target, bounds, home)
        findings += ran.findings
        if not executions:
            add(ran)
    click.echo(f"{findings} findings" + (f", kept in {home / 'crashes'}" if findings else ""))
    sys.exit(bool(findings))


def _chosen(wanted: Sequence[str]) -> list[Target]:
    names = {name for one in wanted for name in (one, f"reader-{one}")}
    chosen = [target for target in TARGETS if not wanted or target.name in names]
    if not chosen:
        raise click.UsageError(f"no such target; there are {', '.join(target.name for target in TARGETS)}")
    return chosen


def _home() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("INFERCRANE_CACHE") or Path(base) / "pulumi-infercrane") / "fuzz"


def _fuzz(target: Target, bounds: Bounds, home: Path) -> Ran:
    """Nothing of an earlier run plays a part in one that is bounded by executions: it is the same every time."""
    crashes, log = home / "crashes", home / f"{target.name}.log"
    with tempfile.TemporaryDirectory() as scratch:
        seeds = Path(scratch) / "seeds"
        corpus = Path(scratch) / "corpus" if bounds.executions else home / "corpus" / target.name
        for folder in (crashes, seeds, corpus):
            folder.mkdir(parents=True, exist_ok=True)
        for number, seed in enumerate(target.seeds):
            (seeds / f"{number:03}").write_bytes(seed)
        begin = datetime.datetime.now(datetime.UTC)
        status = _in_child(target, _arguments(target, bounds, crashes, (corpus, seeds)), log)
        minutes = (datetime.datetime.now(datetime.UTC) - begin).total_seconds() / 60
    ran = Ran(target.name, f"{begin:%Y-%m-%d}", round(minutes, 1), _executions(log), int(status != 0))
    found = f"; FINDING, see {log}" if status else ""
    click.echo(f"{target.name}: {ran.executions} executions in {60 * minutes:.0f} s{found}")
    return ran


def _arguments(target: Target, bounds: Bounds, crashes: Path, corpora: Sequence[Path]) -> list[str]:
    limits = [f"-max_total_time={bounds.seconds}", f"-runs={bounds.executions or -1}"]
    per_input = [f"-timeout={TIMEOUT_S}", f"-rss_limit_mb={MEMORY_MB}", f"-max_len={LONGEST}", "-len_control=0"]
    seed = ["-seed=1"] if bounds.executions else []
    artifacts = [f"-artifact_prefix={crashes}/{target.name}-", "-print_final_stats=1"]
    return [target.name, *limits, *per_input, *seed, *artifacts, *map(str, corpora)]


def _in_child(target: Target, arguments: list[str], log: Path) -> int:
    """Exit status of the engine, 0 without a finding."""
    child = os.fork()
    if child == 0:
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        for stream in (1, 2):
            os.dup2(output, stream)
        _engine(target, arguments)
        os._exit(0)
    return os.waitpid(child, 0)[1]


def _engine(target: Target, arguments: list[str]) -> None:
    watch = Watch.installed()

    def mutate(data: bytes, limit: int, seed: int) -> bytes:
        return target.mutate(data, limit, Random(seed), atheris.Mutate)

    def run(data: bytes) -> None:  # a value would tell the engine to forget the input
        target.run(data, watch)

    atheris.Setup(arguments, run, custom_mutator=mutate)
    atheris.Fuzz()


def _executions(log: Path) -> int:
    """What the engine said at its end, or last before it was stopped."""
    text = log.read_text(errors="replace")
    for pattern in (r"stat::number_of_executed_units:\s+(\d+)", r"^#(\d+)"):
        found = re.findall(pattern, text, re.MULTILINE)
        if found:
            return int(found[-1])
    return 0


if __name__ == "__main__":
    main()
