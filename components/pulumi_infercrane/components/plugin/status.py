"""gRPC status of a partial failure: the engine records the object together with what went wrong."""

from dataclasses import dataclass

import grpc
from pulumi.runtime.proto import provider_pb2, status_pb2

from pulumi_infercrane.components.plugin import wire
from pulumi_infercrane.components.plugin.resource import PartialFailure

DETAILS_KEY = "grpc-status-details-bin"


@dataclass(frozen=True)
class _Status(grpc.Status):  # type: ignore[misc]
    code: grpc.StatusCode
    details: str
    trailing_metadata: tuple[tuple[str, bytes], ...]


def partial_failure_status(failure: PartialFailure, *, refresh_before_update: bool) -> grpc.Status:
    """What to abort the call with; the engine finds id, outputs and reasons in the trailing metadata."""
    detail = provider_pb2.ErrorResourceInitFailed(
        id=failure.id,
        properties=wire.encode(failure.outputs),
        reasons=failure.reasons,
        inputs=None if failure.inputs is None else wire.encode(failure.inputs),
        refresh_before_update=refresh_before_update,
    )
    status = status_pb2.Status(code=grpc.StatusCode.UNKNOWN.value[0], message="not initialised")
    status.details.add().Pack(detail)
    metadata = ((DETAILS_KEY, status.SerializeToString()),)
    return _Status(grpc.StatusCode.UNKNOWN, status.message, metadata)
