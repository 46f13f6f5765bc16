"""A route table as an HTTPRoute of the Gateway API, whatever kind of object a revision is there."""

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from pulumi_infercrane.router.errors import ExportRefused
from pulumi_infercrane.router.export._view import NOT_FORWARDED, paths, pins, refuse_keys, shares
from pulumi_infercrane.router.tables.table import SERVING, WHOLE, RouteTable, Upstream

FILE = "httproute.json"
_SERVICE = re.compile(
    r"(?P<name>[a-z]([a-z0-9-]{0,61}[a-z0-9])?)\.(?P<namespace>[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)\.svc(\..*)?"
)

Reference = dict[str, Any]
Backends = Callable[[str, tuple[Upstream, ...]], list[Reference]]
"""Digest and upstreams of a revision → what a rule refers to, without weights."""


def http_route(table: RouteTable, backends: Backends) -> bytes:
    """The object. It claims its rules only: gateway and host names belong to whoever owns the gateway.

    Raises:
        ExportRefused: nothing is active, or an upstream is no Service of one namespace.
    """
    refuse_keys(table, "a Gateway")
    if not table.active:
        raise ExportRefused(f"{table.service}: no revision is active yet, and weights cannot say 503")
    references = {
        digest: backends(digest, tuple(up for up in one.upstreams if up.state == SERVING))
        for digest, one in table.declared.revisions.items()
    }
    namespaces = {reference["namespace"] for found in references.values() for reference in found}
    if len(namespaces) > 1:
        raise ExportRefused(f"{table.service}: its revisions are in the namespaces {', '.join(sorted(namespaces))}")
    return json.dumps(_object(table, references, namespaces.pop()), indent=2).encode() + b"\n"


def service_of(digest: str, upstream: Upstream) -> Reference:
    """Name, namespace and port of the Service an upstream is.

    Raises:
        ExportRefused: it is none.
    """
    parts = urlsplit(upstream.url)
    found = _SERVICE.fullmatch(parts.hostname or "")
    if found is None or parts.scheme != "http" or parts.path.strip("/"):
        raise ExportRefused(f"revisions.{digest}: {upstream.url} is not http://SERVICE.NAMESPACE.svc:PORT")
    return {"name": found["name"], "namespace": found["namespace"], "port": parts.port or 80}


def _object(table: RouteTable, references: Mapping[str, list[Reference]], namespace: str) -> dict[str, Any]:
    annotations = {
        "infercrane.io/decision-id": table.decision_id,
        "infercrane.io/digest": table.digest,
        "infercrane.io/generation": str(table.generation),
    }
    name = table.service.replace("_", "-")
    rules = [_rule(table, references, name) for name in pins(table)]
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": name, "namespace": namespace, "annotations": annotations},
        "spec": {"rules": [*rules, _rule(table, references)]},
    }


def _rule(table: RouteTable, references: Mapping[str, list[Reference]], pin: str = "") -> dict[str, Any]:
    """Everything goes to what is pinned, or by the shares; the others stay named, with weight 0."""
    header = {"headers": [{"name": "X-InferCrane-Revision", "value": pin}]} if pin else {}
    matches = [{"path": {"type": "Exact", "value": path}, "method": "POST", **header} for path in paths(table)]
    percents = {pins(table)[pin]: WHOLE} if pin else {digest: shares(table).get(digest, 0) for digest in references}
    scale = math.lcm(*(len(references[digest]) for digest in percents))
    backends = [
        _backend(one, digest, percent * scale // len(references[digest]))
        for digest, percent in sorted(percents.items())
        for one in references[digest]
    ]
    return {
        "matches": matches,
        "filters": [{"type": "RequestHeaderModifier", "requestHeaderModifier": {"remove": list(NOT_FORWARDED)}}],
        "timeouts": {"request": "0s", "backendRequest": "0s"},
        "backendRefs": backends,
    }


def _backend(reference: Reference, digest: str, weight: int) -> dict[str, Any]:
    revision = [{"name": "X-InferCrane-Revision", "value": digest}]
    header = {"type": "ResponseHeaderModifier", "responseHeaderModifier": {"set": revision}}
    return {**reference, "weight": weight, "filters": [header]}
