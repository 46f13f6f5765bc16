"""The route table of one service: immutable values, strict reading, canonical digest.

A table is what the router serves by. Its declared part (aliases, protocols, revisions, pins, timers) is replaced as
a whole; `active` and `decision_id` move only by a flip. Reading is all or nothing: unknown fields, missing fields and
broken rules are collected and raised together.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import rfc8785

SCHEMA = "infercrane.route/v1"
SERVING = "serving"
DRAINING = "draining"


@dataclass(frozen=True)
class Upstream:
    """One address of a revision. `key_ref` names where its API key is kept (`env:NAME`), never the key."""

    id: str
    url: str
    key_ref: str = ""

    def document(self) -> dict[str, Any]:
        reference = {"key_ref": self.key_ref} if self.key_ref else {}
        return {"id": self.id, "url": self.url, **reference}


@dataclass(frozen=True)
class Revision:
    """Where a revision answers and under which model name. A draining one takes no new request."""

    label: str
    upstream_model: str
    dialect: str
    upstreams: tuple[Upstream, ...]
    state: str = SERVING
    drain_deadline: str = ""
    """RFC 3339 UTC; set while draining."""

    def document(self) -> dict[str, Any]:
        deadline = {"drain_deadline": self.drain_deadline} if self.drain_deadline else {}
        return {
            "label": self.label,
            "state": self.state,
            "upstream_model": self.upstream_model,
            "dialect": self.dialect,
            "upstreams": [upstream.document() for upstream in self.upstreams],
            **deadline,
        }


@dataclass(frozen=True)
class Timers:
    """Seconds until the router gives an exchange up."""

    connect_s: float = 5
    first_byte_s: float = 600
    """From the request's last byte to the answer's head, and to the first data event of a stream."""
    gap_s: float = 60
    """Between data events of a stream; comments do not count."""
    client_stall_s: float = 60
    """How long a client may leave its full receive buffer unread."""

    def document(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass(frozen=True)
class Declared:
    """The part of a table that its owner writes as a whole."""

    aliases: tuple[str, ...]
    protocols: tuple[str, ...]
    revisions: Mapping[str, Revision]
    pins: tuple[str, ...] = ()
    """Revisions that a request may ask for by header."""
    timers: Timers = field(default_factory=Timers)

    def document(self) -> dict[str, Any]:
        return {
            "aliases": list(self.aliases),
            "protocols": list(self.protocols),
            "revisions": {digest: revision.document() for digest, revision in self.revisions.items()},
            "pins": list(self.pins),
            "timers": self.timers.document(),
        }


@dataclass(frozen=True)
class RouteTable:
    """What is served for one service. `active` is empty until the first flip."""

    service: str
    generation: int
    declared: Declared
    active: str = ""
    decision_id: str = ""

    @cached_property
    def digest(self) -> str:
        """sha256 of the RFC 8785 form of everything but the digest itself."""
        return digest_of(self._body())

    def document(self) -> dict[str, Any]:
        """The table as JSON values, digest included."""
        return {**self._body(), "digest": self.digest}

    def _body(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "service": self.service,
            "generation": str(self.generation),
            "decision_id": self.decision_id,
            "active": self.active,
            **self.declared.document(),
        }


def digest_of(document: Mapping[str, Any]) -> str:
    """`sha256:<hex>` over the RFC 8785 form."""
    return f"sha256:{hashlib.sha256(rfc8785.dumps(dict(document))).hexdigest()}"
