"""Which revision answers a request, and what is sent to it. Decided once, by the table of this moment."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pulumi_infercrane.router.counting.traffic import Traffic
from pulumi_infercrane.router.errors import RequestRefused
from pulumi_infercrane.router.protocol.alias import with_model
from pulumi_infercrane.router.protocol.answer_alias import AnswerAlias
from pulumi_infercrane.router.protocol.headers import HOP_BY_HOP, REVISION
from pulumi_infercrane.router.protocol.paths import MODELS, PROTOCOL_OF, is_models
from pulumi_infercrane.router.protocol.request import Head, Request
from pulumi_infercrane.router.routing.routes import Binding, Endpoint, MirrorRoute, Routes, ServiceRoute
from pulumi_infercrane.router.tables.table import SERVING

if TYPE_CHECKING:
    from pulumi_infercrane.router.clients.admission import Permit
    from pulumi_infercrane.router.telemetry.requests import Asked

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
_NOT_FORWARDED_TRACED = _NOT_FORWARDED | {b"traceparent"}
_NOT_FORWARDED_NEW_TRACE = _NOT_FORWARDED_TRACED | {b"tracestate"}

_MESSAGE = (
    b"%b %b%b HTTP/1.1\r\nHost: %b\r\n%b%b%bX-Request-Id: %b\r\nX-Forwarded-For: %b\r\nX-Forwarded-Proto: %b\r\n"
    b"X-InferCrane-Attempt: %d\r\nContent-Length: %d\r\n\r\n%b"
)


@dataclass(slots=True)
class Bound:
    """A request and the revision that answers it."""

    request: Request
    binding: Binding
    model: str
    request_id: bytes
    peer: bytes
    spill: Binding | None = None
    """The revision that answers instead when no replica of this one takes a connection."""
    mirror: MirrorRoute | None = None
    """Where a copy goes."""
    instead_of: Traffic | None = None
    """The revision that would answer if any of its replicas could."""
    permit: "Permit | None" = None
    """Given back when the exchange ends."""
    scheme: bytes = b"http"
    """By which the client came."""
    asked: "Asked | None" = None
    """What is told of it when it has ended; None when nobody wants to know."""

    def answer_alias(self) -> AnswerAlias:
        """What `model` is to be in the answer."""
        return AnswerAlias(self.model, in_response=PROTOCOL_OF[self.request.head.path] == "responses")

    def message(self, endpoint: Endpoint, attempt: int) -> bytes:
        """The whole upstream request."""
        head, body = self.request.head, with_model(self.request.body, self.model, self.binding.upstream_model)
        dropped, trace = (_NOT_FORWARDED, b"") if self.asked is None else _trace(self.asked)
        return _MESSAGE % (
            head.method,
            endpoint.prefix,
            head.target,
            endpoint.host_header,
            head.headers.without(dropped),
            trace,
            endpoint.authorization,
            self.request_id,
            self.peer,
            self.scheme,
            attempt,
            len(body),
            body,
        )


def _trace(asked: "Asked") -> tuple[frozenset[bytes], bytes]:
    """Which headers are not forwarded, and the one that makes the upstream's spans children of ours."""
    span = asked.span
    if span is None:
        return _NOT_FORWARDED, b""
    return (
        _NOT_FORWARDED_TRACED if span.parent_id else _NOT_FORWARDED_NEW_TRACE,
        b"traceparent: %b\r\n" % span.traceparent,
    )


def refuse_path(head: Head) -> None:
    """The allow-list.

    Raises:
        RequestRefused: 404 or 405.
    """
    path, proxied = head.path, head.path in PROTOCOL_OF
    if proxied and head.method == b"POST":
        return
    if not proxied and not is_models(path):
        raise RequestRefused(404, "unsupported_endpoint", f"there is no {_shown(path)} here")
    allowed = (b"POST",) if proxied else (b"GET", b"HEAD")
    if head.method not in allowed:
        names = b", ".join(allowed).decode()
        raise RequestRefused(405, "method_not_allowed", f"{_shown(path)} takes {names}", allow=names)


def no_model(name: str) -> RequestRefused:
    """No alias of this name, or none that this key may use."""
    return RequestRefused(404, "model_not_found", f"there is no model {name[:100]!r} here; ask {_shown(MODELS)}")


def stopping() -> RequestRefused:
    """Nothing new is answered."""
    return RequestRefused(503, "draining", "the router is stopping")


def crowded() -> RequestRefused:
    """There is no room for another connection."""
    return RequestRefused(503, "overloaded", "the router has too many connections", reason="connections")


Chosen = tuple[Binding, Binding | None, MirrorRoute | None, Traffic | None]
"""`binding`, `spill`, `mirror` and `instead_of` of a `Bound`."""


def choose(model: str, request: Request, request_id: bytes, routes: Routes) -> Chosen:
    """Where a request for this model goes. Costs little, and counts nothing: what waits is asked about again and again.

    Raises:
        RequestRefused: nothing of ours answers this request.
    """
    route = routes.by_alias.get(model)
    if route is None:
        raise no_model(model)
    try:
        return _chosen(route, model, request, request_id)
    except RequestRefused as refused:
        refused.service = route.table.service
        raise


def _chosen(route: ServiceRoute, model: str, request: Request, request_id: bytes) -> Chosen:
    if PROTOCOL_OF[request.head.path] not in route.table.declared.protocols:
        raise RequestRefused(404, "unsupported_endpoint", f"{model} does not serve {_shown(request.head.path)}")
    pin = request.head.headers.first.get(REVISION)
    spill, mirror, instead_of = None, None, None
    if pin is not None:
        binding = _pinned(route, pin.decode("latin-1"))
    elif route.active is None:
        raise RequestRefused(503, "no_route", f"no revision of {model} is active yet")
    elif route.plain:
        binding = route.active
    else:
        binding, spill, instead_of = _by_weight(route, route.active, request, request_id)
        mirror = _mirror(route.mirror, binding, request_id)
    if not binding.replicas.ready:
        raise RequestRefused(503, "no_upstream", f"no upstream of {model} can be used: its key or its address is none")
    return binding, spill, mirror, instead_of


def _by_weight(
    route: ServiceRoute, active: Binding, request: Request, request_id: bytes
) -> tuple[Binding, Binding | None, Traffic | None]:
    """The revision, the one that answers when its replicas do not take connections, and the one that should have."""
    canary, fallback = route.canary, route.fallback
    if canary is not None:
        session = request.head.headers.first.get(route.session_header) or request_id
        if canary.binding.replicas.ready and canary.share.takes(session):
            return canary.binding, active, None
    if fallback is not None and (active.replicas.exhausted or not active.replicas.ready):
        return fallback, None, active.traffic
    return active, fallback, None


def _mirror(mirror: MirrorRoute | None, binding: Binding, request_id: bytes) -> MirrorRoute | None:
    if mirror is None or mirror.binding.traffic.revision == binding.traffic.revision:
        return None
    return mirror if mirror.share.takes(request_id) else None


def _pinned(route: ServiceRoute, name: str) -> Binding:
    """A pin, digest or label, that cannot be honoured is an error, never a fall-back to the active revision."""
    digest = route.labels.get(name, name)
    binding = route.bindings.get(digest)
    if binding is None:
        raise RequestRefused(404, "unknown_revision", "the pinned revision is not declared")
    if not route.table.declared.pinning and digest not in route.table.declared.pins:
        raise RequestRefused(403, "pin_not_allowed", "this revision may not be asked for by header")
    if route.table.declared.revisions[digest].state != SERVING:
        raise RequestRefused(503, "draining", "the pinned revision is draining")
    return binding


def _shown(path: bytes) -> str:
    return path[:100].decode("latin-1")
