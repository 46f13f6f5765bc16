"""`infercrane:index:Route`: which revisions a router knows and where they answer. Never which of them is active.

Adding and removing revisions and upstreams is done here, in one compare-and-swap; the flip belongs to Release.
"""

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import grpc

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
from pulumi_infercrane.router.control import (
    ControlClient,
    LiveService,
    RouterError,
    RouterUnreachable,
    ServiceUnknown,
)

KEYS = ("control", "service", "aliases", "revisions")
KEPT = ("pins", "pinning", "session_header", "fallback", "mirror", "timers", "limits")
"""Settings of a table that this resource does not declare, and leaves as they are."""
KEPT_OF_REVISION = ("balance", "health")
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
        return CheckResult(request.news)

    async def diff(self, request: DiffRequest) -> DiffResult:
        changed = [key for key in KEYS if request.old_inputs.get(key) != request.news.get(key)]
        if not changed and request.old_outputs.get("drift"):
            changed = ["revisions"]
        return DiffResult(changed=changed)

    async def create(self, request: CreateRequest) -> CreateResult:
        name = f"route/{request.inputs['service']}"
        if request.preview:
            return CreateResult("", _outputs(request.inputs, UNKNOWN))
        return CreateResult(name, _outputs(request.inputs, await _put(request.inputs)))

    async def update(self, request: UpdateRequest) -> UpdateResult:
        if request.preview:
            return UpdateResult(_outputs(request.inputs, UNKNOWN))
        await _drain_removed(request.inputs)
        return UpdateResult(_outputs(request.inputs, await _put(request.inputs)))

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
        drift = _upstreams(live.table["revisions"]) != _upstreams(_revisions(request.inputs))
        outputs = {**request.outputs, "generation": live.generation, "drift": drift}
        return ReadResult(request.id, request.inputs, outputs)

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


async def _put(inputs: Properties) -> str:
    service = inputs["service"]
    try:
        async with _router(inputs) as router:
            live = await _live(router, service)
            body = _table(inputs, live.table if live else {})
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


def _table(inputs: Properties, live: Mapping[str, Any]) -> dict[str, Any]:
    """The table to be: what is declared here, and whatever else the router was told about this service.

    A revision that leaves takes what named it along: it can be no pin, mirror or fallback any more.
    """
    revisions = _revisions(inputs)
    kept = {name: live[name] for name in KEPT if name in live}
    if "pins" in kept:
        kept["pins"] = [digest for digest in kept["pins"] if digest in revisions]
    if kept.get("mirror", {}).get("revision") not in revisions:
        kept.pop("mirror", None)
    if kept.get("fallback") not in revisions:
        kept.pop("fallback", None)
    for digest, entry in revisions.items():
        before = live.get("revisions", {}).get(digest, {})
        entry.update({name: before[name] for name in KEPT_OF_REVISION if name in before})
    return {**kept, "aliases": list(inputs["aliases"]), "protocols": list(inputs["protocols"]), "revisions": revisions}


def _revisions(inputs: Properties) -> dict[str, Any]:
    return {
        revision["digest"]: {
            "label": revision["label"],
            "state": "serving",
            "upstream_model": revision["model"],
            "dialect": revision["dialect"],
            "upstreams": [{"id": f"{revision['label']}-{n}", "url": url} for n, url in enumerate(revision["urls"])],
        }
        for revision in inputs["revisions"]
    }


def _upstreams(revisions: Mapping[str, Any]) -> dict[str, list[str]]:
    return {digest: [upstream["url"] for upstream in entry["upstreams"]] for digest, entry in revisions.items()}


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
_INPUTS: dict[str, Any] = {
    "control": _TEXT,
    "service": _TEXT,
    "aliases": {"type": "array", "items": _TEXT},
    "protocols": {"type": "array", "items": _TEXT},
    "revisions": {"type": "array", "items": {"$ref": "pulumi.json#/Any"}},
    "drainS": {"type": "number"},
}
_SCHEMA: dict[str, Any] = {
    "description": "The revisions a router knows for one service, and where each of them answers.",
    "inputProperties": _INPUTS,
    "requiredInputs": list(_INPUTS),
    "properties": {**_INPUTS, "generation": _TEXT, "drift": {"type": "boolean"}},
    "required": ["generation"],
}

RESOURCE = Route()
