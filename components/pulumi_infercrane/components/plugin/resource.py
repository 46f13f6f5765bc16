"""What one resource type of the provider process implements, and what it is given.

Property values are plain Python: `dict[str, Any]`, lists, strings, booleans, ints, floats, `None`, and at any
depth the markers of `plugin.wire`: `UNKNOWN`, `Secret` and `Opaque`.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import grpc

from pulumi_infercrane.components.errors import ComponentError

Properties = Mapping[str, Any]
Severity = Literal["debug", "info", "warning", "error"]


class EngineLog(Protocol):
    """Where messages for the user go; a plugin's own stdout and stderr are hidden by the engine."""

    async def __call__(self, severity: Severity, message: str, urn: str = "") -> None: ...


@dataclass(frozen=True)
class Context:
    """What a resource may know about the run it is part of."""

    log: EngineLog
    program_directory: Path | None = None
    root_directory: Path | None = None
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the engine asks to stop: end waits soon, report what is known."""


@dataclass(frozen=True)
class CheckRequest:
    """What the program declares for a resource, to be validated and completed."""

    context: Context
    urn: str
    name: str
    olds: Properties | None
    """Last checked inputs; `None` for a new, recreated or target-replaced resource."""
    old_outputs: Properties | None
    """Last outputs; `None` when there are none or the engine does not send them."""
    news: Properties


@dataclass(frozen=True)
class CheckResult:
    """The inputs the engine goes on with."""

    inputs: Properties
    failures: Sequence[tuple[str, str]] = ()
    """Pairs of property path (or "") and reason; any failure stops the update of this resource."""


@dataclass(frozen=True)
class DiffRequest:
    """The recorded resource beside what is declared now; both sets of inputs were checked."""

    context: Context
    id: str
    urn: str
    old_inputs: Properties
    old_outputs: Properties
    news: Properties


@dataclass(frozen=True)
class DiffResult:
    """What an update would change."""

    changed: Sequence[str] = ()
    """Property paths whose inputs differ; empty means nothing to do."""
    replaces: Sequence[str] = ()
    """Those of `changed` that cannot be updated in place."""
    delete_before_replace: bool = False


@dataclass(frozen=True)
class CreateRequest:
    """A resource to be made from checked inputs; in a preview nothing may be touched."""

    context: Context
    urn: str
    name: str
    inputs: Properties
    preview: bool
    timeout_s: float
    """0 = the engine sets no limit."""


@dataclass(frozen=True)
class CreateResult:
    """The resource that was made."""

    id: str
    """Empty in a preview when the id is not yet known."""
    outputs: Properties


@dataclass(frozen=True)
class ReadRequest:
    """A recorded resource whose present state is asked for."""

    context: Context
    id: str
    urn: str
    inputs: Properties
    """Empty when the resource is imported: only `id` is known then."""
    outputs: Properties


@dataclass(frozen=True)
class ReadResult:
    """The resource as it is now."""

    id: str
    """Empty = the resource is gone."""
    inputs: Properties = field(default_factory=dict)
    outputs: Properties = field(default_factory=dict)


@dataclass(frozen=True)
class UpdateRequest:
    """A recorded resource to be changed in place to checked inputs; in a preview nothing may be touched."""

    context: Context
    id: str
    urn: str
    old_inputs: Properties
    old_outputs: Properties
    inputs: Properties
    preview: bool
    timeout_s: float


@dataclass(frozen=True)
class UpdateResult:
    """The outputs after the change."""

    outputs: Properties


@dataclass(frozen=True)
class DeleteRequest:
    """A recorded resource to be removed; one that is gone already is no failure."""

    context: Context
    id: str
    urn: str
    inputs: Properties
    outputs: Properties
    timeout_s: float


class Resource(Protocol):
    """One resource type. Methods raise `Failure` or `PartialFailure`; anything else is a defect of ours."""

    @property
    def token(self) -> str:
        """Type token, for example `infercrane:index:Process`."""

    @property
    def schema(self) -> Mapping[str, Any]:
        """Entry in the package schema: `inputProperties`, `requiredInputs`, `properties`, `required`."""

    @property
    def refresh_before_update(self) -> bool:
        """Whether the engine reads this resource before every preview and update, without `--refresh` too."""

    async def check(self, request: CheckRequest) -> CheckResult: ...

    async def diff(self, request: DiffRequest) -> DiffResult: ...

    async def create(self, request: CreateRequest) -> CreateResult: ...

    async def read(self, request: ReadRequest) -> ReadResult: ...

    async def update(self, request: UpdateRequest) -> UpdateResult: ...

    async def delete(self, request: DeleteRequest) -> None: ...


class Failure(ComponentError):
    """An ordinary failure: nothing was changed, or what was changed is already recorded elsewhere.

    Use FAILED_PRECONDITION, ABORTED, INVALID_ARGUMENT, UNAVAILABLE or DEADLINE_EXCEEDED; the engine treats
    UNKNOWN, INTERNAL and DATA_LOSS as a sign of corrupt state.
    """

    code = "resource_failed"

    def __init__(self, status: grpc.StatusCode, message: str) -> None:
        super().__init__(message)
        self.status = status


class PartialFailure(ComponentError):
    """The object exists but is not what was asked for: the engine records id, outputs and reasons with it.

    `outputs` must be complete: they replace the recorded ones. After a failed update the engine keeps the
    *old* inputs unless `inputs` is given.
    """

    code = "resource_partly_failed"

    def __init__(
        self,
        id: str,  # noqa: A002 - the word of the protocol
        outputs: Properties,
        reasons: Sequence[str],
        *,
        inputs: Properties | None = None,
    ) -> None:
        super().__init__("; ".join(reasons))
        self.id = id
        self.outputs = outputs
        self.reasons = tuple(reasons)
        self.inputs = inputs
