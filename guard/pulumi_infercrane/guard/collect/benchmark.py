"""Kind `benchmark`: latencies and failures of both sides under the same closed loop of generated prompts."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pulumi_infercrane.guard.canonical import digest
from pulumi_infercrane.guard.collect.envelope import Findings, write_evidence
from pulumi_infercrane.guard.collect.load import Load, Measured, Side, compare
from pulumi_infercrane.guard.collect.prompts import as_questions, generated_prompts
from pulumi_infercrane.guard.collect.target import CollectError, Progress, Target

KIND = "benchmark"


@dataclass(frozen=True)
class Plan:
    """How much is measured. Figures are per side."""

    requests: int = 1000
    concurrency: int = 4
    max_tokens: int = 48
    warmup: int = 4
    max_seconds: float = 3600.0
    """For both sides together."""
    random_seed: int = 1
    """Start value of the prompts. Runs with different ones cannot be compared."""

    def __post_init__(self) -> None:
        if min(self.requests, self.concurrency, self.max_tokens) < 1 or self.warmup < 0 or self.max_seconds <= 0:
            raise CollectError("benchmark: requests, concurrency, max_tokens and max_seconds must be positive")


async def collect(candidate: Target, baseline: Target, *, out: Path, plan: Plan, progress: Progress) -> list[Path]:
    """Measure both sides and write their envelopes below `out`, candidate first.

    Raises:
        CollectError: a replica cannot be reached at the start, time ran out, or `out` cannot be written.
    """
    prompts = generated_prompts(plan.warmup + plan.requests, plan.random_seed)
    warmup, measured = prompts[: plan.warmup], prompts[plan.warmup :]
    load = Load(
        questions=as_questions(measured),
        warmup=as_questions(warmup, "warmup-"),
        max_tokens=plan.max_tokens,
        concurrency=plan.concurrency,
        max_seconds=plan.max_seconds,
    )
    comparison = await compare(candidate, baseline, load, progress)
    return write_evidence(
        out,
        kind=KIND,
        comparison=comparison,
        scenario=_scenario(plan, measured),
        findings={role: _findings(plan, side) for role, side in comparison.sides},
    )


def _scenario(plan: Plan, prompts: Sequence[str]) -> dict[str, Any]:
    words = math.fsum(len(prompt.split()) for prompt in prompts) / len(prompts)
    return {
        "id": "generated-prompts",
        "dataset_digest": digest(list(prompts)),
        "load_model": "closed",
        "concurrency": plan.concurrency,
        "input_len": {"kind": "words", "mean": round(words, 3)},
        "output_len": {"kind": "max", "mean": plan.max_tokens},
        "streaming": True,
        "random_seed": plan.random_seed,
        "cache": "unique-prompts",
    }


def _findings(plan: Plan, side: Side) -> Findings:
    header = {"load_model": "closed", "concurrency": plan.concurrency, "streaming": True, "warmup": plan.warmup}
    return Findings(header, tuple(_record(measured) for measured in side.measured))


def _record(measured: Measured) -> Mapping[str, Any]:
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
