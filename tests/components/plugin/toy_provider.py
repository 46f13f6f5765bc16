"""The real server around one toy resource type whose behaviour the inputs ask for."""

import asyncio
import sys
from typing import Any, ClassVar

import grpc

from pulumi_infercrane.components.errors import ComponentError
from pulumi_infercrane.components.plugin import watch
from pulumi_infercrane.components.plugin.resource import (
    CheckRequest,
    CheckResult,
    CreateRequest,
    CreateResult,
    DeleteRequest,
    DiffRequest,
    DiffResult,
    Failure,
    PartialFailure,
    ReadRequest,
    ReadResult,
    UpdateRequest,
    UpdateResult,
)
from pulumi_infercrane.components.plugin.server import serve


class Toy:
    token = "infercrane:index:Toy"
    schema: ClassVar[dict[str, Any]] = {"properties": {"behave": {"type": "string"}}}
    refresh_before_update = True

    async def check(self, request: CheckRequest) -> CheckResult:
        seen = {"name": request.name, "olds": request.olds, "old_outputs": request.old_outputs}
        problems = [("behave", "not like this")] if request.news.get("behave") == "badly" else []
        return CheckResult({**request.news, "seen": seen}, problems)

    async def diff(self, request: DiffRequest) -> DiffResult:
        changed = [key for key in request.news if request.news[key] != request.old_inputs.get(key)]
        return DiffResult(changed, replaces=[key for key in changed if key == "name"], delete_before_replace=True)

    async def create(self, request: CreateRequest) -> CreateResult:
        match request.inputs.get("behave"):
            case "fail":
                raise Failure(grpc.StatusCode.ABORTED, "nothing was changed")
            case "half":
                raise PartialFailure("toy/1", {"state": "failed"}, ["it never answered", "x" * 50_000])
            case "domain":
                raise ComponentError("the way out is there")
            case "crash":
                raise ZeroDivisionError("hidden defect")
            case "wait":
                await request.context.cancelled.wait()
                return CreateResult("toy/1", {"ended": "early"})
            case "tell":
                await request.context.log("warning", "look at this", request.urn)
            case "where":
                return CreateResult("toy/1", {"root": str(request.context.root_directory)})
        return CreateResult("" if request.preview else "toy/1", dict(request.inputs))

    async def read(self, request: ReadRequest) -> ReadResult:
        return ReadResult(request.id, request.inputs, request.outputs)

    async def update(self, request: UpdateRequest) -> UpdateResult:
        return UpdateResult(request.inputs)

    async def delete(self, request: DeleteRequest) -> None:
        return None


if __name__ == "__main__":
    watch.HASTY_POLL_S = 0.1
    asyncio.run(serve(sys.argv[1] if len(sys.argv) > 1 else "", {Toy.token: Toy()}))
