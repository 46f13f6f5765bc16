"""`infercrane.window/v1`: what a router counted for every revision behind one route; `read_window` checks the sums."""

from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema

from pulumi_infercrane.guard.evidence.window import LONGEST_S, MAX_BINDINGS, MAX_STACK
from pulumi_infercrane.guard.schemas._words import Closed, Count, Digest, UtcTime, document
from pulumi_infercrane.guard.trust.attestation import Attestation

Edge = Annotated[float, Field(gt=0, le=LONGEST_S)]
MaybeSeconds = Annotated[
    float | None, WithJsonSchema({"type": ["number", "null"], "exclusiveMinimum": 0, "maximum": LONGEST_S})
]
ClientFaults = Annotated[
    dict[str, int],
    WithJsonSchema(
        {
            "type": "object",
            "patternProperties": {r"^4\d\d$": {"type": "integer", "minimum": 0}},
            "additionalProperties": False,
        }
    ),
]


class WindowBuckets(Closed):
    """A histogram in seconds: one count more than edges, for what lies beyond the last."""

    edges: Annotated[list[Edge], Field(min_length=1)]
    counts: Annotated[list[Count], Field(min_length=2)]


Figure = list[MaybeSeconds] | WindowBuckets


class WindowFailures(Closed):
    """Requests the model failed, by class; streams that ended early are not among them."""

    connect_failed: Count | None = None
    error_event: Count | None = None
    first_byte_timeout: Count | None = None
    http_error: Count | None = None
    """A status from 500."""
    idle_timeout: Count | None = None
    upstream_closed: Count | None = None
    upstream_protocol: Count | None = None


class WindowBinding(Closed):
    """One revision behind the route."""

    revision: Digest
    weight: Annotated[int, Field(ge=0, le=100)]
    """Percent; all weights add up to 100."""
    attempted: Count
    """Everything bound to this revision: all counts below together."""
    completed: Count
    failed_by_class: WindowFailures
    cut_streams: Count
    client_faults: ClientFaults
    """By status."""
    client_cancelled: Count
    unobserved: Count
    """Requests of which the router cannot say how they ended."""
    restarts: Count
    ttft_s: Figure | None = None
    """A value for every completed request, null for one without; or a histogram."""
    tpot_s: Figure | None = None
    e2e_s: Figure | None = None


class WindowGeneration(Closed):
    """Of the route table when the window opened and when it closed; a window in which it changed is void."""

    opened: Count
    closed: Count


class WindowFile(Closed):
    """What every revision was asked and answered between two times."""

    schema_: Annotated[Literal["infercrane.window/v1"], Field(alias="schema")]
    tool_version: str
    service: str
    generation: WindowGeneration
    started_at: UtcTime
    ended_at: UtcTime
    bindings: Annotated[list[WindowBinding], Field(min_length=1, max_length=MAX_BINDINGS)]
    stack: Annotated[str, Field(min_length=1, max_length=MAX_STACK)] | None = None
    """The stack whose route this was, `<project>/<stack>`; a decision about another one refuses the window."""
    decision_id: Digest | None = None
    """The decision behind the route."""
    lost: Literal["worker", "router"] | None = None
    """A process counted too and was lost: what is here is true, and something is missing."""
    attestation: Attestation | None = None
    """Who vouches for it, over everything else here in RFC 8785 form."""


def schema() -> dict[str, Any]:
    """Of the whole file."""
    return document(WindowFile, "infercrane.window/v1")
