"""What follows from an outcome: for the replica, and for a client that got nothing of an answer yet."""

from pulumi_infercrane.router.protocol.observer import Outcome
from pulumi_infercrane.router.routing.replicas import Replicas
from pulumi_infercrane.router.routing.routes import Endpoint

_ANSWERED = frozenset({Outcome.COMPLETE, Outcome.UNOBSERVED})
_FAULTS = frozenset(
    {
        Outcome.ABORTED,
        Outcome.ERROR_EVENT,
        Outcome.FIRST_BYTE_TIMEOUT,
        Outcome.IDLE_TIMEOUT,
        Outcome.TRUNCATED,
        Outcome.UPSTREAM_CLOSED,
        Outcome.UPSTREAM_PROTOCOL,
    }
)

REFUSALS = {
    Outcome.UPSTREAM_CLOSED: (502, "upstream_closed"),
    Outcome.UPSTREAM_PROTOCOL: (502, "upstream_protocol"),
    Outcome.FIRST_BYTE_TIMEOUT: (504, "upstream_timeout"),
    Outcome.TOTAL_TIMEOUT: (504, "upstream_timeout"),
    Outcome.CONNECT_FAILED: (503, "connect_failed"),
    Outcome.SHED: (503, "draining"),
}
"""Status and code of the router's own answer, where nothing of the upstream's was sent."""


def judge(replicas: Replicas, endpoint: Endpoint, outcome: Outcome, status: int) -> None:
    """What the outcome says about the replica; a failed connect was noted when it failed."""
    if outcome in _ANSWERED:
        replicas.succeeded(endpoint)
    elif outcome in _FAULTS:
        replicas.failed(endpoint)
    elif outcome is Outcome.HTTP_ERROR:
        (replicas.failed if status >= 500 else replicas.succeeded)(endpoint)
