"""What all exporters take from a route table, and what they answer themselves."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from pulumi_infercrane.router.addresses import why_refused
from pulumi_infercrane.router.errors import ExportRefused
from pulumi_infercrane.router.protocol.paths import PROTOCOLS
from pulumi_infercrane.router.tables.table import SERVING, WHOLE, Revision, RouteTable, Timers, Upstream

NOT_FORWARDED = (
    "Accept-Encoding",
    "Api-Key",
    "Authorization",
    "Cookie",
    "Forwarded",
    "X-Api-Key",
    "X-Forwarded-Host",
    "X-InferCrane-Attempt",
    "X-InferCrane-Error",
    "X-InferCrane-Generation",
    "X-InferCrane-Revision",
)
"""Request headers that end at the proxy; none of them may speak for the client or for us at the upstream."""
OURS = ("X-InferCrane-Attempt", "X-InferCrane-Error", "X-InferCrane-Generation", "X-InferCrane-Revision")
"""Answer headers an upstream may not set."""

UPSTREAM_IDLE_S = 3
"""vLLM and uvicorn close idle connections after 5 s: ours end before."""
CLIENT_HEAD_S, CLIENT_BODY_S, CLIENT_IDLE_S = 10, 60, 75
MAX_HEAD, MAX_BODY = 32 * 1024, 16 * 1024 * 1024

_SPECIAL = re.compile(r"[^A-Za-z0-9 ._/:\-]")


@dataclass(frozen=True)
class Server:
    """One upstream in clear text, without a path."""

    id: str
    host: str
    port: int

    @property
    def authority(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def paths(table: RouteTable) -> list[str]:
    """The paths of the declared protocols."""
    return [PROTOCOLS[protocol].decode() for protocol in sorted(table.declared.protocols)]


def pins(table: RouteTable) -> dict[str, str]:
    """What a request may ask for by header now → digest: the declared pins, or every digest and label."""
    declared = table.declared
    serving = {digest: one.label for digest, one in declared.revisions.items() if one.state == SERVING}
    if not declared.pinning:
        return {pin: pin for pin in declared.pins if pin in serving}
    return {name: digest for digest, label in sorted(serving.items()) for name in (digest, label)}


def shares(table: RouteTable) -> dict[str, int]:
    """Percent by revision, nothing of 0; empty when none is active."""
    weights = table.weights or ({table.active: WHOLE} if table.active else {})
    return {digest: weights[digest] for digest in sorted(weights) if weights[digest]}


def servers(digest: str, revision: Revision) -> list[Server]:
    """The upstreams of a revision that take requests.

    Raises:
        ExportRefused: one is reached by https or below a path.
    """
    return [_server(digest, upstream) for upstream in revision.upstreams if upstream.state == SERVING]


def _server(digest: str, upstream: Upstream) -> Server:
    if not why_refused(upstream.url, with_key=False):
        parts = urlsplit(upstream.url)
        if parts.scheme == "http" and not parts.path.strip("/"):
            return Server(upstream.id, parts.hostname or "", parts.port or 80)
    raise ExportRefused(f"revisions.{digest}: exported are upstreams http://host:port, not {upstream.url}")


def key_variable(digest: str, revision: Revision) -> str:
    """The environment variable with the key of a revision's upstreams, or the empty string.

    Raises:
        ExportRefused: its upstreams have different ones.
    """
    found = sorted({upstream.key_ref.removeprefix("env:") for upstream in revision.upstreams})
    if len(found) > 1:
        raise ExportRefused(f"revisions.{digest}: exported are upstreams with one key, these have {len(found)}")
    return found[0]


def refuse_keys(table: RouteTable, title: str) -> None:
    """For proxies that cannot take a key from their environment.

    Raises:
        ExportRefused: an upstream needs a key.
    """
    for digest, revision in table.declared.revisions.items():
        if key_variable(digest, revision):
            raise ExportRefused(f"revisions.{digest}: {title} cannot read a key from its environment")


def silence_s(timers: Timers) -> float:
    """These proxies have one timer for the first byte and for gaps: the longer of both."""
    return max(timers.first_byte_s, timers.gap_s)


def milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))


def models(table: RouteTable) -> str:
    """The answer to a question for models: the aliases, whatever the upstreams call theirs."""
    names = sorted(table.declared.aliases)
    data = [{"id": name, "object": "model", "created": 0, "owned_by": "infercrane"} for name in names]
    return plain_json({"object": "list", "data": data})


def error(code: str, message: str) -> str:
    """An answer in the shape of OpenAI's errors."""
    return plain_json({"error": {"message": message, "type": "invalid_request_error", "param": None, "code": code}})


def plain_json(document: Mapping[str, Any]) -> str:
    """JSON whose only special characters are those of its structure: no quoting rule of a proxy touches it."""
    return json.dumps(_spelled(document), separators=(",", ":")).replace("\\\\u", "\\u")


def _spelled(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _spelled(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_spelled(item) for item in value]
    return _SPECIAL.sub(lambda found: f"\\u{ord(found[0]):04x}", value) if isinstance(value, str) else value


def losses(table: RouteTable) -> Iterator[str]:
    """Sentences on what this table asks for and other proxies do not do."""
    declared, names = table.declared, ", ".join(table.declared.aliases)
    for revision in declared.revisions.values():
        if any(alias != revision.upstream_model for alias in declared.aliases):
            yield f"{revision.label} serves {revision.upstream_model}; its engine will be asked for {names}"
        if revision.answer_as_alias:
            yield f"{revision.label}: its answers keep the name that its engine gives them"
        if revision.health is not None:
            yield f"{revision.label}: no replica is left out for its failures"
    if declared.timers.total_s is not None:
        yield "timers.total_s: an answer may take any time"
    if declared.limits is not None:
        yield "limits: nothing bounds what runs and waits"
    if declared.fallback:
        yield f"{declared.revisions[declared.fallback].label} does not take over when the active revision is out"
    if declared.mirror is not None:
        yield f"nothing is copied to {declared.revisions[declared.mirror.revision].label}"
