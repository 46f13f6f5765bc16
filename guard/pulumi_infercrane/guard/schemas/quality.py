"""`infercrane.quality/v1`: one pass over a task, one line per item."""

from typing import Annotated, Any, Literal

from pydantic import Field

from pulumi_infercrane.guard.schemas._words import Digest, Header, Hex64, Line, Share, lines


class QualityHeader(Header):
    schema_: Annotated[Literal["infercrane.quality/v1"], Field(alias="schema")]
    task: str
    metric: str
    tasks_digest: Digest


class QualityLine(Line):
    score: Share
    finish_reason: str | None = None
    empty: bool | None = None
    text_sha256: Hex64 | None = None


def schema() -> dict[str, Any]:
    """Of each line."""
    return lines(QualityHeader, QualityLine, "infercrane.quality/v1")
