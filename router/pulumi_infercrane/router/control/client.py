"""Client of the control protocol, for whoever deploys and releases."""

import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from pulumi_infercrane.router import errors
from pulumi_infercrane.router.clients.keys import Grant
from pulumi_infercrane.router.errors import (
    ActiveChanged,
    DecisionConflict,
    DecisionExpired,
    GenerationMismatch,
    KeyExists,
    KeysInvalid,
    KeyUnknown,
    RevisionInUse,
    RevisionUnknown,
    RouterError,
    RouterUnreachable,
    ServiceInUse,
    ServiceUnknown,
    TableInvalid,
    UnexpectedAnswer,
    WeightsChanged,
    WindowUnknown,
)
from pulumi_infercrane.router.tables.calls import DrainState, Flip, Weights

__all__ = [
    "ActiveChanged",
    "Changed",
    "ControlClient",
    "DecisionConflict",
    "DecisionExpired",
    "DrainState",
    "Flip",
    "GenerationMismatch",
    "Grant",
    "IssuedKey",
    "KeyExists",
    "KeyUnknown",
    "KeysInvalid",
    "LiveKeyring",
    "LiveService",
    "RevisionInUse",
    "RevisionUnknown",
    "RouterError",
    "RouterUnreachable",
    "ServiceInUse",
    "ServiceUnknown",
    "TableInvalid",
    "UnexpectedAnswer",
    "Weights",
    "WeightsChanged",
    "WindowUnknown",
]

TIMEOUT_S = 10.0


@dataclass(frozen=True)
class LiveService:
    """What the router serves. `active` is empty until the first flip; `inflight` counts requests per revision.

    `weights` is percent by revision; without a canary step the active one has 100. `replicas` tells by revision and
    upstream id what is in flight and whether the replica gets new requests.
    """

    table: Mapping[str, Any]
    generation: str
    digest: str
    active: str
    decision_id: str
    inflight: Mapping[str, int]
    weights: Mapping[str, int] = field(default_factory=dict)
    replicas: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Changed:
    """`applied` is False when what was asked for was in place already."""

    applied: bool
    generation: str
    active: str
    digest: str


@dataclass(frozen=True)
class IssuedKey:
    """`secret` is what a client sends, and is never shown again; `key` describes it as in `LiveKeyring`."""

    secret: str = field(repr=False)
    key: Mapping[str, Any]


@dataclass(frozen=True)
class LiveKeyring:
    """`required` tells whether a request without a key is refused; `keys` are sorted by name, revoked ones included."""

    required: bool
    keys: tuple[Mapping[str, Any], ...]


class ControlClient:
    """One router, by its control socket. An async context manager.

    Every call raises `RouterUnreachable` when no answer comes, and the error the router answers with otherwise.
    """

    def __init__(self, socket_path: Path, timeout_s: float = TIMEOUT_S) -> None:
        self._path = socket_path
        no_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # without it every client loads the certificate store
        transport = httpx.AsyncHTTPTransport(uds=str(socket_path), verify=no_tls)
        self._http = httpx.AsyncClient(
            transport=transport, base_url="http://router", timeout=timeout_s, trust_env=False
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

    async def live(self) -> bool:
        """Whether the router answers at all."""
        return bool((await self._call("GET", "/livez"))["live"])

    async def why_not_ready(self) -> tuple[str, ...]:
        """Reasons; none when every active revision takes connections."""
        return tuple((await self._call("GET", "/readyz", accept=(200, 503)))["reasons"])

    async def services(self) -> tuple[str, ...]:
        """Names, sorted."""
        return tuple(sorted((await self._call("GET", "/v1/services"))["services"]))

    async def get(self, service: str) -> LiveService:
        """The served table. Raises ServiceUnknown."""
        answer = await self._call("GET", _path(service))
        table = answer["table"]
        return LiveService(
            table=table,
            generation=answer["generation"],
            digest=answer["digest"],
            active=table["active"],
            decision_id=table["decision_id"],
            inflight=answer["inflight"],
            weights=answer.get("weights", {}),
            replicas=answer.get("replicas", {}),
        )

    async def put(self, service: str, declared: Mapping[str, Any], *, if_match: str | None) -> Changed:
        """Replace the declared part of the table; `if_match` None creates the service.

        Raises GenerationMismatch, RevisionInUse, TableInvalid.
        """
        headers = {"If-None-Match": "*"} if if_match is None else {"If-Match": f'"{if_match}"'}
        return Changed(**await self._call("PUT", _path(service), json=declared, headers=headers))

    async def flip(self, service: str, flip: Flip) -> Changed:
        """Move the active revision. Safe to repeat with the same decision id.

        Raises ActiveChanged, WeightsChanged, DecisionConflict, DecisionExpired, GenerationMismatch, RevisionUnknown,
        ServiceUnknown.
        """
        return Changed(**await self._call("POST", f"{_path(service)}/flip", json=_body(flip)))

    async def set_weights(self, service: str, weights: Weights) -> Changed:
        """Share the traffic between the active revision and a candidate. Safe to repeat with the same decision id.

        Raises what `flip` raises, and TableInvalid when the weights are none a canary step may have.
        """
        return Changed(**await self._call("POST", f"{_path(service)}/weights", json=_body(weights)))

    async def drain(self, service: str, revision: str, deadline_s: float) -> Changed:
        """Stop new requests to a revision; open ones are cut after `deadline_s`.

        Raises RevisionInUse for the active one, RevisionUnknown.
        """
        body = {"revision": revision, "deadline_s": deadline_s}
        return Changed(**await self._call("POST", f"{_path(service)}/drain", json=body))

    async def drain_state(self, service: str, revision: str) -> DrainState:
        """How far draining has come."""
        return DrainState(**await self._call("GET", f"{_path(service)}/drain/{revision}"))

    async def close_window(self, service: str) -> tuple[str, ...]:
        """End the open traffic window and begin the next; names of all closed ones, the oldest first.

        The first call for a service that had no canary step only begins one.
        """
        return tuple((await self._call("POST", f"{_path(service)}/windows"))["windows"])

    async def window(self, service: str, name: str) -> dict[str, Any]:
        """A closed traffic window, as `infercrane.window/v1`. Raises WindowUnknown."""
        return await self._call("GET", f"{_path(service)}/windows/{name}")

    async def forget_window(self, service: str, name: str) -> None:
        """Its file is written: the router need not keep it. Safe to repeat."""
        await self._call("DELETE", f"{_path(service)}/windows/{name}")

    async def delete(self, service: str) -> None:
        """Forget a service. Raises ServiceInUse while requests are in flight."""
        await self._call("DELETE", _path(service))

    async def keys(self) -> LiveKeyring:
        """Every key there is or was, without anything a secret could be guessed from."""
        answer = await self._call("GET", "/v1/keys")
        return LiveKeyring(answer["required"], tuple(answer["keys"]))

    async def new_key(self, grant: Grant) -> IssuedKey:
        """Make a key. From the first one on requests without a key are refused. Raises KeyExists, KeysInvalid."""
        return IssuedKey(**await self._call("POST", "/v1/keys", accept=(201,), json=grant.document()))

    async def rotate_key(self, name: str, old_valid_s: float) -> IssuedKey:
        """A new secret; the old ones stay valid for so many seconds. Raises KeyUnknown, KeysInvalid."""
        body = {"old_valid_s": old_valid_s}
        return IssuedKey(**await self._call("POST", f"/v1/keys/{name}/rotate", json=body))

    async def revoke_key(self, name: str) -> None:
        """Requests that begin afterwards are refused, open streams go on. Raises KeyUnknown."""
        await self._call("DELETE", f"/v1/keys/{name}")

    async def _call(self, method: str, path: str, accept: tuple[int, ...] = (200,), **more: Any) -> dict[str, Any]:
        try:
            response = await self._http.request(method, path, **more)
        except httpx.ConnectError as error:
            raise RouterUnreachable(f"no router answers on {self._path}: {_why(self._path)}") from error
        except httpx.TransportError as error:
            what = str(error) or type(error).__name__
            raise RouterUnreachable(f"router on {self._path} gave no answer: {what}", sent=True) from error
        document = _document(response)
        if response.status_code in accept:
            return document
        raise _error(response.status_code, document)


def _body(call: Flip | Weights) -> dict[str, Any]:
    """The fields that say something: a router of an earlier version knows no `expected_weights`."""
    return {name: value for name, value in vars(call).items() if value is not None}


def _why(socket: Path) -> str:
    return "nobody listens on this socket" if socket.exists() else "there is no such socket; is the router running?"


def _path(service: str) -> str:
    return f"/v1/services/{service}"


def _document(response: httpx.Response) -> dict[str, Any]:
    try:
        document = response.json()
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise UnexpectedAnswer(f"status {response.status_code} without a JSON object: is this our control socket?")
    return document


def _error(status: int, document: Mapping[str, Any]) -> RouterError:
    found = document.get("error")
    if not isinstance(found, dict):
        return UnexpectedAnswer(f"status {status} without an error")
    code, message = str(found.get("code", "")), str(found.get("message", ""))
    for kind_of_findings in (TableInvalid, KeysInvalid):
        if code == kind_of_findings.code:
            return kind_of_findings(found.get("findings") or [message])
    known = {kind.code: kind for kind in _kinds()}
    if code in known:
        return known[code](message)
    return UnexpectedAnswer(f"{code}: {message}")


def _kinds() -> Iterator[type[RouterError]]:
    """Error classes made from a message alone."""
    for kind in vars(errors).values():
        if isinstance(kind, type) and issubclass(kind, RouterError) and kind.__init__ is RouterError.__init__:
            yield kind
