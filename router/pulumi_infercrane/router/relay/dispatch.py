"""Which revision answers a request, and what is sent to it. Decided once, by the table of this moment."""

from typing import NamedTuple

from pulumi_infercrane.router.errors import RequestRefused
from pulumi_infercrane.router.protocol.alias import requested_model, with_model
from pulumi_infercrane.router.protocol.headers import HOP_BY_HOP, REVISION
from pulumi_infercrane.router.protocol.paths import MODELS, PROTOCOL_OF
from pulumi_infercrane.router.protocol.request import Head, Request
from pulumi_infercrane.router.routes import Binding, Endpoint, Routes, ServiceRoute
from pulumi_infercrane.router.table import SERVING

_NOT_FORWARDED = HOP_BY_HOP | {
    b"accept-encoding",  # a compressed stream cannot be observed
    b"api-key",
    b"authorization",
    b"content-length",
    b"cookie",
    b"expect",
    b"forwarded",
    b"host",
    b"transfer-encoding",
    b"x-api-key",
    b"x-forwarded-for",
    b"x-forwarded-host",
    b"x-forwarded-proto",
    b"x-request-id",
}


class Bound(NamedTuple):
    """A request and the revision that answers it."""

    request: Request
    binding: Binding
    model: str
    request_id: bytes
    peer: bytes

    def message(self, endpoint: Endpoint, attempt: int) -> bytes:
        """The whole upstream request."""
        head, body = self.request.head, with_model(self.request.body, self.model, self.binding.upstream_model)
        return b"%b %b%b HTTP/1.1\r\nHost: %b\r\n%b%bX-Request-Id: %b\r\n%b%b\r\n%b" % (
            head.method,
            endpoint.prefix,
            head.target,
            endpoint.host_header,
            head.headers.without(_NOT_FORWARDED),
            endpoint.authorization,
            self.request_id,
            b"X-Forwarded-For: %b\r\nX-Forwarded-Proto: http\r\n" % self.peer,
            b"X-InferCrane-Attempt: %d\r\nContent-Length: %d\r\n" % (attempt, len(body)),
            body,
        )


def refuse_path(head: Head) -> None:
    """The allow-list.

    Raises:
        RequestRefused: 404 or 405.
    """
    path = head.path
    if path not in PROTOCOL_OF and path != MODELS:
        raise RequestRefused(404, "unsupported_endpoint", f"there is no {_shown(path)} here")
    allowed = (b"GET", b"HEAD") if path == MODELS else (b"POST",)
    if head.method not in allowed:
        names = b", ".join(allowed).decode()
        raise RequestRefused(405, "method_not_allowed", f"{_shown(path)} takes {names}")


def choose(request: Request, routes: Routes) -> tuple[str, Binding]:
    """The requested model and the revision that answers for it.

    Raises:
        RequestRefused: nothing of ours answers this request.
    """
    model = requested_model(request.body)
    route = routes.by_alias.get(model)
    if route is None:
        raise RequestRefused(404, "model_not_found", f"there is no model {model[:100]!r} here; ask {_shown(MODELS)}")
    if PROTOCOL_OF[request.head.path] not in route.table.declared.protocols:
        raise RequestRefused(404, "unsupported_endpoint", f"{model} does not serve {_shown(request.head.path)}")
    pin = request.head.headers.first.get(REVISION)
    binding = route.active if pin is None else _pinned(route, pin.decode("latin-1"))
    if binding is None:
        raise RequestRefused(503, "no_route", f"no revision of {model} is active yet")
    if not binding.endpoints:
        raise RequestRefused(503, "no_upstream", f"no upstream of {model} can be used: its key is missing")
    return model, binding


def _pinned(route: ServiceRoute, digest: str) -> Binding:
    """A pin that cannot be honoured is an error, never a fall-back to the active revision."""
    binding = route.bindings.get(digest)
    if binding is None:
        raise RequestRefused(404, "unknown_revision", "the pinned revision is not declared")
    if digest not in route.table.declared.pins:
        raise RequestRefused(403, "pin_not_allowed", "this revision may not be asked for by header")
    if route.table.declared.revisions[digest].state != SERVING:
        raise RequestRefused(503, "draining", "the pinned revision is draining")
    return binding


def _shown(path: bytes) -> str:
    return path[:100].decode("latin-1")
