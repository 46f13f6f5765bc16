"""`infercrane.replay/v1`: recorded requests asked again, one line per request."""

from typing import Annotated, Any, Literal

from pydantic import Field

from pulumi_infercrane.guard.schemas._words import Count, Digest, Header, Hex64, Line, Seconds, Share, lines


class ReplayHeader(Header):
    schema_: Annotated[Literal["infercrane.replay/v1"], Field(alias="schema")]
    workload_digest: Digest
    greedy: bool
    similarity: str | None = None


class ReplayLine(Line):
    finish_reason: str | None = None
    out_tokens: Count | None = None
    ttft_s: Seconds | None = None
    e2e_s: Seconds | None = None
    structured: bool | None = None
    tool_calls: Digest | None = None
    refused: bool | None = None
    text_sha256: Hex64 | None = None
    similarity: Share | None = None


def schema() -> dict[str, Any]:
    """Of each line."""
    return lines(ReplayHeader, ReplayLine, "infercrane.replay/v1")
