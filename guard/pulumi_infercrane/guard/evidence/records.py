"""Canonical records: what every tool's file is read into. Seconds, tokens, fractions 0..1."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Request:
    """One attempted request. Latencies in seconds; None when the request failed or the figure does not exist."""

    ok: bool
    outcome: str
    ttft_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None
    in_tokens: int | None = None
    out_tokens: int | None = None


@dataclass(frozen=True)
class Benchmark:
    """One load run: every attempted request, in the order of its id."""

    load_model: str
    concurrency: float
    streaming: bool
    token_source: str
    requests: tuple[Request, ...]

    @property
    def attempted(self) -> int:
        return len(self.requests)

    @property
    def failed(self) -> int:
        return sum(not request.ok for request in self.requests)


@dataclass(frozen=True)
class Answer:
    """One scored item. `score` is 0..1; a failed request scores 0."""

    score: float
    ok: bool
    empty: bool
    cut: bool
    """The answer ended at the token limit."""
    text_sha256: str


@dataclass(frozen=True)
class Quality:
    """One pass over a task's items, by item id."""

    task: str
    metric: str
    tasks_digest: str
    answers: dict[str, Answer]

    @property
    def attempted(self) -> int:
        return len(self.answers)


Record = Benchmark | Quality
