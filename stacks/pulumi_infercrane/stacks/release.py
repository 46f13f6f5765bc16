"""One release operation: intent → preview → guard → up → verify.

What is applied is exactly what was previewed and decided: the saved plan pins the decision, and evidence that changed
in between makes the engine stop before the route is touched.
"""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pulumi_infercrane.components import deciding
from pulumi_infercrane.guard import GuardError, Ledger, SigningKey
from pulumi_infercrane.guard.canonical import digest_file
from pulumi_infercrane.guard.files import why
from pulumi_infercrane.router.control.client import ControlClient, LiveService, RouterError
from pulumi_infercrane.stacks import windows
from pulumi_infercrane.stacks.config import StackConfig
from pulumi_infercrane.stacks.engine import Echo, Engine, Preview, Step
from pulumi_infercrane.stacks.errors import EngineError, NotVerified, PlanRefused
from pulumi_infercrane.stacks.needed_files import require_files
from pulumi_infercrane.stacks.operations.journal import Journal, Operation
from pulumi_infercrane.stacks.operations.lock import stack_lock
from pulumi_infercrane.stacks.policy_file import read_policy
from pulumi_infercrane.stacks.project import Project

RELEASE = "infercrane:index:Release"
HARMLESS = ("same", "read", "refresh", "update", "create", "import")
"""Steps that may touch what serves; a create is a process that died and comes back."""


@dataclass(frozen=True)
class Request:
    """What is asked for: a plain `up`, a rollback to the previous revision, or an override."""

    kind: str = "deploy"
    rollback_to: str = ""
    """Digest of the revision to go back to."""
    reason: str = ""
    override: str = ""
    """A signed override, as text."""
    sign_windows_with: SigningKey | None = None

    def environment(self, as_of: str) -> dict[str, str]:
        asked = {
            "INFERCRANE_AS_OF": as_of,
            "INFERCRANE_ROLLBACK_TO": self.rollback_to,
            "INFERCRANE_ROLLBACK_REASON": self.reason,
            "INFERCRANE_OVERRIDE": self.override,
        }
        return {name: value for name, value in asked.items() if value}


@dataclass(frozen=True)
class Result:
    """What an operation came to."""

    operation: str
    verdict: str
    action: str
    decision_id: str
    reasons: tuple[str, ...]
    active_before: str
    active_after: str
    """Digests; empty = none."""
    generation: str
    changed: bool
    """Whether anything was to be applied."""
    weights: Mapping[str, int] = field(default_factory=dict)
    """Percent by revision while a candidate has a share of the traffic; empty otherwise."""
    record: Mapping[str, Any] = field(default_factory=dict)
    """The decision record, empty when nothing was decided."""


def run(project: Project, config: StackConfig, request: Request, echo: Echo) -> Result:
    """Run one operation from intent to verified outcome.

    Raises:
        StackError: one of its kinds; the journal holds the reason.
        KeyboardInterrupt: after the engine ended in good order.
    """
    require_files(config)
    as_of = _now()
    with (
        stack_lock(project.operations, f"infercrane {request.kind} of {project.qualified}") as lock,
        closing(Journal(project.operations / "ops.sqlite")) as journal,
    ):
        _close_interrupted(journal, project.qualified, echo)
        operation = journal.begin(project.qualified, request.kind, _intent(project, config, request, as_of))
        with _recorded(journal, operation):
            return _steps(_Run(project, config, request, as_of, journal, operation, lock, echo))


@dataclass(frozen=True)
class _Run:
    """One operation under way."""

    project: Project
    config: StackConfig
    request: Request
    as_of: str
    journal: Journal
    operation: Operation
    lock: int
    echo: Echo

    def move(self, state: str, detail: Mapping[str, Any] | None = None) -> None:
        self.journal.move(self.operation.id, state, detail)

    def say(self, text: str) -> None:
        self.echo(f"operation {self.operation.id}: {text}")


@contextmanager
def _recorded(journal: Journal, operation: Operation) -> Iterator[None]:
    """Whatever ends an operation early ends up in the journal, then goes on to the caller."""
    try:
        yield
    except BaseException as error:
        reached = journal.get(operation.id).state
        if reached == "applied":
            journal.move(operation.id, "verifying")
        cancelled = isinstance(error, KeyboardInterrupt) and reached not in ("applied", "verifying")
        detail = {"error": str(error), "code": getattr(error, "code", "internal")}
        journal.move(operation.id, "cancelled" if cancelled else "failed", detail)
        raise


def _steps(run: _Run) -> Result:
    engine = Engine(run.project, run.request.environment(run.as_of))
    run.move("planning")
    _take_windows(run)
    run.say("preview")
    preview = engine.preview(run.project.operations / run.operation.id, keep_open=[run.lock])
    run.move("planned", {"plan": digest_file(preview.plan), "changes": len(preview.changes)})
    planned = _guard(run.project, run.request, preview)
    _lint(preview, planned)
    run.move("approved", _approval(planned))
    if not preview.is_empty:
        _apply(run, engine, preview)
    live = verify(run.project, run.config.service, planned.fields)
    run.move("succeeded", {"active": live.active, "generation": live.generation})
    return _result(run, planned, live, changed=not preview.is_empty)


def _take_windows(run: _Run) -> None:
    """What the router counted since the last run is what a canary step is decided on; without it the step holds."""
    if run.request.kind != "deploy" or not _has_steps(run.config):
        return
    try:
        run.say(f"{len(windows.take_all(run.project, run.config, run.request.sign_windows_with))} traffic windows")
    except RouterError as error:
        run.say(f"no traffic windows: {error}")
    except OSError as error:
        run.say(f"no traffic windows: {run.project.place.windows} cannot be written: {why(error)}")


def _has_steps(config: StackConfig) -> bool:
    """Whether the policy asks for a canary; one that cannot be read is told where it is decided on."""
    try:
        return read_policy(config.policy, config.policy.name).canary is not None
    except GuardError:
        return False


def _apply(run: _Run, engine: Engine, preview: Preview) -> None:
    run.move("applying", {"attempt": 1})
    run.say(f"up, {len(preview.changes)} changes, components included")
    engine.up(preview.plan, preview.plan.parent, lambda line: run.echo(f"  {line}"), keep_open=[run.lock])
    run.move("applied")
    run.move("verifying")


@dataclass(frozen=True)
class _Planned:
    """The Release step of the plan, and our own evaluation of the same question."""

    fields: Mapping[str, Any]
    old: Mapping[str, Any]
    outcome: deciding.Outcome


def _guard(project: Project, request: Request, preview: Preview) -> _Planned:
    """Decide again, outside the engine, and insist on the same decision.

    Raises:
        PlanRefused: the plan carries another decision than the evidence on disk leads to.
    """
    step = preview.of_type(RELEASE)
    if step is None:
        raise EngineError(
            "the program declares no Release: use InferenceService, or `pulumi up` for programs without one"
        )
    fields, old = {**(step.new.get("inputs") or {}), **_asked(request)}, _old(step)
    outcome = deciding.check(deciding.declared_from(fields, project.folder), old)
    decided = outcome.fields.get("decisionId")
    if outcome.problems or decided != fields.get("decisionId"):
        detail = "; ".join(reason for _, reason in outcome.problems) or f"{decided} against {fields.get('decisionId')}"
        raise PlanRefused(
            f"the plan's decision cannot be reproduced from the evidence: {detail}; run the command again"
        )
    return _Planned(fields, old, outcome)


def _asked(request: Request) -> dict[str, str]:
    """What this run alone asks for; it is not kept in the state."""
    asked = {"rollbackTo": request.rollback_to, "rollbackReason": request.reason, "override": request.override}
    return {name: value for name, value in asked.items() if value}


def _old(step: Step) -> dict[str, Any]:
    """State before the step; for an unchanged resource, the state that was read."""
    state = step.new if step.op == "refresh" else step.old
    return {**(state.get("inputs") or {}), **(state.get("outputs") or {})}


def _lint(preview: Preview, planned: _Planned) -> None:
    """Nothing that serves, has a share, or is kept warm for a rollback, may be replaced or deleted by this plan.

    A previous revision that is no longer declared is not kept: leaving it out is how it is retired.

    Raises:
        PlanRefused: naming the resource and the way out.
    """
    active, previous = planned.old.get("activeRevision", ""), planned.old.get("previousRevision", "")
    if not active:
        return
    kept = {active, *(planned.old.get("weights") or {}), *({previous} & {*planned.fields["revisions"]})}
    marks = (f"{planned.fields['service']}-router", *(f"-{digest[7:15]}" for digest in kept))
    for step in preview.steps:
        if step.op not in HARMLESS and step.name.endswith(marks):
            raise PlanRefused(
                f"the plan would {step.op} {step.name}, which serves or is kept for a rollback ({step.urn}). "
                f"{_way_out(step, preview)}"
            )


def _way_out(refused: Step, preview: Preview) -> str:
    if refused.name.endswith("-router"):
        return (
            "What the router is started with has changed: take that back, or restart it by plain `pulumi up`, "
            "which lets open streams finish and refuses new requests meanwhile"
        )
    name, _, digest = refused.name.rpartition("-")
    created = [step.name for step in preview.steps if step.op == "create" and step.type == refused.type]
    if any(other.endswith(f"-{digest}") for other in created):
        return f"It is the same revision under another name: call it {name!r} again while it serves"
    return "Take the change back, or promote another revision first; plain `pulumi up` does it and interrupts"


def verify(project: Project, service: str, fields: Mapping[str, Any]) -> LiveService:
    """Ask the router what it serves.

    Raises:
        NotVerified: the router is silent, or serves something else.
    """
    try:
        live = asyncio.run(_live(project.place.control, service))
    except RouterError as error:
        raise NotVerified(f"applied, but the router cannot be asked ({error}): see `infercrane doctor`") from error
    expected = fields["activeRevision"]
    if live.active != expected:
        raise NotVerified(
            f"applied, but the router serves {live.active or 'nothing'}, not {expected}; run the command again"
        )
    if deciding.shares(live.weights) != (fields.get("weights") or {}):
        raise NotVerified(f"applied, but the router gives {dict(live.weights)}; run the command again")
    return live


async def _live(control: Path, service: str) -> LiveService:
    async with ControlClient(control) as router:
        return await router.get(service)


def _approval(planned: _Planned) -> dict[str, Any]:
    names = ("verdict", "action", "decisionId", "activeRevision")
    return {name: planned.fields.get(name, "") for name in names}


def _result(run: _Run, planned: _Planned, live: LiveService, *, changed: bool) -> Result:
    fields, decision = planned.fields, planned.outcome.decision
    decision_id = fields.get("decisionId", "")
    return Result(
        operation=run.operation.id,
        verdict=fields.get("verdict", ""),
        action=fields.get("action", ""),
        decision_id=decision_id,
        reasons=tuple(fields.get("reasons") or ()),
        active_before=planned.old.get("activeRevision", ""),
        active_after=live.active,
        generation=live.generation,
        changed=changed,
        weights=deciding.shares(live.weights),
        record=decision.record if decision else recorded(run.project.place.ledger, decision_id),
    )


def recorded(ledger: Path, decision_id: str) -> Mapping[str, Any]:
    """The record of a decision in the ledger; empty when it is not there."""
    found: Mapping[str, Any] = {}
    for entry in Ledger(ledger).entries():
        if entry.decision["decision_id"] == decision_id:
            found = entry.decision
    return found


def _close_interrupted(journal: Journal, stack: str, echo: Echo) -> None:
    """We hold the lock, so an unfinished operation has no process left: its command line died."""
    unfinished = journal.unfinished(stack)
    if unfinished is None:
        return
    echo(f"operation {unfinished.id} was interrupted while {unfinished.state}; the state is read again from the engine")
    if unfinished.state == "applying":
        journal.move(unfinished.id, "interrupted")
    elif unfinished.state == "applied":
        journal.move(unfinished.id, "verifying")
    final = "cancelled" if unfinished.state in ("intended",) else "failed"
    journal.move(unfinished.id, final, {"error": "the command line died"})


def _intent(project: Project, config: StackConfig, request: Request, as_of: str) -> dict[str, Any]:
    return {
        "kind": request.kind,
        "stack": project.qualified,
        "backend": project.backend,
        "service": config.service,
        "candidate": config.candidate_digest,
        "config_digest": digest_file(project.settings),
        "as_of": as_of,
        "rollback_to": request.rollback_to,
        "reason": request.reason,
        "override": request.override,
    }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
