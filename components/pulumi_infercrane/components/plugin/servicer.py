"""The engine's resource provider protocol over the resource types of this package."""
# ruff: noqa: N802 - the methods carry the names of the protocol

import functools
import logging
import traceback
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import grpc
from google.protobuf.empty_pb2 import Empty  # type: ignore[import-untyped]
from google.protobuf.struct_pb2 import Struct  # type: ignore[import-untyped]
from pulumi.runtime.proto import plugin_pb2
from pulumi.runtime.proto import provider_pb2 as p
from pulumi.runtime.proto.provider_pb2_grpc import ResourceProviderServicer

from pulumi_infercrane.components.errors import ComponentError
from pulumi_infercrane.components.plugin import wire
from pulumi_infercrane.components.plugin.engine import EngineLink
from pulumi_infercrane.components.plugin.resource import (
    CheckRequest,
    Context,
    CreateRequest,
    DeleteRequest,
    DiffRequest,
    Failure,
    PartialFailure,
    ReadRequest,
    Resource,
    UpdateRequest,
)
from pulumi_infercrane.components.plugin.schema import package_schema
from pulumi_infercrane.components.plugin.status import partial_failure_status

_log = logging.getLogger(__name__)
_Answer = TypeVar("_Answer")
_Method = Callable[["Servicer", Any, Any], Awaitable[_Answer]]


def _answered(method: _Method[_Answer]) -> _Method[_Answer]:
    """No exception leaves the process as one: the engine takes UNKNOWN and INTERNAL for corrupt state."""

    @functools.wraps(method)
    async def call(servicer: "Servicer", request: Any, context: Any) -> _Answer:
        try:
            return await method(servicer, request, context)
        except Failure as failure:
            await context.abort(failure.status, str(failure))
        except PartialFailure as failure:
            refresh = servicer.resource(request.urn).refresh_before_update
            await context.abort_with_status(partial_failure_status(failure, refresh_before_update=refresh))
        except ComponentError as error:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"{error.code}: {error}")
        except Exception as error:  # noqa: BLE001 - the last line of defence
            _log.error("%s %s failed\n%s", method.__name__, request.urn, traceback.format_exc())
            await context.abort(grpc.StatusCode.INTERNAL, _defect(method.__name__, error))
        raise AssertionError("abort raises")

    return call


def _defect(method: str, error: Exception) -> str:
    return f"{method} failed: {type(error).__name__}: {error} (a defect of ours, please report it)"


class Servicer(ResourceProviderServicer):
    """The protocol of the engine over the resource types of this package."""

    def __init__(self, resources: Mapping[str, Resource], link: EngineLink, package_version: str) -> None:
        super().__init__()
        self._resources = resources
        self._link = link
        self._version = package_version
        self._context = Context(log=link.log)

    def resource(self, urn: str) -> Resource:
        """The resource type a URN (`urn:pulumi:stack::project::parents$type::name`) names."""
        token = urn.split("::")[2].rpartition("$")[2]
        if token not in self._resources:
            known = ", ".join(sorted(self._resources))
            raise Failure(grpc.StatusCode.UNIMPLEMENTED, f"no resource type {token}; there is: {known}")
        return self._resources[token]

    def stop_waiting(self) -> None:
        """Tell running calls to end their waits."""
        self._context.cancelled.set()

    async def Handshake(self, request: Any, _context: Any) -> Any:
        self._context = replace(
            self._context,
            program_directory=_directory(request, "program_directory"),
            root_directory=_directory(request, "root_directory"),
        )
        # Refusing output values makes the engine send plain secrets and unknowns, and ids for references.
        return p.ProviderHandshakeResponse(accept_secrets=True, accept_resources=False, accept_outputs=False)

    async def Attach(self, request: Any, _context: Any) -> Any:
        self._link.attach(request.address)
        return Empty()

    async def GetPluginInfo(self, _request: Any, _context: Any) -> Any:
        return plugin_pb2.PluginInfo(version=self._version)

    async def GetSchema(self, _request: Any, _context: Any) -> Any:
        return p.GetSchemaResponse(schema=package_schema(self._resources, self._version))

    async def CheckConfig(self, request: Any, _context: Any) -> Any:
        return p.CheckResponse(inputs=request.news)

    async def DiffConfig(self, _request: Any, _context: Any) -> Any:
        return p.DiffResponse(changes=p.DiffResponse.DIFF_NONE)

    async def Configure(self, _request: Any, _context: Any) -> Any:
        return p.ConfigureResponse(acceptSecrets=True, supportsPreview=True)

    async def Cancel(self, _request: Any, _context: Any) -> Any:
        self.stop_waiting()
        return Empty()

    @_answered
    async def Check(self, request: Any, _context: Any) -> Any:
        checked = await self.resource(request.urn).check(
            CheckRequest(
                context=self._context,
                urn=request.urn,
                name=_name(request.urn),
                olds=_optional(request, "olds"),
                old_outputs=_optional(request, "old_outputs"),
                news=_properties(request.news),
            )
        )
        failures = [p.CheckFailure(property=name, reason=reason) for name, reason in checked.failures]
        return p.CheckResponse(inputs=wire.encode(checked.inputs), failures=failures)

    @_answered
    async def Diff(self, request: Any, _context: Any) -> Any:
        diff = await self.resource(request.urn).diff(
            DiffRequest(
                context=self._context,
                id=request.id,
                urn=request.urn,
                old_inputs=_properties(request.old_inputs),
                old_outputs=_properties(request.olds),
                news=_properties(request.news),
            )
        )
        return p.DiffResponse(
            changes=p.DiffResponse.DIFF_SOME if diff.changed else p.DiffResponse.DIFF_NONE,
            diffs=diff.changed,
            replaces=diff.replaces,
            deleteBeforeReplace=diff.delete_before_replace,
            detailedDiff={name: _change(name, diff.replaces) for name in diff.changed},
            hasDetailedDiff=True,
        )

    @_answered
    async def Create(self, request: Any, _context: Any) -> Any:
        resource = self.resource(request.urn)
        created = await resource.create(
            CreateRequest(
                context=self._context,
                urn=request.urn,
                name=_name(request.urn),
                inputs=_properties(request.properties),
                preview=request.preview,
                timeout_s=request.timeout,
            )
        )
        return p.CreateResponse(
            id=created.id,
            properties=wire.encode(created.outputs),
            refresh_before_update=resource.refresh_before_update,
        )

    @_answered
    async def Read(self, request: Any, _context: Any) -> Any:
        resource = self.resource(request.urn)
        read = await resource.read(
            ReadRequest(
                context=self._context,
                id=request.id,
                urn=request.urn,
                inputs=_properties(request.inputs),
                outputs=_properties(request.properties),
            )
        )
        return p.ReadResponse(
            id=read.id,
            inputs=wire.encode(read.inputs),
            properties=wire.encode(read.outputs),
            refresh_before_update=resource.refresh_before_update,
        )

    @_answered
    async def Update(self, request: Any, _context: Any) -> Any:
        resource = self.resource(request.urn)
        updated = await resource.update(
            UpdateRequest(
                context=self._context,
                id=request.id,
                urn=request.urn,
                old_inputs=_properties(request.old_inputs),
                old_outputs=_properties(request.olds),
                inputs=_properties(request.news),
                preview=request.preview,
                timeout_s=request.timeout,
            )
        )
        return p.UpdateResponse(
            properties=wire.encode(updated.outputs), refresh_before_update=resource.refresh_before_update
        )

    @_answered
    async def Delete(self, request: Any, _context: Any) -> Any:
        await self.resource(request.urn).delete(
            DeleteRequest(
                context=self._context,
                id=request.id,
                urn=request.urn,
                inputs=_properties(request.old_inputs),
                outputs=_properties(request.properties),
                timeout_s=request.timeout,
            )
        )
        return Empty()


def _properties(struct: Struct) -> dict[str, Any]:
    properties: dict[str, Any] = wire.simplified(wire.decode(struct))
    return properties


def _optional(request: Any, field: str) -> dict[str, Any] | None:
    return _properties(getattr(request, field)) if request.HasField(field) else None


def _directory(request: Any, field: str) -> Path | None:
    return Path(getattr(request, field)) if request.HasField(field) else None


def _name(urn: str) -> str:
    return urn.split("::", 3)[3]


def _change(name: str, replaces: Collection[str]) -> Any:
    kind = p.PropertyDiff.UPDATE_REPLACE if name in replaces else p.PropertyDiff.UPDATE
    return p.PropertyDiff(kind=kind, inputDiff=True)
