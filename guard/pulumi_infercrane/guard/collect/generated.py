"""The load of generated prompts that several kinds measure."""

import math
from dataclasses import dataclass
from typing import Any

from pulumi_infercrane.guard.canonical import digest
from pulumi_infercrane.guard.collect.bounds import Bounds, paid_seconds
from pulumi_infercrane.guard.collect.load import Describe, Load
from pulumi_infercrane.guard.collect.prompts import as_questions, generated_prompts
from pulumi_infercrane.guard.collect.target import CollectError, Target


@dataclass(frozen=True, kw_only=True)
class GeneratedLoad(Bounds):
    """How much is measured. Figures are per side."""

    requests: int = 1000
    concurrency: int = 4
    max_tokens: int = 48
    warmup: int = 4
    random_seed: int = 1
    """Start value of the prompts. Runs with different ones cannot be compared."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if min(self.requests, self.concurrency, self.max_tokens) < 1 or self.warmup < 0:
            raise CollectError("requests, concurrency and max_tokens must be positive")

    def load(self, describe: Describe, *targets: Target) -> Load:
        """The load on the targets.

        Raises:
            CollectError: when the price file is wrong or lacks a price.
        """
        prompts = generated_prompts(self.warmup + self.requests, self.random_seed)
        return Load(
            questions=as_questions(prompts[self.warmup :], self.max_tokens),
            warmup=as_questions(prompts[: self.warmup], self.max_tokens, "warmup-"),
            concurrency=self.concurrency,
            describe=describe,
            max_seconds=self.max_seconds,
            paid_seconds=paid_seconds(self, *targets),
        )

    def scenario(self) -> dict[str, Any]:
        """The workload, as the envelope says it."""
        prompts = generated_prompts(self.warmup + self.requests, self.random_seed)[self.warmup :]
        words = math.fsum(len(prompt.split()) for prompt in prompts) / len(prompts)
        return {
            "id": "generated-prompts",
            "dataset_digest": digest(prompts),
            "load_model": "closed",
            "concurrency": self.concurrency,
            "input_len": {"kind": "words", "mean": round(words, 3)},
            "output_len": {"kind": "max", "mean": self.max_tokens},
            "streaming": True,
            "random_seed": self.random_seed,
            "cache": "unique-prompts",
        }
