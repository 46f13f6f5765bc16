"""The calls of the control protocol. Never on the data listener."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

from pulumi_infercrane.router.clients.key_documents import read_grant, read_rotation
from pulumi_infercrane.router.clients.keys import Key
from pulumi_infercrane.router.control.live import Applied, LiveRoutes
from pulumi_infercrane.router.control.live_keys import LiveKeys
from pulumi_infercrane.router.counting.traffic import TrafficBook
from pulumi_infercrane.router.errors import RequestRefused, RouterError, TableInvalid
from pulumi_infercrane.router.protocol.request import Head, Limits, Request
from pulumi_infercrane.router.routing.readiness import Readiness
from pulumi_infercrane.router.tables.schema import read_declared, read_drain, read_flip, read_service_name, read_weights
from pulumi_infercrane.router.tables.transitions import carried
from pulumi_infercrane.router.telemetry.metrics import in_slices, pieces

if TYPE_CHECKING:
    from pulumi_infercrane.router.serving.workers.crew import Crew

_ETAG = re.compile(rb'"([0-9]{1,16})"')


class Answer(NamedTuple):
    """`document` is sent as JSON; a string goes out as plain text."""

    status: int
    document: Mapping[str, Any] | str
    generation: int | None = None
    allow: str = ""
    """The methods that are taken, of a 405."""


Handler = Callable[[Request, re.Match[str]], Awaitable[Answer]]


class Api:
    """The calls of the control protocol."""

    limits = Limits(body=1024 * 1024)

    def __init__(self, live: LiveRoutes, keys: LiveKeys, traffic: TrafficBook, crew: "Crew | None" = None) -> None:
        self._crew = crew
        self._live = live
        self._keys = keys
        self._traffic = traffic
        self._rendering = asyncio.Lock()
        self._readiness = Readiness(traffic.clock)
        service, key = r"/v1/services/(?P<service>[^/]+)", r"/v1/keys/(?P<key>[^/]+)"
        self._calls: tuple[tuple[str, re.Pattern[str], Handler], ...] = (
            ("GET", re.compile("/livez"), self._livez),
            ("GET", re.compile("/readyz"), self._readyz),
            ("GET", re.compile("/metrics"), self._metrics),
            ("GET", re.compile("/v1/services"), self._services),
            ("GET", re.compile(service), self._get),
            ("PUT", re.compile(service), self._put),
            ("DELETE", re.compile(service), self._delete),
            ("POST", re.compile(f"{service}/flip"), self._flip),
            ("POST", re.compile(f"{service}/weights"), self._weights),
            ("POST", re.compile(f"{service}/drain"), self._drain),
            ("GET", re.compile(rf"{service}/drain/(?P<revision>[^/]+)"), self._drain_state),
            ("GET", re.compile(f"{service}/windows"), self._list_windows),
            ("POST", re.compile(f"{service}/windows"), self._close_window),
            ("GET", re.compile(rf"{service}/windows/(?P<window>[^/]+)"), self._window),
            ("DELETE", re.compile(rf"{service}/windows/(?P<window>[^/]+)"), self._forget_window),
            ("GET", re.compile("/v1/keys"), self._list_keys),
            ("POST", re.compile("/v1/keys"), self._issue_key),
            ("POST", re.compile(f"{key}/rotate"), self._rotate_key),
            ("DELETE", re.compile(key), self._revoke_key),
        )

    async def answer(self, request: Request) -> Answer:
        """Run one call; HEAD is answered as GET. Errors of ours become error documents."""
        try:
            return await self._dispatch(request)
        except TableInvalid as error:
            return error_answer(error, findings=list(error.findings))
        except RouterError as error:
            return error_answer(error)

    async def _dispatch(self, request: Request) -> Answer:
        method, path = request.head.method.decode(), request.head.path.decode("latin-1")
        wanted = "GET" if method == "HEAD" else method
        allowed = []
        for verb, pattern, handler in self._calls:
            match = pattern.fullmatch(path)
            if match and verb == wanted:
                return await handler(request, match)
            if match:
                allowed += ["GET", "HEAD"] if verb == "GET" else [verb]
        if allowed:
            names = ", ".join(allowed)
            raise RequestRefused(405, "method_not_allowed", f"{path[:100]} takes {names}", allow=names)
        raise RequestRefused(404, "no_such_call", f"the control protocol has no {path[:100]}")

    async def _livez(self, _request: Request, _match: re.Match[str]) -> Answer:
        return Answer(200, {"live": True})

    async def _readyz(self, _request: Request, _match: re.Match[str]) -> Answer:
        reasons = await self._readiness.reasons(self._live.routes)
        if self._crew is not None and not self._crew.serving:
            reasons.append("no worker process serves")
        return Answer(503 if reasons else 200, {"ready": not reasons, "reasons": reasons})

    async def _metrics(self, _request: Request, _match: re.Match[str]) -> Answer:
        async with self._rendering:  # however many ask, the loop is held for one of them
            own = await in_slices(pieces(self._live.routes, self._traffic, self._live.queues))
            return Answer(200, own if self._crew is None else await self._crew.metrics(own))

    async def _services(self, _request: Request, _match: re.Match[str]) -> Answer:
        services = {
            name: {"generation": str(table.generation), "active": table.active, "digest": table.digest}
            for name, table in sorted(self._live.tables.items())
        }
        return Answer(200, {"services": services})

    async def _get(self, _request: Request, match: re.Match[str]) -> Answer:
        table = self._live.table(match["service"])
        document = {
            "table": table.document(),
            "generation": str(table.generation),
            "digest": table.digest,
            "inflight": await self._live.inflight(table),
            "weights": carried(table),
            "replicas": {
                digest: {name: state._asdict() for name, state in states.items()}
                for digest, states in (await self._live.replicas(table)).items()
            },
        }
        return Answer(200, document, table.generation)

    async def _put(self, request: Request, match: re.Match[str]) -> Answer:
        service = read_service_name(match["service"])
        expected = _precondition(request.head)
        return _applied(await self._live.put(service, read_declared(_json(request)), expected))

    async def _flip(self, request: Request, match: re.Match[str]) -> Answer:
        return _applied(await self._live.flip(match["service"], read_flip(_json(request))))

    async def _weights(self, request: Request, match: re.Match[str]) -> Answer:
        return _applied(await self._live.weigh(match["service"], read_weights(_json(request))))

    async def _drain(self, request: Request, match: re.Match[str]) -> Answer:
        revision, deadline_s = read_drain(_json(request))
        return _applied(await self._live.drain(match["service"], revision, deadline_s))

    async def _drain_state(self, _request: Request, match: re.Match[str]) -> Answer:
        return Answer(200, asdict(await self._live.drain_state(match["service"], match["revision"])))

    async def _delete(self, _request: Request, match: re.Match[str]) -> Answer:
        await self._live.delete(match["service"])
        return Answer(200, {"deleted": match["service"]})

    async def _list_windows(self, _request: Request, match: re.Match[str]) -> Answer:
        table = self._live.table(match["service"])
        return Answer(200, {"windows": self._live.windows.kept.names(table.service)})

    async def _close_window(self, _request: Request, match: re.Match[str]) -> Answer:
        return Answer(200, {"windows": await self._live.close_window(match["service"])})

    async def _window(self, _request: Request, match: re.Match[str]) -> Answer:
        return Answer(200, self._live.windows.kept.document(match["service"], match["window"]))

    async def _forget_window(self, _request: Request, match: re.Match[str]) -> Answer:
        self._live.windows.kept.forget(match["service"], match["window"])
        return Answer(200, {"forgotten": match["window"]})

    async def _list_keys(self, _request: Request, _match: re.Match[str]) -> Answer:
        return Answer(200, {"required": self._keys.required, "keys": [_shown(key) for key in self._keys.all()]})

    async def _issue_key(self, request: Request, _match: re.Match[str]) -> Answer:
        return _issued(201, *await self._keys.issue(read_grant(_json(request))))

    async def _rotate_key(self, request: Request, match: re.Match[str]) -> Answer:
        return _issued(200, *await self._keys.rotate(match["key"], read_rotation(_json(request))))

    async def _revoke_key(self, _request: Request, match: re.Match[str]) -> Answer:
        await self._keys.revoke(match["key"])
        return Answer(200, {"revoked": match["key"]})


class Status:
    """The calls that change nothing and tell nothing of clients: for probes and Prometheus."""

    limits = Limits(body=0)

    def __init__(self, api: Api) -> None:
        self._api = api

    async def answer(self, request: Request) -> Answer:
        """Run one of these calls."""
        if request.head.path not in (b"/livez", b"/readyz", b"/metrics"):
            return error_answer(RequestRefused(404, "no_such_call", "there are /livez, /readyz and /metrics here"))
        return await self._api.answer(request)


def _applied(result: Applied) -> Answer:
    table = result.table
    document = {
        "applied": result.applied,
        "generation": str(table.generation),
        "active": table.active,
        "digest": table.digest,
    }
    return Answer(200, document, table.generation)


def _issued(status: int, key: Key, secret: str) -> Answer:
    """The only answer a secret is ever in."""
    return Answer(status, {"secret": secret, "key": _shown(key)})


def _shown(key: Key) -> dict[str, Any]:
    """Digests stay here too: nobody needs them."""
    secrets = [{name: value for name, value in one.document().items() if name != "sha256"} for one in key.secrets]
    return {**key.document(), "secrets": secrets}


def error_answer(error: RouterError, **more: Any) -> Answer:
    """The document every error is told by."""
    allow = error.allow if isinstance(error, RequestRefused) else ""
    return Answer(error.status, {"error": {"code": error.code, "message": str(error), **more}}, allow=allow)


def _precondition(head: Head) -> str | None:
    """The generation a PUT expects; None when there may be no table yet."""
    match, none_match = head.headers.first.get(b"if-match"), head.headers.first.get(b"if-none-match")
    if match is None and none_match == b"*":
        return None
    etag = _ETAG.fullmatch(match or b"")
    if etag is None or none_match is not None:
        raise RequestRefused(
            428, "precondition_missing", 'a PUT needs If-Match: "<generation>", in double quotes, or If-None-Match: *'
        )
    return etag[1].decode()


def _json(request: Request) -> object:
    try:
        return json.loads(request.body, object_pairs_hook=_no_duplicates)
    except (ValueError, RecursionError) as error:
        raise RequestRefused(400, "invalid_body", f"the body is not strict JSON: {error}") from None


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) < len(pairs):
        raise ValueError("a field occurs twice")
    return document
