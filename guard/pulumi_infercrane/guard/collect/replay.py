"""Kind `replay`: recorded requests, asked again of both sides; the answers are paired by request.

Answers are compared while both are at hand and are not kept: lengths, digests, and how alike they are.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pulumi_infercrane.guard.canonical import digest
from pulumi_infercrane.guard.collect.agreement import refused, structured, tool_calls_digest
from pulumi_infercrane.guard.collect.bounds import Bounds, paid_seconds
from pulumi_infercrane.guard.collect.load import Describe, Load, Measured, Question
from pulumi_infercrane.guard.collect.paired import Measurement, measure_both
from pulumi_infercrane.guard.collect.recording import Recorded, load_recording
from pulumi_infercrane.guard.collect.similarity import Similarity, find_similarity
from pulumi_infercrane.guard.collect.stream import Answer
from pulumi_infercrane.guard.collect.target import CollectError, Progress, Target

KIND = "replay"

_NOT_ASKED = frozenset(
    {"model", "stream", "stream_options", "n", "logprobs", "top_logprobs", "store", "user", "metadata"}
)
_LIMITS = ("max_completion_tokens", "max_tokens")


@dataclass(frozen=True, kw_only=True)
class Plan(Bounds):
    """What is asked again, and how the answers are compared."""

    recording: Path
    """A file or folder, see `recording.py`."""
    requests: int = 1000
    """At most so many requests, from the start of the recording."""
    concurrency: int = 4
    max_tokens: int = 512
    """Bound on the length of each answer, where the recorded request has none or a higher one."""
    greedy: bool = False
    """Ask at temperature 0, whatever was recorded: only then should the same weights give the same text."""
    similarity: str = "token_ratio"
    """Name of a module in `similarity/`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if min(self.requests, self.concurrency, self.max_tokens) < 1:
            raise CollectError("requests, concurrency and max_tokens must be positive")


async def collect(candidate: Target, baseline: Target, *, out: Path, plan: Plan, progress: Progress) -> list[Path]:
    """Ask both sides and write their envelopes below `out`, candidate first.

    Raises:
        CollectError: the recording is wrong, a replica cannot be reached at the start, time or money ran out, or `out`
            cannot be written.
    """
    similarity = find_similarity(plan.similarity)
    questions = [_question(recorded, plan) for recorded in load_recording(plan.recording, plan.requests)]
    load = Load(
        questions=questions,
        warmup=(),
        concurrency=plan.concurrency,
        describe=_describe(questions, similarity),
        max_seconds=plan.max_seconds,
        paid_seconds=paid_seconds(plan, candidate, baseline),
    )
    workload = digest([[question.id, question.fields] for question in questions])
    greedy = all(question.fields.get("temperature") == 0 for question in questions)
    header = {"workload_digest": workload, "greedy": greedy, "similarity": plan.similarity}
    measurement = Measurement(KIND, load, _scenario(plan, workload), header)
    return await measure_both(candidate, baseline, measurement, out=out, progress=progress)


def _question(recorded: Recorded, plan: Plan) -> Question:
    """The recorded request for one streamed answer of bounded length."""
    fields = {name: value for name, value in recorded.body.items() if name not in _NOT_ASKED}
    name = next((name for name in _LIMITS if name in fields), "max_tokens")
    fields[name] = _smaller(fields.get(name), plan.max_tokens)
    if plan.greedy:
        fields["temperature"] = 0
    return Question(recorded.id, fields)


def _smaller(recorded: Any, most: int) -> int:
    return min(recorded, most) if isinstance(recorded, int) and recorded > 0 else most


def _scenario(plan: Plan, workload: str) -> dict[str, Any]:
    return {
        "id": "replay",
        "dataset_digest": workload,
        "load_model": "closed",
        "concurrency": plan.concurrency,
        "output_len": {"kind": "max", "mean": plan.max_tokens},
        "streaming": True,
    }


def _describe(questions: Sequence[Question], similarity: Similarity) -> Describe:
    fields = {question.id: question.fields for question in questions}

    def describe(measured: Measured, baseline: Measured | None) -> Mapping[str, Any]:
        answer = measured.answer
        if not answer.complete:
            return {"id": measured.id, "outcome": answer.outcome, "error": answer.error}
        return {
            "id": measured.id,
            "outcome": answer.outcome,
            "finish_reason": answer.finish_reason,
            **_figures(answer),
            **_findings(fields[measured.id], answer),
            **_likeness(answer, baseline, similarity),
        }

    return describe


def _figures(answer: Answer) -> dict[str, Any]:
    latencies = {"ttft_s": answer.ttft_s, "e2e_s": answer.e2e_s}
    known = {name: round(value, 6) for name, value in latencies.items() if value is not None}
    return {"out_tokens": answer.out_tokens, **known}


def _findings(fields: Mapping[str, Any], answer: Answer) -> dict[str, Any]:
    found = {
        "structured": structured(fields, answer.text),
        "tool_calls": tool_calls_digest(answer.tool_calls),
        "refused": refused(answer.text, answer.finish_reason),
        "text_sha256": hashlib.sha256(answer.text.encode("utf-8", "surrogatepass")).hexdigest(),
    }
    return {name: value for name, value in found.items() if value is not None}


def _likeness(answer: Answer, baseline: Measured | None, similarity: Similarity) -> dict[str, float]:
    """Only two whole answers can be alike."""
    if baseline is None or not baseline.answer.complete:
        return {}
    return {"similarity": round(similarity(answer.text, baseline.answer.text), 6)}
