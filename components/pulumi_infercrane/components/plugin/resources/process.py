"""`infercrane:index:Process`: a supervised local process that outlives the command that declared it.

Get-or-create by name: created twice it is one process. A process that died while nobody looked (a reboot, too many
crashes) stays in the state and is started again by the next `up`: Read reports it, Diff asks for an Update. The same
happens after a failed start, which is recorded together with its reasons.
"""

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc

from pulumi_infercrane.components import runtimes
from pulumi_infercrane.components.plugin import process_inputs as given
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
from pulumi_infercrane.components.plugin.wire import UNKNOWN, Secret
from pulumi_infercrane.components.supervision import pinned, readiness
from pulumi_infercrane.components.supervision.observing import Snapshot, observe
from pulumi_infercrane.components.supervision.readiness import NotReady, Probe
from pulumi_infercrane.components.supervision.starting import ensure, log_text
from pulumi_infercrane.components.supervision.stopping import remove, stop
from pulumi_infercrane.components.supervision.supervisor import LOG
from pulumi_infercrane.guard.files import why

INPUTS_FILE = "inputs.json"
FIRST_POLL_S = 0.05
LONGEST_POLL_S = 1.0
FAILED_ANSWERS = 3
"""How often in a row a healthy server may answer wrongly."""
UNFIT = {"models": "model_not_served", "generation": "generation_failed"}
"""Reasons by what a healthy server got wrong; waiting longer does not help."""
LOG_LINES = 20


@dataclass(frozen=True)
class Trouble:
    """Why a process did not become ready.

    `code` is a reason of its runtime, or `engine_exited`, `not_ready_in_time`, `model_not_served`,
    `generation_failed`, `cancelled`; `detail` is the sentence for people.
    """

    code: str
    detail: str


class Process:
    """Servicer of one resource type."""

    token = "infercrane:index:Process"  # noqa: S105 - a Pulumi type token
    refresh_before_update = True

    @property
    def schema(self) -> Mapping[str, Any]:
        return _SCHEMA

    async def check(self, request: CheckRequest) -> CheckResult:
        inputs = given.with_defaults(request.news)
        return CheckResult(inputs, given.failures(inputs))

    async def diff(self, request: DiffRequest) -> DiffResult:
        old, new = request.old_inputs, request.news
        changed = [key for key in given.KEYS if old.get(key) != new.get(key)]
        if not changed and request.old_outputs.get("state", "running") != "running":
            changed = ["state"]
        replaces = [key for key in changed if key not in given.IN_PLACE and key != "state"]
        return DiffResult(changed, replaces, delete_before_replace=True)

    async def create(self, request: CreateRequest) -> CreateResult:
        folder = given.folder(request.inputs)
        if request.preview or folder is None:
            return CreateResult(str(folder or ""), _predicted(request.inputs, folder))
        return CreateResult(str(folder), await _run(request.context, request.inputs, request.timeout_s))

    async def update(self, request: UpdateRequest) -> UpdateResult:
        if request.preview:
            return UpdateResult(_predicted(request.inputs, Path(request.id)))
        return UpdateResult(await _run(request.context, request.inputs, request.timeout_s))

    async def read(self, request: ReadRequest) -> ReadResult:
        folder = Path(request.id)
        snapshot = observe(folder)
        if snapshot is None:
            return ReadResult("")
        inputs = request.inputs or _recorded_inputs(folder)
        if warning := _warning(inputs["name"], snapshot):
            await request.context.log("warning", warning, request.urn)
        return ReadResult(request.id, inputs, _outputs(inputs, folder, snapshot))

    async def delete(self, request: DeleteRequest) -> None:
        await asyncio.to_thread(remove, Path(request.id))


async def _run(context: Context, inputs: Properties, timeout_s: float) -> dict[str, Any]:
    """Outputs of the process once it serves; what this call started does not survive a failed start."""
    specification = given.specification(inputs)
    folder = specification.folder
    if not _is_running(folder):
        await asyncio.to_thread(pinned.verify, inputs["files"])
    first, started = await asyncio.to_thread(ensure, specification)
    _record_inputs(folder, inputs)
    limit_s = min(inputs["startTimeoutS"], timeout_s or inputs["startTimeoutS"])
    trouble = await _until_ready(
        context,
        inputs,
        folder,
        probe=given.probe(inputs, first.port),
        earlier_exit=None if started else first.last_exit,
        limit_s=limit_s,
    )
    if trouble is not None and started and trouble.code != "cancelled":
        await asyncio.to_thread(stop, folder)
    outputs = _outputs(inputs, folder, observe(folder) or first)
    if trouble is not None:
        outputs |= {"state": "failed", "reason": trouble.code}
        raise PartialFailure(str(folder), outputs, _reasons(inputs, folder, trouble))
    return outputs


def _is_running(folder: Path) -> bool:
    seen = observe(folder)
    return seen is not None and seen.state == "running"


async def _until_ready(
    context: Context, inputs: Properties, folder: Path, *, probe: Probe, earlier_exit: Any, limit_s: float
) -> Trouble | None:
    """Wait until the process serves, ends, or the time is over. The first exit is decisive: no restart helps."""
    give_up, pause_s, failed_answers = time.monotonic() + limit_s, FIRST_POLL_S, 0
    while True:
        problem = await readiness.problem(probe)
        snapshot = observe(folder)
        if snapshot is None or not snapshot.alive or snapshot.last_exit != earlier_exit:
            return _exit_trouble(inputs, folder, snapshot)
        if problem is None:
            return None
        failed_answers = failed_answers + 1 if problem.stage in UNFIT else 0
        if failed_answers == FAILED_ANSWERS:
            return Trouble(UNFIT[problem.stage], f"healthy but not able to serve: {problem.detail}")
        if context.cancelled.is_set():
            return Trouble("cancelled", "the wait was cancelled; the process goes on and `up` waits again")
        if time.monotonic() > give_up:
            return _late(problem, limit_s)
        await _pause(context, pause_s)
        pause_s = min(LONGEST_POLL_S, pause_s * 1.5)


async def _pause(context: Context, seconds: float) -> None:
    try:
        await asyncio.wait_for(context.cancelled.wait(), seconds)
    except TimeoutError:
        return


def _late(problem: NotReady, limit_s: float) -> Trouble:
    code = "generation_failed" if problem.stage == "generation" else "not_ready_in_time"
    detail = (
        f"not ready after {limit_s:g} s ({problem.stage}: {problem.detail}): raise startTimeoutS if it needs longer"
    )
    return Trouble(code, detail)


def _exit_trouble(inputs: Properties, folder: Path, snapshot: Snapshot | None) -> Trouble:
    code = snapshot.last_exit["code"] if snapshot and snapshot.last_exit else None
    how = f"killed by signal {-code}" if code is not None and code < 0 else f"exit code {code}"
    runtime = inputs["runtime"]
    cause = runtimes.start_failure(runtimes.find(runtime), log_text(folder)) if runtime else None
    if cause is not None:
        return Trouble(cause.reason, f"{cause.advice} ({runtime}, {how}: {cause.text!r})")
    return Trouble("engine_exited", f"the process ended before it was ready ({how})")


def _reasons(inputs: Properties, folder: Path, trouble: Trouble) -> list[str]:
    lines = log_text(folder).splitlines()[-LOG_LINES:]
    texts = [f"{trouble.code}: {inputs['name']}: {trouble.detail}; log: {folder / LOG}"]
    if lines:
        texts.append("last log lines:\n" + "\n".join(lines))
    return [_masked(text, inputs) for text in texts]


def _masked(text: str, inputs: Properties) -> str:
    for secret in given.secret_texts(inputs):
        text = text.replace(secret, "[secret]") if secret else text
    return text


def _warning(name: str, snapshot: Snapshot) -> str:
    match snapshot.state:
        case "running":
            return ""
        case "unsupervised":
            return f"process {name} (pid {snapshot.pid}) runs but its supervisor was killed; `up` supervises it again"
        case "failed":
            return f"process {name} was given up: {snapshot.reason}; `up` starts it again"
    return f"process {name} is {snapshot.state}; `up` starts it again"


def _outputs(inputs: Properties, folder: Path, snapshot: Snapshot) -> dict[str, Any]:
    started = snapshot.started_at
    return {
        **inputs,
        "port": snapshot.port,
        "url": given.url(inputs, snapshot.port),
        "pid": snapshot.pid or 0,
        "startTime": _timestamp(started) if started else "",
        "logPath": str(folder / LOG),
        "specDigest": snapshot.digest,
        "state": snapshot.state,
        "restarts": snapshot.restarts,
        "reason": snapshot.reason,
    }


def _timestamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _predicted(inputs: Properties, folder: Path | None) -> dict[str, Any]:
    """Outputs in a preview: the port is known when it is given, or kept from an earlier start."""
    seen = observe(folder) if folder else None
    port: Any = inputs["port"] or (seen.port if seen else 0)
    if not port and given.needs_port(inputs):
        port = UNKNOWN
    unknown = dict.fromkeys(("pid", "startTime", "specDigest"), UNKNOWN)
    return {
        **inputs,
        **unknown,
        "port": port,
        "url": UNKNOWN if UNKNOWN in (port, inputs["host"]) else given.url(inputs, port),
        "logPath": str(folder / LOG) if folder else UNKNOWN,
        "state": "running",
        "restarts": 0,
        "reason": "",
    }


def _record_inputs(folder: Path, inputs: Properties) -> None:
    env = {name: text for name, text in inputs["env"].items() if not isinstance(text, Secret)}
    file = folder / INPUTS_FILE
    file.touch(mode=0o600)
    file.write_text(json.dumps({**inputs, "env": env}), encoding="utf-8")


def _recorded_inputs(folder: Path) -> dict[str, Any]:
    """Inputs of a process that is imported. Secrets are not recorded: importing shows them as a change."""
    try:
        recorded: dict[str, Any] = json.loads((folder / INPUTS_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = why(error) if isinstance(error, OSError) else f"not JSON: {error}"
        text = f"{folder / INPUTS_FILE} is not readable, so the process cannot be imported: {reason}"
        raise Failure(grpc.StatusCode.FAILED_PRECONDITION, text) from error
    return recorded


_ANY = {"$ref": "pulumi.json#/Any"}
_TEXTS = {"type": "array", "items": {"type": "string"}}
_INPUTS: dict[str, Any] = {
    **{name: {"type": kind} for name, kind in given.TYPES.items() if kind != "object"},
    "env": {"type": "object", "additionalProperties": {"type": "string"}},
    "argv": _TEXTS,
    "files": {"type": "array", "items": _ANY},
    "readiness": _ANY,
}
_SCHEMA: dict[str, Any] = {
    "description": "A supervised local process that outlives the command that declared it.",
    "inputProperties": _INPUTS,
    "requiredInputs": list(given.REQUIRED),
    "properties": {
        **_INPUTS,
        **{name: {"type": "string"} for name in ("url", "startTime", "logPath", "specDigest", "state", "reason")},
        **{name: {"type": "integer"} for name in ("pid", "restarts")},
    },
    "required": ["port", "url", "pid", "state", "logPath"],
}

RESOURCE = Process()
