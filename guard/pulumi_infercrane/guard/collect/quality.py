"""Kind `quality`: both sides answer the same questions; scores are paired by item."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pulumi_infercrane.guard.collect.bounds import Bounds, paid_seconds
from pulumi_infercrane.guard.collect.load import Describe, Load, Measured, Question
from pulumi_infercrane.guard.collect.paired import Measurement, measure_both
from pulumi_infercrane.guard.collect.stream import prompt
from pulumi_infercrane.guard.collect.target import CollectError, Progress, Target
from pulumi_infercrane.guard.collect.tasks import TaskSet, load_tasks

KIND = "quality"


@dataclass(frozen=True, kw_only=True)
class Plan(Bounds):
    """Which questions are asked, and how."""

    tasks: Path
    """A task file, see `tasks.py`."""
    limit: int | None = None
    """Only the first so many items; None asks all."""
    concurrency: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.concurrency < 1 or (self.limit is not None and self.limit < 1):
            raise CollectError("limit and concurrency must be positive")


async def collect(candidate: Target, baseline: Target, *, out: Path, plan: Plan, progress: Progress) -> list[Path]:
    """Ask both sides and write their envelopes below `out`, candidate first.

    Raises:
        CollectError: the task file is wrong, a replica cannot be reached at the start, time or money ran out, or `out`
            cannot be written.
    """
    tasks = load_tasks(plan.tasks)
    load = Load(
        questions=[Question(item.id, prompt(item.prompt, tasks.max_tokens)) for item in tasks.items[: plan.limit]],
        warmup=(),
        concurrency=plan.concurrency,
        describe=_describe(tasks),
        max_seconds=plan.max_seconds,
        paid_seconds=paid_seconds(plan, candidate, baseline),
    )
    header = {"task": tasks.name, "metric": tasks.metric, "tasks_digest": tasks.digest}
    measurement = Measurement(KIND, load, _scenario(tasks, plan), header)
    return await measure_both(candidate, baseline, measurement, out=out, progress=progress)


def _scenario(tasks: TaskSet, plan: Plan) -> dict[str, Any]:
    return {
        "id": f"tasks-{tasks.name}",
        "dataset_digest": tasks.digest,
        "load_model": "closed",
        "concurrency": plan.concurrency,
        "output_len": {"kind": "max", "mean": tasks.max_tokens},
        "streaming": True,
    }


def _describe(tasks: TaskSet) -> Describe:
    items = {item.id: item for item in tasks.items}

    def describe(measured: Measured, _: Measured | None) -> Mapping[str, Any]:
        """A score and a digest, never the text. A failed request scores 0."""
        answer = measured.answer
        if not answer.complete:
            return {"id": measured.id, "score": 0, "outcome": answer.outcome, "error": answer.error}
        return {
            "id": measured.id,
            "score": tasks.score(items[measured.id], answer.text),
            "outcome": answer.outcome,
            "finish_reason": answer.finish_reason,
            "empty": not answer.text.strip(),
            "text_sha256": hashlib.sha256(answer.text.encode("utf-8", "surrogatepass")).hexdigest(),
        }

    return describe
