"""nginx, HAProxy and Envoy set up to relay as fast as they can: one worker, connections kept, nothing logged or added.

The probes ask the configurations that `infercrane router export` writes instead.
"""

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from benchmarks.peers.peer import Peer, Place, said
from tests.router.export.proxies import prepare

NGINX = """
worker_processes 1; worker_rlimit_nofile 20000; daemon off; master_process off; pid {folder}/pid;
error_log {folder}/error.log warn;
events {{ worker_connections 8192; }}
http {{
  access_log off; keepalive_requests 1000000; keepalive_timeout 75s;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  upstream model {{ server {authority}; keepalive 1024; keepalive_requests 1000000; }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{
      proxy_pass http://model; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;
      proxy_read_timeout {silence_s}s; proxy_send_timeout {silence_s}s; proxy_next_upstream off;
    }}
  }}
}}
"""

HAPROXY = """
global
  nbthread 1
  maxconn 8192
defaults
  mode http
  option abortonclose
  option http-no-delay
  http-reuse always
  retries 0
  timeout connect 5s
  timeout client {silence_s}s
  timeout server {silence_s}s
frontend clients
  bind 127.0.0.1:{port} backlog 4096
  default_backend model
backend model
  server only {authority} pool-max-conn 2048
"""


def _nginx(place: Place) -> list[str]:
    config = _written(place, "nginx.conf", NGINX)
    return [str(prepare("nginx")), "-c", config, "-e", str(place.folder / "error.log")]


def _haproxy(place: Place) -> list[str]:
    return [str(prepare("haproxy")), "-f", _written(place, "haproxy.cfg", HAPROXY)]


def _written(place: Place, name: str, template: str) -> str:
    path, authority = place.folder / name, place.upstream.removeprefix("http://")
    values = {"folder": place.folder, "port": place.port, "silence_s": f"{place.silence_s:.0f}"}
    path.write_text(template.format(authority=authority, **values))
    return str(path)


def _envoy(place: Place) -> list[str]:
    path = place.folder / "envoy.json"
    path.write_text(json.dumps({"static_resources": {"listeners": [_listener(place)], "clusters": [_cluster(place)]}}))
    quiet = ["--disable-hot-restart", "--log-level", "error"]
    return [str(prepare("envoy")), "-c", str(path), "--concurrency", "1", *quiet]


def _listener(place: Place) -> dict[str, Any]:
    route = {"match": {"prefix": "/"}, "route": {"cluster": "model", "timeout": "0s"}}
    manager = {
        "@type": f"{_TYPES}.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "clients",
        "codec_type": "HTTP1",
        "generate_request_id": False,
        "stream_idle_timeout": f"{place.silence_s:.0f}s",
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [route]}]},
        "http_filters": [
            {"name": "router", "typed_config": {"@type": f"{_TYPES}.filters.http.router.v3.Router"}},
        ],
    }
    chain = {"filters": [{"name": "http", "typed_config": manager}]}
    return {"name": "clients", "address": _address("127.0.0.1", place.port), "filter_chains": [chain]}


def _cluster(place: Place) -> dict[str, Any]:
    """Its circuit breaker opens at 1,024 otherwise."""
    host, _, port = place.upstream.removeprefix("http://").partition(":")
    endpoints = [{"lb_endpoints": [{"endpoint": {"address": _address(host, int(port))}}]}]
    most = {"max_connections": 20_000, "max_pending_requests": 20_000, "max_requests": 20_000, "max_retries": 0}
    return {
        "name": "model",
        "type": "STATIC",
        "connect_timeout": "5s",
        "circuit_breakers": {"thresholds": [most]},
        "load_assignment": {"cluster_name": "model", "endpoints": endpoints},
    }


def _address(host: str, port: int) -> dict[str, Any]:
    return {"socket_address": {"address": host, "port_value": port}}


_TYPES = "type.googleapis.com/envoy.extensions"

PEERS: Mapping[str, Peer] = MappingProxyType(
    {
        "nginx": Peer(_nginx, lambda: said(prepare("nginx"), "-v")),
        "haproxy": Peer(_haproxy, lambda: said(prepare("haproxy"), "-v")),
        "envoy": Peer(_envoy, lambda: said(prepare("envoy"), "--version")),
    }
)
