"""HAProxy: `haproxy.cfg`, and `active.map` that alone changes with a flip and is set in the running process.

Start it with `haproxy -W -f FOLDER/haproxy.cfg`. The map goes into the running process in one commit, which no request
and no stream notices; the file says the same, for a reload would read it. A change of revisions is a reload of the
master: old workers serve until their last stream ends. They close idle client connections in doing so, and answer by
the old table on busy ones: so every answer ends its connection.
"""

import signal
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from pulumi_infercrane.router.errors import ExportNotLive
from pulumi_infercrane.router.export._place import Place
from pulumi_infercrane.router.export._process import ask, running, signal_to
from pulumi_infercrane.router.export._view import (
    CLIENT_BODY_S,
    CLIENT_HEAD_S,
    MAX_BODY,
    MAX_HEAD,
    NOT_FORWARDED,
    error,
    key_variable,
    milliseconds,
    models,
    paths,
    pins,
    servers,
    shares,
    silence_s,
)
from pulumi_infercrane.router.tables.table import WHOLE, Revision, RouteTable, Timers

TITLE = "HAProxy, tested with 2.6.12"
DIFFERS: Mapping[str, str] = MappingProxyType(
    {
        "a flip": "one commit of a map in the running process",
        "weights": "as ours, of a session by another hash",
        "new and removed revisions": "a reload; to lose nothing in it, every answer ends its connection",
        "timers": "one for the first byte and for gaps, the longer of both; comments reset it",
        "a dead replica": "503 for its share of requests: nothing is retried, nothing is checked",
        "limits": "head 32 KiB; 16 MiB by Content-Length only",
        "pins": "as ours; a draining or undeclared one is 404",
        "upstream keys": "one per revision, from HAProxy's environment when it starts",
        "errors": "400, 408, 502, 503 and 504 are HAProxy's own pages",
    }
)

CONFIG, MAP, SOCKET, PID = "haproxy.cfg", "active.map", "haproxy.sock", "haproxy.pid"
NOWHERE = "infercrane.none"
BALANCE = MappingProxyType(
    {
        "round_robin": "roundrobin",
        "least_inflight": "leastconn",
        "power_of_two": "random(2)",
        "consistent_hash": "leastconn",
    }
)
"""Prefixes are in bodies, which are not read."""
_REQUEST_ID = "^[A-Za-z0-9._-]{1,64}$"


def render(table: RouteTable, place: Place) -> dict[str, bytes]:
    """Configuration and map. Raises ExportRefused."""
    blocks = [_global(table, place), _defaults(table.declared.timers), _frontend(table, place), _nowhere()]
    blocks += [_backend(digest, revision) for digest, revision in sorted(table.declared.revisions.items())]
    return {MAP: _map(table).encode(), CONFIG: "\n".join(_block(*block) for block in blocks).encode()}


def stages(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> Sequence[Mapping[str, bytes]]:
    """The map is read at the start only: all at once."""
    return [after]


def tell(place: Place, files: Mapping[str, bytes], changed: Iterable[str]) -> bool:
    """Reload for another configuration, else set the map. Raises ExportNotLive."""
    names = tuple(changed)
    master = running(place.folder / PID, ("haproxy", place.path(CONFIG)))
    if CONFIG in names and master is not None:
        signal_to(master, signal.SIGUSR2)
        return True
    return _set_map(place, files[MAP].decode())


def _set_map(place: Place, content: str) -> bool:
    path, socket = place.path(MAP), place.folder / SOCKET
    prepared = ask(socket, f"prepare map {path}\n".encode())
    if prepared is None:
        return False
    version = prepared.decode(errors="replace").rpartition(":")[2].strip()
    if not version.isdecimal():
        raise ExportNotLive(f"HAProxy did not prepare {path}: {prepared.decode(errors='replace').strip()}")
    adds = [f"add map @{version} {path} {line}" for line in content.splitlines()]
    said = ask(socket, "; ".join([*adds, f"commit map @{version} {path}"]).encode() + b"\n") or b""
    if said.strip():
        raise ExportNotLive(f"HAProxy did not take {path}: {said.decode(errors='replace').strip()}")
    return True


def _map(table: RouteTable) -> str:
    """The active revision; and of 100 sides of a request, from 0 on, those that are another's."""
    lines = [f"active {table.active or NOWHERE}", f"generation {table.generation}"]
    others = [digest for digest, percent in shares(table).items() if digest != table.active for _ in range(percent)]
    return "".join(f"{line}\n" for line in [*lines, *(f"{side} {digest}" for side, digest in enumerate(others))])


def _sides(session_header: str) -> str:
    """A whole number below 100: by chance, or of a session."""
    sides = [f"http-request set-var(txn.side) rand({WHOLE})"]
    if session_header:
        session = f"req.hdr({session_header})"
        sides.append(f"http-request set-var(txn.side) {session},xxh32(0),mod({WHOLE}) if {{ {session} -m found }}")
    return "\n    ".join(sides)


def _block(head: str, lines: Iterable[str]) -> str:
    return "\n    ".join([head, *lines]) + "\n"


def _global(table: RouteTable, place: Place) -> tuple[str, list[str]]:
    about = f"# Route table of {table.service}, written as a whole by `infercrane router export`: edits are lost.\n"
    return about + "global", [
        f"stats socket {place.path(SOCKET)} mode 600 level admin expose-fd listeners",
        f"pidfile {place.path(PID)}",
        f"tune.bufsize {MAX_HEAD + 1024}",
        "tune.http.maxhdr 101",
    ]


def _defaults(timers: Timers) -> tuple[str, list[str]]:
    silence = milliseconds(silence_s(timers))
    return "defaults", [
        "mode http",
        "option abortonclose",
        "option http-no-delay",
        "http-reuse always",
        "retries 0",
        f"timeout connect {milliseconds(timers.connect_s)}",
        f"timeout server {silence}",
        f"timeout client {max(silence, milliseconds(timers.client_stall_s), CLIENT_BODY_S * 1000)}",
        f"timeout http-request {CLIENT_HEAD_S}s",
    ]


def _frontend(table: RouteTable, place: Place) -> tuple[str, list[str]]:
    pin, allowed = "req.hdr(X-InferCrane-Revision)", pins(table)
    unknown = "is_pinned !may_be_pinned" if allowed else "is_pinned"
    return f"frontend {table.service}", [
        f"bind {place.listen}",
        f"acl is_models path {'/v1/models'}",
        *([f"acl is_known path {' '.join(paths(table))}"] if paths(table) else ["acl is_known always_false"]),
        f"acl is_pinned {pin} -m found",
        *([f"acl may_be_pinned {pin} -m str {' '.join(allowed)}"] if allowed else []),
        "http-after-response set-header Connection close",
        "http-request set-var(txn.id) uuid()",
        f"http-request set-var(txn.id) req.hdr(X-Request-Id) if {{ req.hdr(X-Request-Id) -m reg {_REQUEST_ID} }}",
        f"http-request return status 200 content-type application/json string '{models(table)}'"
        f" hdr X-InferCrane-Revision {_looked_up(place, 'active')}"
        f" hdr X-InferCrane-Generation {_looked_up(place, 'generation')} if is_models {{ method GET HEAD }}",
        _refuse(405, "method_not_allowed", "this path takes GET and HEAD", "if is_models"),
        _refuse(404, "unsupported_endpoint", "there is no such path here", "unless is_known"),
        _refuse(405, "method_not_allowed", "this path takes POST", "unless METH_POST"),
        _refuse(
            413, "body_too_large", "the body is too large", f"if {{ req.hdr(Content-Length),add(0) gt {MAX_BODY} }}"
        ),
        _refuse(404, "unknown_revision", "the pinned revision may not be asked for", f"if {unknown}"),
        _sides(table.declared.session_header),
        f"http-request set-var(txn.to) var(txn.side),map({place.path(MAP)})",
        f"http-request set-var(txn.to) str(active),map({place.path(MAP)}) unless {{ var(txn.to) -m found }}",
        *(f"use_backend {digest} if {{ {pin} -m str {name} }}" for name, digest in allowed.items()),
        "use_backend %[var(txn.to)]",
        f"default_backend {NOWHERE}",
    ]


def _looked_up(place: Place, key: str) -> str:
    return f"%[str({key}),map({place.path(MAP)})]"


def _refuse(status: int, code: str, message: str, condition: str = "") -> str:
    says = f"http-request return status {status} content-type application/json"
    return f"{says} hdr X-InferCrane-Error {code} string '{error(code, message)}' {condition}".rstrip()


def _nowhere() -> tuple[str, list[str]]:
    return f"backend {NOWHERE}", [_refuse(503, "no_route", "no revision is active yet")]


def _backend(digest: str, revision: Revision) -> tuple[str, list[str]]:
    found = servers(digest, revision)
    key = key_variable(digest, revision)
    return f"backend {digest}", [
        f"description {revision.label}",
        f"balance {BALANCE[revision.balance]}",
        *(f"http-request del-header {name}" for name in NOT_FORWARDED),
        f"http-request set-header Host {found[0].authority}",
        "http-request set-header X-Request-Id %[var(txn.id)]",
        "http-request set-header X-Forwarded-For %[src]",
        "http-request set-header X-Forwarded-Proto http",
        *(_with_key(key) if key else ()),
        "http-response del-header X-InferCrane- -m beg",
        f"http-response set-header X-InferCrane-Revision {digest}",
        "http-response set-header X-Request-Id %[var(txn.id)]",
        *(f"server {one.id.replace('/', ':')} {one.authority} pool-purge-delay 1s" for one in found),
    ]


def _with_key(variable: str) -> list[str]:
    """A request is never sent without the key."""
    return [
        _refuse(503, "no_upstream", "the key of this revision is missing", f"if !{{ env({variable}) -m found }}"),
        f'http-request set-header Authorization "Bearer %[env({variable})]"',
    ]
