"""What a Release asks of the router: one compare-and-swap of the weights, and what must be known before any."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc

from pulumi_infercrane.components import runtimes
from pulumi_infercrane.components.plugin.resource import Failure, Properties
from pulumi_infercrane.components.runtimes import Readiness
from pulumi_infercrane.components.supervision import readiness
from pulumi_infercrane.components.supervision.readiness import Probe
from pulumi_infercrane.router.control.client import ControlClient, LiveService, RouterError, RouterUnreachable, Weights

WHOLE = 100
"""Percent of a route."""


def router_of(inputs: Properties) -> ControlClient:
    """The router that carries the route of a Release."""
    return ControlClient(Path(inputs["route"]["control"]))


async def nothing_else_serves(router: ControlClient, inputs: Properties) -> LiveService:
    """The route, serving nothing or the very revision. Anything else is somebody's production, never overwritten."""
    service, first = inputs["service"], inputs["activeRevision"]
    try:
        live = await router.get(service)
    except RouterError as error:
        raise Failure(grpc.StatusCode.UNAVAILABLE, f"router of service {service}: {error}") from error
    if live.active not in ("", first):
        raise Failure(
            grpc.StatusCode.FAILED_PRECONDITION,
            f"the route of service {service} already serves {live.active}, not {first or 'nothing'}: "
            "declare that revision and name it as initialActive",
        )
    return live


async def refuse_expired(router: ControlClient, inputs: Properties) -> None:
    """The one place that reads a clock. A flip that is live already, and a rollback, do not expire."""
    expires_at = expiry(inputs)
    if not expires_at or datetime.fromisoformat(expires_at) > datetime.now(UTC):
        return
    try:
        live = await router.get(inputs["service"])
    except RouterError as error:
        raise Failure(grpc.StatusCode.UNAVAILABLE, f"router of service {inputs['service']}: {error}") from error
    if live.decision_id != inputs["decisionId"]:
        raise Failure(
            grpc.StatusCode.FAILED_PRECONDITION,
            f"the decision expired at {expires_at}, its evidence is too old by now: "
            "measure again (`infercrane collect`)",
        )


async def refuse_unready(router: ControlClient, inputs: Properties) -> None:
    """An order to override needs no evidence, which would show that its target answers: so the target is asked.

    One replica that answers is enough. One that wants a key is not asked: only the router has it. Nor is one that gets
    no new requests, nor any once this very order has moved the route: the run that did so may have been killed.
    """
    if inputs.get("decisionType") != "override":
        return
    service, target = inputs["service"], inputs["activeRevision"]
    try:
        live = await router.get(service)
    except RouterError as error:
        raise Failure(grpc.StatusCode.UNAVAILABLE, f"router of service {service}: {error}") from error
    revision = live.table["revisions"].get(target)
    if revision is None or live.decision_id == inputs["decisionId"]:
        return  # the router refuses it, and says why; or it is done
    serving = [upstream for upstream in revision["upstreams"] if upstream.get("state") != "draining"]
    asked = [upstream["url"] for upstream in serving if not upstream.get("key_ref")]
    told = [f"{url}: {trouble.detail}" for url in asked if (trouble := await readiness.problem(_probe(revision, url)))]
    if told and len(told) == len(asked):
        text = f"revision {target} is not ready, route not moved ({'; '.join(told)})"
        raise Failure(grpc.StatusCode.FAILED_PRECONDITION, text)


def _probe(revision: Mapping[str, Any], url: str) -> Probe:
    dialect = revision["dialect"]
    paths = runtimes.find(dialect).readiness if dialect in runtimes.names() else Readiness("/v1/models")
    return Probe(url, paths.health_path, "", revision["upstream_model"], paths.models_path, paths.generation_path)


def expiry(inputs: Properties) -> str:
    """From when on a decision is refused; empty when it never is."""
    return "" if inputs.get("decisionType") == "rollback" else str(inputs.get("expiresAt", ""))


def flip_id(inputs: Properties) -> str:
    """Unguarded restores (a router that lost its table) have no decision; the revision itself names them."""
    return str(inputs.get("decisionId") or f"unguarded:{inputs['activeRevision']}")


async def set_weights(router: ControlClient, inputs: Properties, expected: Mapping[str, int]) -> str:
    """Generation of the route that carries the weights of the inputs, none of which is all for the active revision."""
    service, active = inputs["service"], inputs["activeRevision"]
    wanted = dict(inputs.get("weights") or {active: WHOLE})
    weights = Weights(
        expected_active=active,
        weights=wanted,
        decision_id=flip_id(inputs),
        expires_at=expiry(inputs),
        expected_weights=dict(expected or {active: WHOLE}),
    )
    try:
        return (await router.set_weights(service, weights)).generation
    except RouterUnreachable as error:
        live = await _after_silence(router, service, error)
        if dict(live.weights) == wanted:
            return live.generation
        raise Failure(grpc.StatusCode.UNAVAILABLE, f"weights not set, {error}") from error
    except RouterError as error:
        raise Failure(grpc.StatusCode.ABORTED, f"weights not set: {error.code}: {error}") from error


async def _after_silence(router: ControlClient, service: str, error: RouterUnreachable) -> LiveService:
    try:
        return await router.get(service)
    except RouterError:
        raise Failure(grpc.StatusCode.UNAVAILABLE, f"weights not set: {error}") from error
