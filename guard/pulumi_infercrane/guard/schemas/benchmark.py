"""`infercrane.benchmark/v1`: a load run, one line per measured request."""

from typing import Annotated, Any, Literal

from pydantic import Field

from pulumi_infercrane.guard.schemas._words import Count, Header, Line, Seconds, lines


class BenchmarkHeader(Header):
    schema_: Annotated[Literal["infercrane.benchmark/v1"], Field(alias="schema")]
    load_model: Literal["closed"]
    concurrency: float
    streaming: bool


class BenchmarkLine(Line):
    ttft_s: Seconds | None = None
    tpot_s: Seconds | None = None
    e2e_s: Seconds | None = None
    in_tokens: Count | None = None
    out_tokens: Count | None = None
    token_source: str | None = None
    finish_reason: str | None = None


def schema() -> dict[str, Any]:
    """Of each line."""
    return lines(BenchmarkHeader, BenchmarkLine, "infercrane.benchmark/v1")
