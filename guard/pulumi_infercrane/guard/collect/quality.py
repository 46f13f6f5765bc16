"""Kind `quality`: both sides answer the same questions; scores are paired by item."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pulumi_infercrane.guard.collect.envelope import Findings, write_evidence
from pulumi_infercrane.guard.collect.load import Load, Question, Side, compare
from pulumi_infercrane.guard.collect.stream import Answer
from pulumi_infercrane.guard.collect.target import CollectError, Progress, Target
from pulumi_infercrane.guard.collect.tasks import Item, TaskSet, load_tasks

KIND = "quality"


@dataclass(frozen=True)
class Plan:
    """Which questions are asked, and how."""

    tasks: Path
    """A task file, see `tasks.py`."""
    limit: int | None = None
    """Only the first so many items; None asks all."""
    concurrency: int = 4
    max_seconds: float = 3600.0
    """For both sides together."""

    def __post_init__(self) -> None:
        if self.concurrency < 1 or self.max_seconds <= 0 or (self.limit is not None and self.limit < 1):
            raise CollectError("quality: limit, concurrency and max_seconds must be positive")


async def collect(candidate: Target, baseline: Target, *, out: Path, plan: Plan, progress: Progress) -> list[Path]:
    """Ask both sides and write their envelopes below `out`, candidate first.

    Raises:
        CollectError: the task file is wrong, a replica cannot be reached at the start, time ran out, or `out` cannot
            be written.
    """
    tasks = load_tasks(plan.tasks)
    items = tasks.items[: plan.limit]
    load = Load(
        questions=[Question(item.id, item.prompt) for item in items],
        warmup=(),
        max_tokens=tasks.max_tokens,
        concurrency=plan.concurrency,
        max_seconds=plan.max_seconds,
    )
    comparison = await compare(candidate, baseline, load, progress)
    return write_evidence(
        out,
        kind=KIND,
        comparison=comparison,
        scenario=_scenario(tasks, plan),
        findings={role: _findings(tasks, items, side) for role, side in comparison.sides},
    )


def _scenario(tasks: TaskSet, plan: Plan) -> dict[str, Any]:
    return {
        "id": f"tasks-{tasks.name}",
        "dataset_digest": tasks.digest,
        "load_model": "closed",
        "concurrency": plan.concurrency,
        "output_len": {"kind": "max", "mean": tasks.max_tokens},
        "streaming": True,
    }


def _findings(tasks: TaskSet, items: Sequence[Item], side: Side) -> Findings:
    header = {"task": tasks.name, "metric": tasks.metric, "tasks_digest": tasks.digest}
    answers = [measured.answer for measured in side.measured]
    return Findings(header, tuple(_record(tasks, *pair) for pair in zip(items, answers, strict=True)))


def _record(tasks: TaskSet, item: Item, answer: Answer) -> Mapping[str, Any]:
    """A score and a digest, never the text. A failed request scores 0."""
    if not answer.complete:
        return {"id": item.id, "score": 0, "outcome": answer.outcome, "error": answer.error}
    return {
        "id": item.id,
        "score": tasks.score(item, answer.text),
        "outcome": answer.outcome,
        "finish_reason": answer.finish_reason,
        "empty": not answer.text.strip(),
        "text_sha256": hashlib.sha256(answer.text.encode("utf-8", "surrogatepass")).hexdigest(),
    }
