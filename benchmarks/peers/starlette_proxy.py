"""The plain proxy that people write themselves: Starlette and httpx, as in their documentation."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

DROPPED = {"host", "connection", "content-length", "transfer-encoding", "authorization"}


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[dict[str, Any]]:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=1024)
    timeout = httpx.Timeout(float(os.environ["SILENCE_S"]))
    async with httpx.AsyncClient(base_url=os.environ["UPSTREAM"], limits=limits, timeout=timeout) as client:
        yield {"client": client}


async def passing(request: Request) -> StreamingResponse:
    client: httpx.AsyncClient = request.state.client
    headers = [(name, value) for name, value in request.headers.raw if name.decode() not in DROPPED]
    asked = client.build_request(request.method, request.url.path, headers=headers, content=await request.body())
    answer = await client.send(asked, stream=True)
    kept = {name: value for name, value in answer.headers.items() if name not in DROPPED}
    return StreamingResponse(
        answer.aiter_raw(), status_code=answer.status_code, headers=kept, background=BackgroundTask(answer.aclose)
    )


app = Starlette(routes=[Route("/{path:path}", passing, methods=["GET", "POST", "HEAD"])], lifespan=lifespan)
