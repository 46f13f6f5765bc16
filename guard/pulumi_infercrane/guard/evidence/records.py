"""Canonical records: what every tool's file is read into. Seconds, tokens, fractions 0..1, USD.

One record per kind of evidence. A figure that a file does not hold is None, or NaN within a column; it is never 0.
"""

import math
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypeAlias

Column: TypeAlias = "array[float]"
"""Doubles without the weight of objects; `array` takes no parameter at run time before Python 3.12."""

Figure = Literal["ttft_s", "tpot_s", "e2e_s"]
"""Figures that a single request has: time to first token, time per output token after it, whole duration."""


@dataclass(frozen=True)
class Requests:
    """Every attempted request of a load run, as columns in the order of the file; NaN where there is no figure."""

    ok: bytes
    """1 for a complete answer, 0 for a failed request."""
    ttft_s: Column
    tpot_s: Column
    e2e_s: Column
    in_tokens: Column
    out_tokens: Column

    def __len__(self) -> int:
        return len(self.ok)

    @property
    def failed(self) -> int:
        return len(self.ok) - sum(self.ok)

    def has(self, figure: str) -> bool:
        """Some tools keep one figure of every request and not the others. Nothing answered needs none."""
        return any(value == value for value in getattr(self, figure)) or not self.lacking(figure)

    def lacking(self, figure: str) -> int:
        """Answers that are long enough to have a figure, of which the file does not hold it."""
        needed = 1 if figure == "tpot_s" else 0
        rows = zip(self.ok, getattr(self, figure), self.out_tokens, strict=True)
        return sum(ok and value != value and not tokens <= needed for ok, value, tokens in rows)

    def seconds(self, figure: str) -> Iterator[float]:
        """One figure of every request: +inf for a failed one; a request too short to have it is left out."""
        column: Column = getattr(self, figure)
        for ok, value in zip(self.ok, column, strict=True):
            if not ok:
                yield math.inf
            elif value == value:
                yield value


@dataclass(frozen=True)
class Latency:
    """Summary of one figure over the successful requests, in seconds, as a tool wrote it."""

    quantiles: Mapping[float, float] = field(default_factory=dict)
    """By share: `{0.5: 0.04, 0.95: 0.09}`."""
    mean: float | None = None
    adjusted: bool = False
    """The quantiles are over all requests, failed ones as infinitely slow."""

    @property
    def times_s(self) -> tuple[float, ...]:
        """The quantiles, and the mean where there is one."""
        mean = () if self.mean is None else (self.mean,)
        return *mean, *self.quantiles.values()


@dataclass(frozen=True)
class Benchmark:
    """One load run. `requests` are kept when the file has them; `latencies` are what it says in sum."""

    attempted: int | None
    failed: int | None
    """Both None when the file does not say."""
    incomplete: int = 0
    """Requests cut at the end of the run: attempted, but neither failed nor answered."""
    errors: Mapping[str, int] = field(default_factory=dict)
    """Failed requests by class or status."""
    load_model: str = ""
    """`open`, `closed`, or empty when the file does not say."""
    concurrency: float | None = None
    rate: float | None = None
    """Requested arrivals per second of an open loop."""
    rate_achieved: float | None = None
    streaming: bool | None = None
    token_source: str = ""
    """Who counted the tokens; empty when nobody did."""
    duration_s: float | None = None
    requests: Requests | None = None
    latencies: Mapping[str, Latency] = field(default_factory=dict)
    """By `ttft_s`, `tpot_s`, `itl_s`, `e2e_s`."""
    in_tokens: float | None = None
    out_tokens: float | None = None
    """Means over the successful requests."""
    out_tokens_per_s: float | None = None
    good: int | None = None
    """Requests within `slo`, as the tool counted them."""
    slo: Mapping[str, float] = field(default_factory=dict)
    empty: int | None = None
    """Successful requests without a single token."""
    token_doubt: str = ""
    """Why token figures may not be judged, for example that client and server counted differently."""
    saturation: str = ""
    """Why the measuring client, not the server, set the pace."""


@dataclass(frozen=True)
class Answer:
    """One scored item. `score` is 0..1, higher is better; a failed request scores 0."""

    score: float
    ok: bool
    empty: bool | None
    """Nothing was answered, or nothing the task could use; None when the tool does not say."""
    cut: bool | None
    """The answer ended at the token limit; None when the tool does not say."""
    text_sha256: str
    """Digest of what was answered; empty when the file does not hold it."""


@dataclass(frozen=True)
class Quality:
    """One pass over a task's items, by item id. Without items there is only the `summary` of the tool."""

    task: str
    """As rules name it: letters, digits, `_` and `-`."""
    metric: str
    tasks_digest: str
    """Over what must be equal on both sides: the questions, what is right, and how answers are picked and scored."""
    answers: Mapping[str, Answer]
    summary: "Score | None" = None
    constant: str = ""
    """Why the scores tell nothing, for example that every choice was equally likely."""
    planned: int | None = None
    """Items the task has, where the tool says so."""
    prompts_digest: str = ""
    """Over the prompts after the chat template: equal on both sides unless the template is the declared change."""
    notes: tuple[str, ...] = ()
    """What a reader of the decision should know, for example that the task's source was edited and not committed."""

    @property
    def attempted(self) -> int | None:
        """Items that were asked; None when the file does not say."""
        if self.answers:
            return len(self.answers)
        return self.summary.n if self.summary else 0


@dataclass(frozen=True)
class Score:
    """Mean score of a task, 0..1, higher is better, with its standard error; None for what the file does not say."""

    value: float
    stderr: float | None
    n: int | None


@dataclass(frozen=True)
class Replayed:
    """One recorded request, asked again."""

    ok: bool
    outcome: str
    finish_reason: str = ""
    out_tokens: int | None = None
    ttft_s: float | None = None
    e2e_s: float | None = None
    structured: bool | None = None
    """Whether the answer kept the structure that was asked for; None when none was."""
    tool_calls: str = ""
    """Digest of the names and arguments of the tool calls; empty without any."""
    refused: bool | None = None
    """None when the file does not say."""
    text_sha256: str = ""
    similarity: float | None = None
    """To the baseline's answer, 0..1, in the candidate's file only."""


@dataclass(frozen=True)
class Replay:
    """One side of a replay, by id of the recorded request."""

    requests: Mapping[str, Replayed]
    planned: int
    workload_digest: str
    """Over the recorded requests: both sides answered the same ones."""
    greedy: bool = False
    similarity: str = ""
    """Name of the measure behind `Replayed.similarity`."""

    @property
    def attempted(self) -> int:
        return len(self.requests)


@dataclass(frozen=True)
class Reliability:
    """What went wrong over a soak, and in the drills. Counts are events in `duration_s` seconds."""

    attempted: int | None
    failed: int | None
    duration_s: float | None = None
    timeouts: int | None = None
    errors: Mapping[str, int] = field(default_factory=dict)
    crashes: int | None = None
    oom_kills: int | None = None
    restarts: int | None = None
    unready_s: float | None = None
    ghost_replicas: int | None = None
    times_s: Column = field(default_factory=lambda: array("d"))
    """Of answers, one by one or in sum, where the file has them; judged by no rule, they tell one soak from another."""
    cold_starts_s: tuple[float, ...] = ()
    rollback_drill_s: float | None = None
    """Seconds of a rollback drill that succeeded."""
    streams_open_at_drain: int | None = None
    streams_completed_at_drain: int | None = None


@dataclass(frozen=True)
class Cost:
    """What one window cost and what it produced. Money in `currency`; None where the file does not say."""

    currency: str
    duration_s: float
    gpu_cost: float | None
    other_cost: float = 0.0
    price_source: str = ""
    price_date: str = ""
    """RFC 3339 date of the price list."""
    idle_included: bool | None = None
    output_tokens: int | None = None
    input_tokens: int | None = None
    requests: int | None = None
    good_requests: int | None = None

    @property
    def attempted(self) -> int | None:
        return self.requests

    @cached_property
    def per_million_output_tokens(self) -> float | None:
        """In `currency`; None when the cost is incomplete or nothing was produced."""
        if self.gpu_cost is None or not self.output_tokens:
            return None
        return (self.gpu_cost + self.other_cost) / self.output_tokens * 1e6


Record = Benchmark | Quality | Replay | Reliability | Cost
