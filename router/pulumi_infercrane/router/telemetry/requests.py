"""One request, as far as it is told to anybody: how it was asked, and how it ended."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from pulumi_infercrane.router.protocol.observer import Observer, Outcome
from pulumi_infercrane.router.telemetry.trace_context import Span


class Asked(NamedTuple):
    """Kept from the arrival of a request to its end, which somebody tells by `tell`."""

    tell: "Callable[[Ended], None]"
    at: float
    """When it was complete, by the router's monotonic clock."""
    request_id: str
    method: str
    path: str
    peer: str
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
        content_at = observer.first_content_at if observer.streaming else None
        tokens: tuple[int | None, int | None, str] = (None, None, "")
        if observer.usage is not None:
            tokens = observer.usage.prompt, observer.usage.completion, "usage"
        elif observer.streaming:
            tokens = None, observer.content_events, "events"
        ttft_s = content_at - self.at if content_at is not None else None
        self.tell(Ended(self, outcome, status, reason, *by, attempt, ttft_s, *tokens))

    def end(self, outcome: Outcome, status: int | None, reason: str = "", service: str = "") -> None:
        """Tell of a request that no revision answered."""
        self.tell(Ended(self, outcome, status, reason, service))


class Ended(NamedTuple):
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


class Told(NamedTuple):
    """What listeners get: the end, and its time by the wall clock (seconds since 1970)."""

    ended: Ended
    at: float
    seconds: float
    """From the whole request to the end of the answer."""


class Listener(Protocol):
    """Called in a thread of its own."""

    def __call__(self, batch: Sequence[Told]) -> None:
        """Tell these requests."""

    def close(self) -> None:
        """Nothing follows."""
