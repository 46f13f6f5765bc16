"""Gateway API: an HTTPRoute whose weights say which revision's Services answer.

Apply it with a field manager of its own: `kubectl apply --server-side --field-manager infercrane -f httproute.json`.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from pulumi_infercrane.router.export._http_route import FILE, Reference, http_route, service_of
from pulumi_infercrane.router.export._place import Place
from pulumi_infercrane.router.tables.table import RouteTable, Upstream

TITLE = "Gateway API v1, Services"
DIFFERS: Mapping[str, str] = MappingProxyType(
    {
        "a flip": "weights of one object; when each gateway takes them, and whether streams survive, is its own",
        "weights": "of each request by itself: sessions are not kept",
        "new and removed revisions": "backends of the same object",
        "timers": "none: all are switched off",
        "a dead replica": "left to the Service and the gateway",
        "limits": "the gateway's own",
        "pins": "a header anybody may send; one that is unknown goes to what is active",
        "upstream keys": "refused: the object would show them",
        "errors": "the gateway's own; `/v1/models` does not exist",
    }
)


def render(table: RouteTable, place: Place) -> dict[str, bytes]:
    """The object. Raises ExportRefused."""
    return {FILE: http_route(table, _services)}


def stages(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> Sequence[Mapping[str, bytes]]:
    """One file."""
    return [after]


def tell(place: Place, files: Mapping[str, bytes], changed: Iterable[str]) -> bool:
    """Whoever owns the cluster applies the file."""
    return False


def _services(digest: str, upstreams: tuple[Upstream, ...]) -> list[Reference]:
    return [service_of(digest, upstream) for upstream in upstreams]
