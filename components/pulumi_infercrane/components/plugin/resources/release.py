"""`infercrane:index:Release`: the one place where the active revision of a service changes.

Check decides (pure), Update performs the compare-and-swap on the router and nothing else, Read asks the router what
it serves, Delete forgets. Contract and traps: `docs/release.md`.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc

from pulumi_infercrane.components import deciding
from pulumi_infercrane.components.deciding import Outcome
from pulumi_infercrane.components.plugin.resource import (
    CheckRequest,
    CheckResult,
    Context,
    CreateRequest,
    CreateResult,
    DeleteRequest,
    DiffRequest,
    DiffResult,
    Failure,
    PartialFailure,
    Properties,
    ReadRequest,
    ReadResult,
    UpdateRequest,
    UpdateResult,
)
from pulumi_infercrane.components.plugin.route_calls import (
    expiry,
    flip_id,
    nothing_else_serves,
    refuse_expired,
    refuse_unready,
    router_of,
    set_weights,
)
from pulumi_infercrane.components.plugin.wire import UNKNOWN, contains_secret, contains_unknown
from pulumi_infercrane.guard import Decision, GuardError, Ledger, LedgerError
from pulumi_infercrane.guard.times import format_time
from pulumi_infercrane.router.control.client import (
    ControlClient,
    Flip,
    RouterError,
    RouterUnreachable,
    ServiceUnknown,
)

SEMANTIC_KEYS = (
    "service",
    "route",
    "candidate",
    "revisions",
    "activeRevision",
    "previousRevision",
    "weights",
    *(name for name in deciding.DECISION_FIELDS if name != "decidedAt"),
)
"""The inputs whose change is a change; paths and times around them are not."""

MUST_BE_KNOWN = ("service", "stack", "candidate", "revisions", "route", "ledger")
ONCE = ("rollbackTo", "rollbackReason", "override")
"""What is asked for once: it shows in the decision, and is not asked again by the run after it."""

LARGE = ("policy", "evidence")
"""Inputs whose problems are reported without their value; the reason names file and line."""

MAX_EVIDENCE_BYTES = 64 * 1024
CANARY_STEP = "canary_step"


class Release:
    """Servicer of one resource type. Keeps the records decided in this process, so that Update can store them."""

    token = "infercrane:index:Release"  # noqa: S105 - a Pulumi type token
    refresh_before_update = True

    def __init__(self) -> None:
        self._decided: dict[str, Decision] = {}

    @property
    def schema(self) -> Mapping[str, Any]:
        return _SCHEMA

    async def check(self, request: CheckRequest) -> CheckResult:
        problems = _unreadable(request.news)
        if problems:
            return CheckResult(request.news, problems)
        old = {**(request.olds or {}), **(request.old_outputs or {})}
        if contains_unknown([request.news.get("evidence"), request.news.get("policy")]):
            return _evidence_not_known_yet(request.news, old)
        outcome = deciding.check(deciding.declared_from(request.news, _root(request.context)), old)
        return self._remember(request.news, outcome)

    def _remember(self, news: Properties, outcome: Outcome) -> CheckResult:
        if outcome.decision is not None:
            self._decided[outcome.decision.decision_id] = outcome.decision
        declared = {name: value for name, value in news.items() if name not in ONCE}
        return CheckResult({**declared, **outcome.fields}, [_briefly(problem) for problem in outcome.problems])

    async def diff(self, request: DiffRequest) -> DiffResult:
        changed = [key for key in SEMANTIC_KEYS if _differs(request.old_inputs.get(key), request.news.get(key))]
        served = request.old_outputs.get("servedRevision")
        if served is not None and served != request.news.get("activeRevision") and "activeRevision" not in changed:
            changed.append("activeRevision")
        return DiffResult(changed=changed)

    async def create(self, request: CreateRequest) -> CreateResult:
        name = f"release/{request.inputs['service']}"
        if request.preview:
            return CreateResult("", _outputs(request.inputs, generation=UNKNOWN))
        async with router_of(request.inputs) as router:
            live = await nothing_else_serves(router, request.inputs)
            self._store(request.inputs)
            generation = live.generation
            if request.inputs["activeRevision"]:
                generation = await self._flip(router, name, request.inputs, expected_active=live.active)
        return CreateResult(name, _outputs(request.inputs, generation))

    async def update(self, request: UpdateRequest) -> UpdateResult:
        inputs, old = request.inputs, request.old_outputs
        if _is_step(inputs, old):
            return await self._update_weights(request)
        target, active = inputs["activeRevision"], old.get("servedRevision") or old.get("activeRevision", "")
        known = old.get("routeGeneration", ""), old.get("weightsSince", "")
        if request.preview:
            return UpdateResult(_outputs(inputs, *known) if target == active else _outputs(inputs, generation=UNKNOWN))
        if target == active and old.get("servedRevision", active) == target:
            self._store(inputs)
            return UpdateResult(_outputs(inputs, *known))
        async with router_of(inputs) as router:
            await refuse_unready(router, inputs)
            await refuse_expired(router, inputs)
            self._store(inputs)
            generation = await self._flip(
                router,
                request.id,
                inputs,
                expected_active=old.get("servedRevision", active),
                expected_weights=old.get("weights") if inputs.get("decisionType") == CANARY_STEP else None,
            )
        return UpdateResult(_outputs(inputs, generation))

    async def _update_weights(self, request: UpdateRequest) -> UpdateResult:
        """The active revision stays, and shares the traffic otherwise than before."""
        inputs, old = request.inputs, request.old_outputs
        if request.preview:
            return UpdateResult(_outputs(inputs, generation=UNKNOWN, since=UNKNOWN))
        self._store(inputs)
        since = format_time(datetime.now(UTC))
        async with router_of(inputs) as router:
            generation = await set_weights(router, inputs, expected=old.get("weights") or {})
        return UpdateResult(_outputs(inputs, generation, since))

    async def read(self, request: ReadRequest) -> ReadResult:
        unchanged = ReadResult(request.id, request.inputs, request.outputs)
        if not request.inputs:
            return unchanged
        try:
            async with router_of(request.inputs) as router:
                live = await router.get(request.inputs["service"])
        except RouterUnreachable as error:
            await request.context.log("warning", f"router not reachable, recorded route kept: {error}", request.urn)
            return unchanged
        except ServiceUnknown:
            return ReadResult(request.id, request.inputs, {**request.outputs, "servedRevision": ""})
        outputs = {
            **request.outputs,
            "servedRevision": live.active,
            "servedDecision": live.decision_id,
            "routeGeneration": live.generation,
        }
        if not live.active:
            return ReadResult(request.id, request.inputs, outputs)
        repaired = {"activeRevision": live.active, "weights": deciding.shares(live.weights)}
        return ReadResult(request.id, {**request.inputs, **repaired}, {**outputs, **repaired})

    async def delete(self, request: DeleteRequest) -> None:
        """Forget only: the route and the revisions stay as they are."""

    def _store(self, inputs: Properties) -> None:
        """Write the decision to the ledger before anything moves. A carried-over decision must be there already."""
        decision_id, ledger = inputs.get("decisionId", ""), Ledger(Path(inputs["ledger"]))
        decision = self._decided.get(decision_id)
        try:
            if decision is not None:
                ledger.append(decision.record)
            elif decision_id and all(entry.decision["decision_id"] != decision_id for entry in ledger.entries()):
                raise LedgerError(f"{ledger.path} does not hold the decision {decision_id}: restore it from a copy")
        except (GuardError, OSError) as error:
            raise Failure(
                grpc.StatusCode.FAILED_PRECONDITION, f"decision not stored, route not touched: {error}"
            ) from error

    async def _flip(
        self,
        router: ControlClient,
        name: str,
        inputs: Properties,
        *,
        expected_active: str,
        expected_weights: Mapping[str, int] | None = None,
    ) -> str:
        target = inputs["activeRevision"]
        flip = Flip(
            expected_active=expected_active,
            to=target,
            decision_id=flip_id(inputs),
            expires_at=expiry(inputs),
            expected_weights=expected_weights,
        )
        try:
            return (await router.flip(inputs["service"], flip)).generation
        except RouterUnreachable as error:
            return await _after_lost_answer(router, name, inputs, error)
        except RouterError as error:
            raise Failure(grpc.StatusCode.ABORTED, f"route not moved to {target}: {error.code}: {error}") from error


def _root(context: Context) -> Path:
    return context.root_directory or context.program_directory or Path.cwd()


def _briefly(problem: tuple[str, str]) -> tuple[str, str]:
    """The engine shows the value of a property it is told of: a whole policy would bury the reason."""
    name, reason = problem
    return ("" if name in LARGE else name), reason


def _unreadable(news: Properties) -> list[tuple[str, str]]:
    unknown = [(key, "must be known at preview") for key in MUST_BE_KNOWN if contains_unknown(news.get(key))]
    secret = [
        (key, "may not be secret: it enters the decision's digest, which is shown to everybody")
        for key in ("evidence", "policy", *MUST_BE_KNOWN)
        if contains_secret(news.get(key))
    ]
    size = len(str(news.get("evidence") or ""))
    large = [
        (
            "evidence",
            f"{size} bytes of references; at most {MAX_EVIDENCE_BYTES}: move old evidence out of the folder",
        )
    ]
    return unknown + secret + (large if size > MAX_EVIDENCE_BYTES else [])


def _evidence_not_known_yet(news: Properties, old: Mapping[str, Any]) -> CheckResult:
    """Evidence or policy depend on something this very update creates: keep what serves."""
    active = old.get("activeRevision", "")
    if not active:
        return CheckResult(news, [("policy", "must be known at the first deployment")])
    kept = dict.fromkeys(deciding.DECISION_FIELDS, "") | {
        "verdict": "insufficient_evidence",
        "action": "keep",
        "decisionTarget": active,
        "reasons": ["evidence or policy not known at preview"],
        "activeRevision": active,
        "previousRevision": old.get("previousRevision", ""),
        "weights": old.get("weights") or {},
    }
    return CheckResult({**news, **kept})


def _differs(old: Any, new: Any) -> bool:
    """What is empty, and what a state of an earlier version does not have, are the same."""
    return bool(old or new) and old != new


def _is_step(inputs: Properties, old: Mapping[str, Any]) -> bool:
    """Whether the active revision stays, and only the shares beside it change."""
    active = inputs["activeRevision"]
    stays = old.get("activeRevision") == active == old.get("servedRevision", active)
    return stays and _differs(old.get("weights"), inputs.get("weights"))


async def _after_lost_answer(router: ControlClient, name: str, inputs: Properties, error: RouterUnreachable) -> str:
    """The answer was lost: what the router serves now says whether the flip happened."""
    target = inputs["activeRevision"]
    try:
        live = await router.get(inputs["service"])
    except RouterUnreachable:
        if not error.sent:
            raise Failure(grpc.StatusCode.UNAVAILABLE, f"route not moved to {target}: {error}") from error
        reason = f"the router went silent while the route was moved to {target}: {error}"
        raise PartialFailure(name, _outputs(inputs, ""), [reason]) from error
    if live.active == target:
        return live.generation
    raise Failure(grpc.StatusCode.UNAVAILABLE, f"route not moved, it still serves {live.active}: {error}") from error


def _outputs(inputs: Properties, generation: Any, since: Any = "") -> dict[str, Any]:
    names = ("service", "candidate", "previousRevision", *deciding.DECISION_FIELDS)
    outputs = {name: inputs.get(name, "") for name in names}
    active = inputs["activeRevision"]
    served = {"servedRevision": active, "servedDecision": flip_id(inputs) if active else ""}
    shared = {"weights": inputs.get("weights") or {}, "weightsSince": since}
    return outputs | {"activeRevision": active, **served, **shared, "routeGeneration": generation}


_TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": _TEXT}
_ANY = {"$ref": "pulumi.json#/Any"}
_INPUTS: dict[str, Any] = {
    "service": _TEXT,
    "stack": _TEXT,
    "candidate": _TEXT,
    "revisions": _TEXTS,
    "route": _ANY,
    "policy": _ANY,
    "evidence": {"type": "array", "items": _ANY},
    "evidenceFolder": _TEXT,
    "ledger": _TEXT,
    "windows": _TEXT,
    "asOf": _TEXT,
    "initialActive": _TEXT,
    "rollbackTo": _TEXT,
    "rollbackReason": _TEXT,
    "override": _TEXT,
}
_OUTPUTS: dict[str, Any] = {
    "service": _TEXT,
    "candidate": _TEXT,
    "activeRevision": _TEXT,
    "previousRevision": _TEXT,
    "servedRevision": _TEXT,
    "servedDecision": _TEXT,
    "routeGeneration": _TEXT,
    "weights": {"type": "object", "additionalProperties": {"type": "integer"}},
    "weightsSince": _TEXT,
    **{name: _TEXTS if name == "reasons" else _TEXT for name in deciding.DECISION_FIELDS},
}
_SCHEMA: dict[str, Any] = {
    "description": "Moves the route of a service to a candidate when, and only when, the evidence says promote.",
    "inputProperties": _INPUTS,
    "requiredInputs": ["service", "stack", "revisions", "route", "policy", "evidenceFolder", "ledger"],
    "properties": _OUTPUTS,
    "required": ["activeRevision", "verdict", "decisionId"],
}

RESOURCE = Release()
