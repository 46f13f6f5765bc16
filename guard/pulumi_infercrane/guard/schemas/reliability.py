"""`infercrane.reliability/v1`: a soak and its drills, one line per request."""

from typing import Annotated, Any, Literal

from pydantic import Field

from pulumi_infercrane.guard.schemas._words import Closed, Count, Header, Line, Seconds, lines

Duration = Annotated[float, Field(ge=0)]


class Drain(Closed):
    """Streams that were open when a replica was told to stop, and how many of them came to their end."""

    streams_open: Count
    streams_completed: Count


class ReliabilityHeader(Header):
    schema_: Annotated[Literal["infercrane.reliability/v1"], Field(alias="schema")]
    duration_s: Duration
    crashes: Count | None = None
    oom_kills: Count | None = None
    restarts: Count | None = None
    unready_s: Duration | None = None
    ghost_replicas: Count | None = None
    cold_starts_s: list[Duration] | None = None
    rollback_drill_s: Duration | None = None
    drain: Drain | None = None


class ReliabilityLine(Line):
    start_s: Duration
    e2e_s: Seconds | None = None


def schema() -> dict[str, Any]:
    """Of each line."""
    return lines(ReliabilityHeader, ReliabilityLine, "infercrane.reliability/v1")
