"""Gateway API inference extension: the HTTPRoute of `gateway_api`, with an InferencePool in the place of each Service.

A revision's pool carries the name of its Service; the pool's endpoint picker chooses the replica.
"""

from collections.abc import Mapping
from types import MappingProxyType

from pulumi_infercrane.router.errors import ExportRefused
from pulumi_infercrane.router.export import gateway_api
from pulumi_infercrane.router.export._http_route import FILE, Reference, http_route, service_of
from pulumi_infercrane.router.export._place import Place
from pulumi_infercrane.router.tables.table import RouteTable, Upstream

TITLE = "Gateway API v1, InferencePools"
DIFFERS: Mapping[str, str] = MappingProxyType(
    {**gateway_api.DIFFERS, "a dead replica": "left to the pool's endpoint picker; without one, requests fail"}
)
GROUP = "inference.networking.k8s.io"

stages, tell = gateway_api.stages, gateway_api.tell


def render(table: RouteTable, place: Place) -> dict[str, bytes]:
    """The object. Raises ExportRefused."""
    return {FILE: http_route(table, _pool)}


def _pool(digest: str, upstreams: tuple[Upstream, ...]) -> list[Reference]:
    if len(upstreams) > 1:
        raise ExportRefused(f"revisions.{digest}: one InferencePool stands for a revision, this has {len(upstreams)}")
    return [{"group": GROUP, "kind": "InferencePool", **service_of(digest, upstreams[0])}]
