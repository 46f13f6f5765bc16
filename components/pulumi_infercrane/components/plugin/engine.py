"""The engine that started this process: messages to its user, and whether it still lives."""

import logging

import grpc
import grpc.aio
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc

from pulumi_infercrane.components.plugin.resource import Severity

PROBE_TIMEOUT_S = 5.0
LOG_TIMEOUT_S = 5.0
DEAD = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)

_SEVERITIES = {
    "debug": engine_pb2.DEBUG,
    "info": engine_pb2.INFO,
    "warning": engine_pb2.WARNING,
    "error": engine_pb2.ERROR,
}
_log = logging.getLogger(__name__)


class EngineLink:
    """Connection to the engine. Without an address (before Attach) messages only go to our own stderr."""

    def __init__(self, address: str = "") -> None:
        self.address = ""
        self._channel: grpc.aio.Channel | None = None
        if address:
            self.attach(address)

    def attach(self, address: str) -> None:
        """Talk to the engine at `address` from now on."""
        self.address = address
        self._channel = grpc.aio.insecure_channel(address)

    async def log(self, severity: Severity, message: str, urn: str = "") -> None:
        """Show `message` to the user, beside the resource `urn` when given. Never raises."""
        if self._channel is None:
            _log.info("%s: %s", severity, message)
            return
        request = engine_pb2.LogRequest(severity=_SEVERITIES[severity], message=message, urn=urn)
        try:
            await engine_pb2_grpc.EngineStub(self._channel).Log(request, timeout=LOG_TIMEOUT_S)
        except grpc.aio.AioRpcError as error:
            _log.warning("message not delivered to the engine (%s): %s", error.code(), message)

    async def is_alive(self) -> bool:
        """Whether the engine answers at its address, be it only to say that it has no health service."""
        if self._channel is None:
            return False
        check = self._channel.unary_unary("/grpc.health.v1.Health/Check")
        try:
            await check(b"", timeout=PROBE_TIMEOUT_S)
        except grpc.aio.AioRpcError as error:
            return error.code() not in DEAD
        return True

    async def close(self) -> None:
        """Drop the connection."""
        if self._channel is not None:
            await self._channel.close()
