"""The route table of one service: immutable values, strict reading, canonical digest.

A table is what the router serves by. Its declared part (aliases, protocols, revisions, pins, timers …) is replaced as
a whole; `active` and `decision_id` move only by a flip, `weights` by a flip or a call of their own. What a table does
not say is not written either, so a table of an earlier version keeps its digest. Reading is all or nothing: unknown
fields, missing fields and broken rules are collected and raised together.
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
WHOLE = 100
"""All traffic, in the percent of weights."""
ROUND_ROBIN = "round_robin"


@dataclass(frozen=True)
class Upstream:
    """One address of a revision. `key_ref` names where its API key is kept (`env:NAME`), never the key."""

    id: str
    url: str
    key_ref: str = ""
    state: str = SERVING
    """A draining one takes no new request; what it is answering goes on."""
    refused: str = ""
    """Why it is never dialled: only in a table that was persisted before its URL was refused. Not written."""

    def document(self) -> dict[str, Any]:
        reference = {"key_ref": self.key_ref} if self.key_ref else {}
        state = {"state": self.state} if self.state != SERVING else {}
        return {"id": self.id, "url": self.url, **reference, **state}


@dataclass(frozen=True)
class Health:
    """When a replica of a revision is left out, and how it comes back. Times in seconds."""

    eject_after: int = 5
    """Failures in a row: no connection, no valid answer in time, or a status from 500."""
    eject_s: float = 5
    """For how long; doubled each time, if it fails again soon after its return."""
    eject_most_s: float = 60
    probe_s: float = 0
    """How often the health path of the dialect is asked; 0 is never."""
    probe_timeout_s: float = 2
    probe_failures: int = 3
    """Probes in a row that must fail."""
    slow_start_s: float = 0
    """How long a replica that is new or back takes to get its full share; 0 is at once."""

    def document(self) -> dict[str, Any]:
        return dict(vars(self))


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
    balance: str = ROUND_ROBIN
    health: Health | None = None
    """Without it no replica is ever left out."""
    answer_as_alias: bool = False
    """Whether `model` in answers is changed to the alias that was asked for; costs time per streamed event."""

    def document(self) -> dict[str, Any]:
        balance = {"balance": self.balance} if self.balance != ROUND_ROBIN else {}
        health = {"health": self.health.document()} if self.health is not None else {}
        alias = {"answer_as_alias": True} if self.answer_as_alias else {}
        deadline = {"drain_deadline": self.drain_deadline} if self.drain_deadline else {}
        return {
            "label": self.label,
            "state": self.state,
            "upstream_model": self.upstream_model,
            "dialect": self.dialect,
            "upstreams": [upstream.document() for upstream in self.upstreams],
            **deadline,
            **balance,
            **health,
            **alias,
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
    total_s: float | None = None
    """From the arrival of a request to the end of its answer; None lets it take its time."""

    def document(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True)
class Mirror:
    """A copy of a share of the requests, whose answers are thrown away."""

    revision: str
    percent: int
    max_inflight: int = 8
    """Copies open at a time; beyond that none is made."""
    max_bytes: int = 1024 * 1024
    """Of a request that is copied, and of an answer that is read."""

    def document(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass(frozen=True)
class ServiceLimits:
    """How much of a service runs at once, and how much more may wait. None is unlimited."""

    max_inflight: int | None = None
    max_inflight_per_revision: int | None = None
    max_queue: int = 64
    """Requests."""
    max_queue_bytes: int = 64 * 1024 * 1024
    """Of the bodies of all requests that wait."""
    queue_timeout_s: float = 5

    def document(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True)
class Declared:
    """The part of a table that its owner writes as a whole."""

    aliases: tuple[str, ...]
    protocols: tuple[str, ...]
    revisions: Mapping[str, Revision]
    pins: tuple[str, ...] = ()
    """Revisions that a request may ask for by header."""
    timers: Timers = field(default_factory=Timers)
    pinning: bool = False
    """Whether a request may ask for any revision, by digest or label."""
    session_header: str = ""
    """Requests with the same value of this header stay on one side of the weights; lower case."""
    fallback: str = ""
    """The revision that answers while every replica of the active one is out; empty is none."""
    mirror: Mirror | None = None
    limits: ServiceLimits | None = None
    """None admits everything at once."""
    stack: str = ""
    """The stack that declares this, `<project>/<stack>`: traffic windows name it. Empty is none."""

    def document(self) -> dict[str, Any]:
        return {
            "aliases": list(self.aliases),
            "protocols": list(self.protocols),
            "revisions": {digest: revision.document() for digest, revision in self.revisions.items()},
            "pins": list(self.pins),
            "timers": self.timers.document(),
            **({"pinning": True} if self.pinning else {}),
            **({"session_header": self.session_header} if self.session_header else {}),
            **({"fallback": self.fallback} if self.fallback else {}),
            **({"mirror": self.mirror.document()} if self.mirror is not None else {}),
            **({"limits": self.limits.document()} if self.limits is not None else {}),
            **({"stack": self.stack} if self.stack else {}),
        }


@dataclass(frozen=True)
class RouteTable:
    """What is served for one service. `active` is empty until the first flip."""

    service: str
    generation: int
    declared: Declared
    active: str = ""
    decision_id: str = ""
    weights: Mapping[str, int] = field(default_factory=dict)
    """Percent by revision, the active one and one other; empty gives the active one everything."""
    weights_decision_id: str = ""
    """The decision that set the weights last; a flip takes the weights back and keeps this."""

    @cached_property
    def digest(self) -> str:
        """sha256 of the RFC 8785 form of everything but the digest itself."""
        return digest_of(self._body())

    def document(self) -> dict[str, Any]:
        """The table as JSON values, digest included."""
        return {**self._body(), "digest": self.digest}

    def _body(self) -> dict[str, Any]:
        decided = {"weights_decision_id": self.weights_decision_id} if self.weights_decision_id else {}
        return {
            "schema": SCHEMA,
            "service": self.service,
            "generation": str(self.generation),
            "decision_id": self.decision_id,
            "active": self.active,
            **({"weights": dict(self.weights)} if self.weights else {}),
            **decided,
            **self.declared.document(),
        }


def digest_of(document: Mapping[str, Any]) -> str:
    """`sha256:<hex>` over the RFC 8785 form."""
    return f"sha256:{hashlib.sha256(rfc8785.dumps(dict(document))).hexdigest()}"
