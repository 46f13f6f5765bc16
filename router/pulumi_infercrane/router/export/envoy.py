"""Envoy: `envoy.json` to start with, and xDS in files that it watches: `cds.json`, `eds-….json` and `rds.json`.

Start it with `envoy -c FOLDER/envoy.json`. A flip replaces `rds.json` alone, by a rename, which is all that Envoy takes
notice of. Clusters are there before a route names them and go after none does.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import ip_address
from types import MappingProxyType
from typing import Any

from pulumi_infercrane.router.errors import ExportRefused
from pulumi_infercrane.router.export._deliver import until
from pulumi_infercrane.router.export._place import Place
from pulumi_infercrane.router.export._process import ask
from pulumi_infercrane.router.export._view import (
    CLIENT_BODY_S,
    CLIENT_HEAD_S,
    CLIENT_IDLE_S,
    MAX_HEAD,
    NOT_FORWARDED,
    OURS,
    UPSTREAM_IDLE_S,
    error,
    key_variable,
    models,
    paths,
    pins,
    servers,
    shares,
    silence_s,
)
from pulumi_infercrane.router.tables.table import WHOLE, Revision, RouteTable, Timers

TITLE = "Envoy, tested with 1.40.0"
DIFFERS: Mapping[str, str] = MappingProxyType(
    {
        "a flip": "a renamed file, taken within milliseconds by every worker in turn",
        "weights": "of each request by itself: sessions are not kept",
        "new and removed revisions": "renamed files; streams of a removed one finish",
        "timers": "one for the first byte and for gaps, the longer of both; comments reset it",
        "a dead replica": "503 for its share of requests: nothing is retried, nothing is checked",
        "limits": "head 32 KiB; none for bodies: Envoy would have to hold them",
        "pins": "as ours; a draining or undeclared one is 404",
        "upstream keys": "one per revision, from Envoy's environment; without it `-` is sent",
        "errors": "400, 408, 503 and 504 are Envoy's own texts",
    }
)

START, CLUSTERS, ROUTES, SOCKET = "envoy.json", "cds.json", "rds.json", "envoy.sock"
BALANCE = MappingProxyType(
    {
        "round_robin": "ROUND_ROBIN",
        "least_inflight": "LEAST_REQUEST",
        "power_of_two": "LEAST_REQUEST",
        "consistent_hash": "LEAST_REQUEST",
    }
)
"""Prefixes are in bodies, which are not read."""
_TYPES = "type.googleapis.com/envoy"
_MANY = 1_000_000
_ASK = b"GET /clusters HTTP/1.1\r\nHost: envoy\r\nConnection: close\r\n\r\n"


def render(table: RouteTable, place: Place) -> dict[str, bytes]:
    """All files, in the order in which they may be written. Raises ExportRefused."""
    revisions = sorted(table.declared.revisions.items())
    endpoints = {_endpoints_file(digest): _endpoints(digest, revision) for digest, revision in revisions}
    clusters = [_cluster(digest, one, table.declared.timers, place) for digest, one in revisions]
    return {
        START: _document(_start(table, place)),
        **{name: _document(_resources([one])) for name, one in endpoints.items()},
        CLUSTERS: _document(_resources(clusters)),
        ROUTES: _document(_resources([_routes(table)], str(table.generation))),
    }


def stages(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> Sequence[Mapping[str, bytes]]:
    """First what is new beside what was there, then the routes, at last without what no route names any more."""
    first = {name: content for name, content in after.items() if name not in (CLUSTERS, ROUTES)}
    first[CLUSTERS] = _document(_resources([*_clusters(after), *_missing(_clusters(before), _clusters(after))]))
    return [first, {ROUTES: after[ROUTES]}, {CLUSTERS: after[CLUSTERS]}]


def tell(place: Place, files: Mapping[str, bytes], changed: Iterable[str]) -> bool:
    """Envoy watches its files: only wait until new clusters are ready. Raises ExportNotLive."""
    listed = ask(place.folder / SOCKET, _ASK)
    if listed is None:
        return False
    wanted = [f"{cluster['name']}::".encode() for cluster in _clusters(files)]
    until(lambda: all(b"\n" + name in (ask(place.folder / SOCKET, _ASK) or b"") for name in wanted), "clusters", place)
    return True


def _clusters(files: Mapping[str, bytes]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(files[CLUSTERS])["resources"] if CLUSTERS in files else []
    return found


def _missing(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> list[dict[str, Any]]:
    names = {cluster["name"] for cluster in after}
    return [cluster for cluster in before if cluster["name"] not in names]


def _document(value: Any) -> bytes:
    return json.dumps(value, indent=1).encode() + b"\n"


def _resources(resources: Sequence[Mapping[str, Any]], version: str = "") -> dict[str, Any]:
    return {**({"version_info": version} if version else {}), "resources": list(resources)}


def _endpoints_file(digest: str) -> str:
    return f"eds-{digest.removeprefix('sha256:')}.json"


def _file(place: Place, name: str) -> dict[str, Any]:
    return {"resource_api_version": "V3", "path_config_source": {"path": place.path(name)}}


def _seconds(value: float) -> str:
    return f"{value:.3f}s"


def _start(table: RouteTable, place: Place) -> dict[str, Any]:
    manager = {"name": "http", "typed_config": _connection_manager(place)}
    address = {"address": place.listen.host, "port_value": place.listen.port}
    return {
        "node": {"id": f"infercrane-{table.service}", "cluster": "infercrane"},
        "admin": {"address": {"pipe": {"path": place.path(SOCKET), "mode": 0o600}}},
        "dynamic_resources": {"cds_config": _file(place, CLUSTERS)},
        "static_resources": {
            "listeners": [
                {
                    "name": table.service,
                    "address": {"socket_address": address},
                    "per_connection_buffer_limit_bytes": 65_536,
                    "filter_chains": [{"filters": [manager]}],
                }
            ]
        },
    }


def _connection_manager(place: Place) -> dict[str, Any]:
    router = {"@type": f"{_TYPES}.extensions.filters.http.router.v3.Router", "suppress_envoy_headers": True}
    return {
        "@type": f"{_TYPES}.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "infercrane",
        "codec_type": "HTTP1",
        "use_remote_address": True,
        "server_header_transformation": "PASS_THROUGH",
        "always_set_request_id_in_response": True,
        "max_request_headers_kb": MAX_HEAD // 1024,
        "request_headers_timeout": f"{CLIENT_HEAD_S}s",
        "request_timeout": f"{CLIENT_BODY_S}s",
        "stream_idle_timeout": "0s",
        "common_http_protocol_options": {
            "idle_timeout": f"{CLIENT_IDLE_S}s",
            "headers_with_underscores_action": "DROP_HEADER",
        },
        "rds": {"route_config_name": "infercrane", "config_source": _file(place, ROUTES)},
        "http_filters": [{"name": "router", "typed_config": router}],
    }


def _cluster(digest: str, revision: Revision, timers: Timers, place: Place) -> dict[str, Any]:
    http = f"{_TYPES}.extensions.upstreams.http.v3.HttpProtocolOptions"
    most = dict.fromkeys(("max_connections", "max_pending_requests", "max_requests"), _MANY)
    return {
        "@type": f"{_TYPES}.config.cluster.v3.Cluster",
        "name": digest,
        "type": "EDS",
        "eds_cluster_config": {"eds_config": _file(place, _endpoints_file(digest)), "service_name": digest},
        "lb_policy": BALANCE[revision.balance],
        "connect_timeout": _seconds(timers.connect_s),
        "circuit_breakers": {"thresholds": [{**most, "max_retries": 0}]},
        "typed_extension_protocol_options": {
            http.removeprefix("type.googleapis.com/"): {
                "@type": http,
                "common_http_protocol_options": {"idle_timeout": f"{UPSTREAM_IDLE_S}s"},
                "explicit_http_config": {"http_protocol_options": {}},
            }
        },
    }


def _endpoints(digest: str, revision: Revision) -> dict[str, Any]:
    found = [_endpoint(digest, one.host, one.port) for one in servers(digest, revision)]
    return {
        "@type": f"{_TYPES}.config.endpoint.v3.ClusterLoadAssignment",
        "cluster_name": digest,
        "endpoints": [{"lb_endpoints": found}],
    }


def _endpoint(digest: str, host: str, port: int) -> dict[str, Any]:
    try:
        ip_address(host)
    except ValueError as error_:
        raise ExportRefused(f"revisions.{digest}: Envoy's endpoints are IP addresses, not {host}") from error_
    return {"endpoint": {"address": {"socket_address": {"address": host, "port_value": port}}}}


def _routes(table: RouteTable) -> dict[str, Any]:
    taken = [route for path in paths(table) for route in _routes_of(path, table)]
    return {
        "@type": f"{_TYPES}.config.route.v3.RouteConfiguration",
        "name": "infercrane",
        "virtual_hosts": [
            {
                "name": table.service,
                "domains": ["*"],
                "routes": [
                    *_models(table),
                    *taken,
                    _refuse({"prefix": "/"}, 404, "unsupported_endpoint", "there is no such path here"),
                ],
            }
        ],
    }


def _models(table: RouteTable) -> list[dict[str, Any]]:
    headers = [_header("X-InferCrane-Generation", str(table.generation)), _header("Content-Type", "application/json")]
    answer = {
        "match": {"path": "/v1/models", "headers": [_exactly(":method", "GET")]},
        "direct_response": {"status": 200, "body": {"inline_string": models(table)}},
        "response_headers_to_add": [*headers, *_revision(table.active)],
    }
    return [answer, _refuse({"path": "/v1/models"}, 405, "method_not_allowed", "this path takes GET")]


def _routes_of(path: str, table: RouteTable) -> list[dict[str, Any]]:
    """First match wins: another method, each pin, any other pin, what is active."""
    pin, post = "x-infercrane-revision", [_exactly(":method", "POST")]
    other: dict[str, Any] = {"name": ":method", "string_match": {"exact": "POST"}, "invert_match": True}
    pinned: dict[str, Any] = {"path": path, "headers": [{"name": pin, "present_match": True}]}
    no_pin = _refuse(pinned, 404, "unknown_revision", "the pinned revision may not be asked for")
    active: dict[str, Any] = {"path": path, "headers": post}
    return [
        _refuse({"path": path, "headers": [other]}, 405, "method_not_allowed", "this path takes POST"),
        *(
            _route({"path": path, "headers": [*post, _exactly(pin, name)]}, {digest: WHOLE}, table)
            for name, digest in pins(table).items()
        ),
        no_pin,
        _route(active, shares(table), table)
        if table.active
        else _refuse(active, 503, "no_route", "no revision is active yet"),
    ]


def _route(match: Mapping[str, Any], to: Mapping[str, int], table: RouteTable) -> dict[str, Any]:
    """To the revisions by their shares in percent."""
    return {
        "match": match,
        "route": {
            "weighted_clusters": {"clusters": [_share(digest, percent, table) for digest, percent in to.items()]},
            "timeout": "0s",
            "idle_timeout": _seconds(silence_s(table.declared.timers)),
        },
    }


def _share(digest: str, percent: int, table: RouteTable) -> dict[str, Any]:
    revision = table.declared.revisions[digest]
    key = key_variable(digest, revision)
    return {
        "name": digest,
        "weight": percent,
        "host_rewrite_literal": servers(digest, revision)[0].authority,
        "request_headers_to_remove": [name.lower() for name in NOT_FORWARDED],
        "request_headers_to_add": [_header("Authorization", f"Bearer %ENVIRONMENT({key})%")] if key else [],
        "response_headers_to_remove": [name.lower() for name in OURS],
        "response_headers_to_add": _revision(digest),
    }


def _refuse(match: Mapping[str, Any], status: int, code: str, message: str) -> dict[str, Any]:
    return {
        "match": match,
        "direct_response": {"status": status, "body": {"inline_string": error(code, message)}},
        "response_headers_to_add": [_header("X-InferCrane-Error", code), _header("Content-Type", "application/json")],
    }


def _header(name: str, value: str) -> dict[str, Any]:
    return {"header": {"key": name, "value": value}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}


def _revision(digest: str) -> list[dict[str, Any]]:
    return [_header("X-InferCrane-Revision", digest)] if digest else []


def _exactly(name: str, value: str) -> dict[str, Any]:
    return {"name": name, "string_match": {"exact": value}}
