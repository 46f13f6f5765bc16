"""`infercrane:index:Route`: what a router is told about a service. Never which of its revisions is active.

Revisions, their addresses and the settings of the table are changed here, in place, in one compare-and-swap; the flip
belongs to Release.
"""

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import grpc

from pulumi_infercrane.components.plugin import route_table
from pulumi_infercrane.components.plugin.resource import (
    CheckRequest,
    CheckResult,
    CreateRequest,
    CreateResult,
    DeleteRequest,
    DiffRequest,
    DiffResult,
    Failure,
    Properties,
    ReadRequest,
    ReadResult,
    UpdateRequest,
    UpdateResult,
)
from pulumi_infercrane.components.plugin.wire import UNKNOWN
from pulumi_infercrane.router.control.client import (
    ControlClient,
    LiveService,
    RouterError,
    RouterUnreachable,
    ServiceUnknown,
)

KEYS = ("control", "service", "aliases", "revisions", *route_table.SETTINGS)
DRAIN_POLL_S = 0.1


class Route:
    """Servicer of one resource type."""

    token = "infercrane:index:Route"  # noqa: S105 - a Pulumi type token
    refresh_before_update = True

    @property
    def schema(self) -> Mapping[str, Any]:
        return _SCHEMA

    async def check(self, request: CheckRequest) -> CheckResult:
        old_service = (request.olds or {}).get("service", request.news.get("service"))
        if old_service != request.news.get("service"):
            return CheckResult(request.news, [("service", "a service cannot be renamed: declare a new one")])
        return CheckResult(*route_table.with_whole_settings(request.news))

    async def diff(self, request: DiffRequest) -> DiffResult:
        changed = [key for key in KEYS if request.old_inputs.get(key) != request.news.get(key)]
        if not changed and request.old_outputs.get("drift"):
            changed = ["revisions"]
        return DiffResult(changed=changed)

    async def create(self, request: CreateRequest) -> CreateResult:
        name = f"route/{request.inputs['service']}"
        if request.preview:
            return CreateResult("", _outputs(request.inputs, UNKNOWN))
        return CreateResult(name, _outputs(request.inputs, await _put(request.inputs, {})))

    async def update(self, request: UpdateRequest) -> UpdateResult:
        if request.preview:
            return UpdateResult(_outputs(request.inputs, UNKNOWN))
        await _drain_removed(request.inputs)
        return UpdateResult(_outputs(request.inputs, await _put(request.inputs, request.old_inputs)))

    async def read(self, request: ReadRequest) -> ReadResult:
        if not request.inputs:
            return ReadResult(request.id)
        try:
            async with _router(request.inputs) as router:
                live = await router.get(request.inputs["service"])
        except RouterUnreachable as error:
            await request.context.log("warning", f"router not reachable, recorded route kept: {error}", request.urn)
            return ReadResult(request.id, request.inputs, request.outputs)
        except ServiceUnknown:
            return ReadResult(request.id, request.inputs, {**request.outputs, "drift": True})
        inputs = route_table.seen(request.inputs, live.table)
        outputs = _outputs(inputs, live.generation) | {"drift": route_table.strayed(inputs, live.table)}
        return ReadResult(request.id, inputs, outputs)

    async def delete(self, request: DeleteRequest) -> None:
        async with _router(request.inputs) as router:
            try:
                await _drain_all(router, request.inputs)
                await router.delete(request.inputs["service"])
            except (RouterUnreachable, ServiceUnknown):
                return
            except RouterError as error:
                raise Failure(grpc.StatusCode.FAILED_PRECONDITION, f"route not removed: {error}") from error


def _router(inputs: Properties) -> ControlClient:
    return ControlClient(Path(inputs["control"]))


async def _put(inputs: Properties, before: Properties) -> str:
    service = inputs["service"]
    try:
        async with _router(inputs) as router:
            live = await _live(router, service)
            body = route_table.table(inputs, before, live.table if live else {})
            return (await router.put(service, body, if_match=live.generation if live else None)).generation
    except RouterError as error:
        raise Failure(
            grpc.StatusCode.FAILED_PRECONDITION, f"route of service {service}: {error.code}: {error}"
        ) from error


async def _live(router: ControlClient, service: str) -> LiveService | None:
    try:
        return await router.get(service)
    except ServiceUnknown:
        return None


async def _drain_removed(inputs: Properties) -> None:
    """A revision that leaves the program first finishes its open streams, up to `drainS` seconds."""
    service, kept = inputs["service"], {revision["digest"] for revision in inputs["revisions"]}
    try:
        async with _router(inputs) as router:
            live = await router.get(service)
            for digest in set(live.table["revisions"]) - kept - {live.active}:
                await _drain(router, service, digest, float(inputs["drainS"]))
    except ServiceUnknown:
        return
    except RouterError as error:
        raise Failure(grpc.StatusCode.FAILED_PRECONDITION, f"drain of service {service}: {error}") from error


async def _drain_all(router: ControlClient, inputs: Properties) -> None:
    live = await router.get(inputs["service"])
    for digest in set(live.table["revisions"]) - {live.active}:
        await _drain(router, inputs["service"], digest, float(inputs["drainS"]))


async def _drain(router: ControlClient, service: str, revision: str, deadline_s: float) -> None:
    await router.drain(service, revision, deadline_s)
    give_up = time.monotonic() + deadline_s + 1
    while not (await router.drain_state(service, revision)).done and time.monotonic() < give_up:  # noqa: ASYNC110
        await asyncio.sleep(DRAIN_POLL_S)


def _outputs(inputs: Properties, generation: Any) -> dict[str, Any]:
    return {**inputs, "generation": generation, "drift": False}


_TEXT = {"type": "string"}
_ANY = {"$ref": "pulumi.json#/Any"}
_INPUTS: dict[str, Any] = {
    "control": _TEXT,
    "service": _TEXT,
    "aliases": {"type": "array", "items": _TEXT},
    "protocols": {"type": "array", "items": _TEXT},
    "revisions": {"type": "array", "items": _ANY},
    "drainS": {"type": "number"},
}
_SETTINGS: dict[str, Any] = {
    **dict.fromkeys(route_table.SETTINGS, _ANY),
    **dict.fromkeys(("session_header", "fallback", "balance", "stack"), _TEXT),
    "pins": {"type": "array", "items": _TEXT},
    "pinning": {"type": "boolean"},
}
_SCHEMA: dict[str, Any] = {
    "description": "What a router is told about one service: its revisions and their addresses, limits, pins …",
    "inputProperties": {**_INPUTS, **_SETTINGS},
    "requiredInputs": list(_INPUTS),
    "properties": {**_INPUTS, **_SETTINGS, "generation": _TEXT, "drift": {"type": "boolean"}},
    "required": ["generation"],
}

RESOURCE = Route()
