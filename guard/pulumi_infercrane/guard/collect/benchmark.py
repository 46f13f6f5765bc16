"""Kind `benchmark`: latencies and failures of both sides under the same closed loop of generated prompts."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pulumi_infercrane.guard.collect.generated import GeneratedLoad
from pulumi_infercrane.guard.collect.load import Measured
from pulumi_infercrane.guard.collect.paired import Measurement, measure_both
from pulumi_infercrane.guard.collect.target import Progress, Target

KIND = "benchmark"


@dataclass(frozen=True, kw_only=True)
class Plan(GeneratedLoad):
    """The generated load, and nothing else."""


async def collect(candidate: Target, baseline: Target, *, out: Path, plan: Plan, progress: Progress) -> list[Path]:
    """Measure both sides and write their envelopes below `out`, candidate first.

    Raises:
        CollectError: a replica cannot be reached at the start, time or money ran out, or `out` cannot be written.
    """
    header = {"load_model": "closed", "concurrency": plan.concurrency, "streaming": True, "warmup": plan.warmup}
    load = plan.load(_record, candidate, baseline)
    measurement = Measurement(KIND, load, plan.scenario(), header)
    return await measure_both(candidate, baseline, measurement, out=out, progress=progress)


def _record(measured: Measured, _: Measured | None) -> Mapping[str, Any]:
    """Seconds to the microsecond; what does not exist is left out."""
    answer = measured.answer
    record = {"id": measured.id, "block": measured.block, "start_s": round(measured.start_s, 3)}
    if not answer.complete:
        return {**record, "outcome": answer.outcome, "error": answer.error}
    latencies = {"ttft_s": answer.ttft_s, "tpot_s": answer.tpot_s, "e2e_s": answer.e2e_s}
    tokens = {"in_tokens": answer.in_tokens, "cached_tokens": answer.cached_tokens, "out_tokens": answer.out_tokens}
    return {
        **record,
        **{name: round(value, 6) for name, value in latencies.items() if value is not None},
        **{name: value for name, value in tokens.items() if value is not None},
        "token_source": answer.token_source,
        "outcome": answer.outcome,
        "finish_reason": answer.finish_reason,
    }
