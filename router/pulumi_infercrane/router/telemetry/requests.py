"""One request, as far as it is told to anybody: how it was asked, and how it ended.

Neither is frozen: both are made for every request, and a frozen one takes three times as long to make.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from pulumi_infercrane.router.protocol.observer import Observer, Outcome
from pulumi_infercrane.router.telemetry.trace_context import Span


@dataclass(slots=True)
class Asked:
    """Kept from the arrival of a request to its end, which somebody tells by `tell`. Bytes are as they came."""

    tell: "Callable[[Ended], None]"
    at: float
    """When it was complete, by the router's monotonic clock."""
    request_id: bytes
    method: bytes
    path: bytes
    peer: bytes
    model: str = ""
    """The alias that was asked for."""
    key: str = ""
    """Name of the client key; never the key."""
    span: Span | None = None
    queued_s: float | None = None

    def answered(
        self,
        outcome: Outcome,
        status: int | None,
        reason: str,
        observer: Observer,
        by: tuple[str, str, str],
        attempt: int,
    ) -> None:
        """Tell of a request that was bound; `by` is the service, the revision and the upstream."""
        ttft_s: float | None = None
        tokens: tuple[int | None, int | None, str] = (None, None, "")
        if observer.streaming and observer.first_content_at is not None:
            ttft_s = observer.first_content_at - self.at
        if observer.usage is not None:
            tokens = observer.usage.prompt, observer.usage.completion, "usage"
        elif observer.streaming:
            tokens = None, observer.content_events, "events"
        self.tell(Ended(self, outcome, status, reason, *by, attempt, ttft_s, *tokens))

    def end(self, outcome: Outcome, status: int | None, reason: str = "", service: str = "") -> None:
        """Tell of a request that no revision answered."""
        self.tell(Ended(self, outcome, status, reason, service))


@dataclass(slots=True)
class Ended:
    """How a request ended. Durations in seconds; a figure that is not known is None."""

    asked: Asked
    outcome: Outcome
    status: int | None
    """What the client was told; None when it left before."""
    reason: str = ""
    """The error code of an answer of the router's own."""
    service: str = ""
    revision: str = ""
    upstream: str = ""
    attempt: int = 0
    ttft_s: float | None = None
    """Until the first content of a stream, waiting in a queue included."""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    token_source: str = ""
    """`usage` of the server, or `events` counted."""
    at: float = 0.0
    """When that was, by the wall clock (seconds since 1970); known once it is told."""
    seconds: float = 0.0
    """From the whole request to the end of the answer; likewise."""


Noted = TypeVar("Noted")


class Listener(Protocol[Noted]):
    """Somebody who wants to know of every request."""

    def note(self, ended: Sequence[Ended]) -> Noted:
        """What is to be told of these requests. Called in the thread of the event loop: nothing here may wait."""

    def tell(self, noted: Noted) -> None:
        """Tell it. Called in a thread of its own."""

    def close(self) -> None:
        """Nothing follows."""
