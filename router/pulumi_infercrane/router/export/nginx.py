"""nginx: `nginx.conf`, and `active.conf` that alone changes with a flip; both take a reload.

Start it with `nginx -c FOLDER/nginx.conf`. A reload starts new workers; the old ones serve until their last stream
ends. They close idle client connections in doing so, on which a client may just have sent its next request: so every
answer ends its connection.
"""

import signal
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from pulumi_infercrane.router.export._deliver import until
from pulumi_infercrane.router.export._place import Place
from pulumi_infercrane.router.export._process import running, signal_to
from pulumi_infercrane.router.export._view import (
    CLIENT_BODY_S,
    CLIENT_HEAD_S,
    MAX_BODY,
    MAX_HEAD,
    NOT_FORWARDED,
    OURS,
    UPSTREAM_IDLE_S,
    error,
    milliseconds,
    models,
    paths,
    pins,
    refuse_keys,
    servers,
    shares,
    silence_s,
)
from pulumi_infercrane.router.tables.table import Revision, RouteTable, Timers

TITLE = "nginx, tested with 1.22.1"
DIFFERS: Mapping[str, str] = MappingProxyType(
    {
        "a flip": "a reload of all workers, in some 0.1 s; to lose nothing in it, every answer ends its connection",
        "weights": "as ours, of a session by another hash",
        "new and removed revisions": "as a flip",
        "timers": "one for the first byte and for gaps, the longer of both; comments reset it; at most 75 s to connect",
        "a dead replica": "502 once, then left out for 10 s: nothing is retried",
        "limits": "head 32 KiB, body 16 MiB, as ours",
        "pins": "as ours; a draining or undeclared one is 404",
        "upstream keys": "refused: nginx reads no environment",
        "errors": "400, 408, 413, 502 and 504 are nginx's own pages",
    }
)

CONFIG, ACTIVE, PID = "nginx.conf", "active.conf", "nginx.pid"
BALANCE = MappingProxyType(
    {
        "round_robin": "",
        "least_inflight": "    least_conn;\n",
        "power_of_two": "    random two least_conn;\n",
        "consistent_hash": "    least_conn;\n",
    }
)
"""Prefixes are in bodies, which are not read."""
NOWHERE, UNKNOWN = "none", "unknown"


def render(table: RouteTable, place: Place) -> dict[str, bytes]:
    """Configuration and what is active. Raises ExportRefused."""
    refuse_keys(table, "nginx")
    return {ACTIVE: _active(table).encode(), CONFIG: _config(table, place).encode()}


def stages(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> Sequence[Mapping[str, bytes]]:
    """Nothing is read before the signal: all at once."""
    return [after]


def tell(place: Place, files: Mapping[str, bytes], changed: Iterable[str]) -> bool:
    """Reload. Raises ExportNotLive."""
    master = running(place.folder / PID, ("nginx: master process", place.path(CONFIG)))
    if master is None:
        return False
    if tuple(changed):
        before = _accepting(master)
        signal_to(master, signal.SIGHUP)
        until(lambda: not before & _accepting(master), "by new workers alone", place)
    return True


def _accepting(master: int) -> set[str]:
    """Workers that take connections: one that ends says so in its title."""
    children = _text(Path(f"/proc/{master}/task/{master}/children")).split()
    return {pid for pid in children if _text(Path(f"/proc/{pid}/cmdline")).rstrip("\0 ") == "nginx: worker process"}


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _active(table: RouteTable) -> str:
    backend = _name(table.active) if table.active else NOWHERE
    others = {digest: percent for digest, percent in shares(table).items() if digest != table.active}
    split = "".join(f"{percent}% {_name(digest)}; " for digest, percent in others.items())
    return (
        f'split_clients "$infercrane_side" $infercrane_active {{ {split}* {backend}; }}\n'
        f'map "" $infercrane_active_revision {{ default "{table.active}"; }}\n'
        f'map "" $infercrane_generation {{ default {table.generation}; }}\n'
    )


def _name(digest: str) -> str:
    """Names of upstream groups are hosts to nginx: no colon."""
    return digest.replace(":", "-")


def _config(table: RouteTable, place: Place) -> str:
    groups = "".join(_group(digest, revision) for digest, revision in sorted(table.declared.revisions.items()))
    temporary = "".join(
        f"  {name}_temp_path {place.path('tmp-' + name)};\n"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    return f"""\
# Route table of {table.service}, written as a whole by `infercrane router export`: edits are lost.
worker_processes auto;
pid {place.path(PID)};
error_log {place.path("error.log")} warn;
worker_rlimit_nofile 65536;
events {{ worker_connections 16384; }}
http {{
  map_hash_bucket_size 256;
  include {place.path(ACTIVE)};
{_maps(table)}{groups}{temporary}\
  access_log off;
  server_tokens off;
  gzip off;
  default_type application/json;
{_limits(table.declared.timers)}\
  server {{
    listen {place.listen} backlog=4096;
    location = /v1/models {{
      limit_except GET {{ deny all; }}
      add_header X-InferCrane-Revision $infercrane_active_revision;
      add_header X-InferCrane-Generation $infercrane_generation;
      return 200 '{models(table)}';
    }}
{"".join(_location(path) for path in paths(table))}\
    location / {{ {_refuse(404, "unsupported_endpoint", "there is no such path here")} }}
  }}
}}
"""


def _maps(table: RouteTable) -> str:
    pinned = "".join(f'    "{name}" {_name(digest)};\n' for name, digest in pins(table).items())
    revisions = "".join(f'    {_name(digest)} "{digest}";\n' for digest in sorted(table.declared.revisions))
    header = table.declared.session_header
    session = f"$http_{header.replace('-', '_')}" if header else ""
    return f"""\
  map $http_x_infercrane_revision $infercrane_backend {{
    "" $infercrane_active;
{pinned}    default {UNKNOWN};
  }}
  map $infercrane_backend $infercrane_revision {{
{revisions}    default "";
  }}
  map "{session}" $infercrane_side {{
    "" $request_id;
    default "{session}";
  }}
  map $http_x_request_id $infercrane_id {{
    "~^[A-Za-z0-9._-]{{1,64}}$" $http_x_request_id;
    default $request_id;
  }}
"""


def _group(digest: str, revision: Revision) -> str:
    lines = "".join(f"    server {one.authority};\n" for one in servers(digest, revision))
    return f"""\
  upstream {_name(digest)} {{  # {revision.label}
{BALANCE[revision.balance]}{lines}    keepalive 256;
    keepalive_timeout {UPSTREAM_IDLE_S}s;
    keepalive_requests 1000000;
  }}
"""


def _limits(timers: Timers) -> str:
    silence = milliseconds(silence_s(timers))
    return f"""\
  client_header_timeout {CLIENT_HEAD_S}s;
  client_body_timeout {CLIENT_BODY_S}s;
  client_max_body_size {MAX_BODY};
  client_body_buffer_size {MAX_BODY};  # prompts stay in memory
  large_client_header_buffers 4 {MAX_HEAD};
  keepalive_timeout 0;
  send_timeout {milliseconds(timers.client_stall_s)}ms;
  proxy_connect_timeout {min(75_000, milliseconds(timers.connect_s))}ms;
  proxy_read_timeout {silence}ms;
  proxy_send_timeout {CLIENT_BODY_S}s;
  proxy_http_version 1.1;
  proxy_buffering off;
  proxy_next_upstream off;
  proxy_ignore_headers X-Accel-Redirect X-Accel-Expires X-Accel-Buffering X-Accel-Limit-Rate X-Accel-Charset;
  proxy_pass_header Server;
  proxy_pass_header Date;
"""


def _location(path: str) -> str:
    dropped = "".join(f'      proxy_set_header {name} "";\n' for name in NOT_FORWARDED)
    hidden = "".join(f"      proxy_hide_header {name};\n" for name in (*OURS, "X-Request-Id"))
    no_method = _refuse(405, "method_not_allowed", "this path takes POST")
    no_pin = _refuse(404, "unknown_revision", "the pinned revision may not be asked for")
    no_route = _refuse(503, "no_route", "no revision is active yet")
    return f"""\
    location = {path} {{
      if ($request_method != POST) {{ {no_method} }}
      if ($infercrane_backend = {UNKNOWN}) {{ {no_pin} }}
      if ($infercrane_backend = {NOWHERE}) {{ {no_route} }}
      proxy_pass http://$infercrane_backend;
      proxy_set_header Connection "";
      proxy_set_header X-Request-Id $infercrane_id;
      proxy_set_header X-Forwarded-For $remote_addr;
      proxy_set_header X-Forwarded-Proto $scheme;
{dropped}{hidden}\
      add_header X-InferCrane-Revision $infercrane_revision always;
      add_header X-Request-Id $infercrane_id always;
    }}
"""


def _refuse(status: int, code: str, message: str) -> str:
    return f"return {status} '{error(code, message)}';"
