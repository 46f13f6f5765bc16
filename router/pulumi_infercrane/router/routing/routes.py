"""The tables compiled for the request path: one immutable value, replaced by one assignment."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import urlsplit

from pulumi_infercrane.router.balance import chooser_of
from pulumi_infercrane.router.counting.traffic import Traffic, TrafficBook
from pulumi_infercrane.router.routing.dialer import Address, Dialer
from pulumi_infercrane.router.routing.replicas import Replica, Replicas
from pulumi_infercrane.router.routing.split import Share
from pulumi_infercrane.router.routing.upstream import Pool
from pulumi_infercrane.router.routing.upstream_keys import UpstreamKeys
from pulumi_infercrane.router.tables.table import DRAINING, SERVING, Revision, RouteTable, Timers, Upstream


@dataclass(frozen=True)
class Endpoint:
    """One upstream, ready to be dialled and written to."""

    id: str
    pool: Pool
    host_header: bytes
    prefix: bytes
    authorization: bytes
    """A whole header line, or empty."""
    replica: Replica
    draining: bool = False


@dataclass(frozen=True)
class Binding:
    """Everything a request keeps from its dispatch to its end."""

    label: str
    upstream_model: str
    endpoints: tuple[Endpoint, ...]
    timers: Timers
    traffic: Traffic
    revision_header: bytes
    dialect: str
    replicas: Replicas
    answer_as_alias: bool

    def answer_headers(self, request_id: bytes, attempt: int) -> bytes:
        """What every answer of a bound request carries."""
        return b"%bX-InferCrane-Attempt: %d\r\nX-Request-Id: %b\r\n" % (self.revision_header, attempt, request_id)


@dataclass(frozen=True)
class Canary:
    """The revision beside the active one, and its share of the requests."""

    binding: Binding
    share: Share


@dataclass(frozen=True)
class MirrorRoute:
    """Where copies go; `binding` counts them apart from the revision's own requests."""

    binding: Binding
    share: Share
    max_inflight: int
    max_bytes: int


@dataclass(frozen=True)
class ServiceRoute:
    """One service."""

    table: RouteTable
    active: Binding | None
    bindings: Mapping[str, Binding]
    labels: Mapping[str, str]
    """Label → digest."""
    canary: Canary | None = None
    fallback: Binding | None = None
    mirror: MirrorRoute | None = None
    session_header: bytes = b""
    plain: bool = True
    """Whether the active revision answers everything that is not pinned, and nothing is copied."""


@dataclass(frozen=True)
class Routes:
    """All services."""

    by_service: Mapping[str, ServiceRoute]
    by_alias: Mapping[str, ServiceRoute]
    watched: tuple[Binding, ...] = ()
    """Those whose replicas are left out when they fail."""

    @property
    def tables(self) -> dict[str, RouteTable]:
        return {name: route.table for name, route in self.by_service.items()}


class ReplicaKey(NamedTuple):
    """What a replica of a service is known by: at another address it is another one."""

    revision: str
    id: str
    url: str


@dataclass(frozen=True)
class _Used:
    """What a compiled table needs of what outlives it."""

    pools: dict[Address, Pool] = field(default_factory=dict)
    replicas: dict[ReplicaKey, Replica] = field(default_factory=dict)


class _Compiled(NamedTuple):
    route: ServiceRoute
    used: _Used


class Compiler:
    """Keeps what outlives a table: connection pools per address, counters per revision and replica."""

    def __init__(self, keys: UpstreamKeys, traffic: TrafficBook, pool_idle_s: float) -> None:
        self._keys = keys
        self._traffic = traffic
        self._pool_idle_s = pool_idle_s
        self._dialer = Dialer(traffic.clock)
        self._pools: dict[Address, Pool] = {}
        self._compiled: dict[str, _Compiled] = {}

    @property
    def pools(self) -> tuple[Pool, ...]:
        return tuple(self._pools.values())

    def compile(self, tables: Mapping[str, RouteTable]) -> Routes:
        """The routes of all tables. Addresses no table names any more lose their idle connections.

        A table that was compiled before is not compiled again: a change of one service costs little, however many
        there are.
        """
        compiled = {name: self._once(table) for name, table in tables.items()}
        named = {address for one in compiled.values() for address in one.used.pools}
        for address in self._pools.keys() - named:
            self._pools.pop(address).retire()
        self._compiled = compiled
        services = {name: one.route for name, one in compiled.items()}
        by_alias = {alias: route for route in services.values() for alias in route.table.declared.aliases}
        bindings = (binding for route in services.values() for binding in route.bindings.values())
        watched = tuple(binding for binding in bindings if binding.replicas.health is not None)
        return Routes(MappingProxyType(services), MappingProxyType(by_alias), watched)

    def unusable(self, table: RouteTable) -> list[str]:
        """Findings: upstreams that are never dialled, since their URL or their key is none."""
        found = (
            (f"revisions.{digest}.upstreams[{index}]", self._why_unusable(upstream))
            for digest, revision in table.declared.revisions.items()
            for index, upstream in enumerate(revision.upstreams)
        )
        return [f"{where}.{why}" for where, why in found if why]

    def _why_unusable(self, upstream: Upstream) -> str:
        if upstream.refused:
            return f"url: {upstream.refused}"
        why = self._keys.why_unusable(upstream.key_ref) if upstream.key_ref else ""
        return why and f"key_ref: {why}"

    def _once(self, table: RouteTable) -> _Compiled:
        before = self._compiled.get(table.service)
        if before is not None and before.route.table is table:
            return before
        used = _Used()
        return _Compiled(self._service(table, used), used)

    def _service(self, table: RouteTable, used: _Used) -> ServiceRoute:
        declared = table.declared
        bindings = {
            digest: self._binding(table, digest, revision, used) for digest, revision in declared.revisions.items()
        }
        canary = _canary(table, bindings)
        serving = {d: b for d, b in bindings.items() if declared.revisions[d].state == SERVING and b.replicas.ready}
        fallback = serving.get(declared.fallback) if declared.fallback != table.active else None
        mirror = self._mirror(table, serving)
        return ServiceRoute(
            table=table,
            active=bindings.get(table.active),
            bindings=MappingProxyType(bindings),
            labels=MappingProxyType({revision.label: digest for digest, revision in declared.revisions.items()}),
            canary=canary,
            fallback=fallback,
            mirror=mirror,
            session_header=declared.session_header.encode(),
            plain=canary is None and fallback is None and mirror is None,
        )

    def _mirror(self, table: RouteTable, serving: Mapping[str, Binding]) -> MirrorRoute | None:
        mirror = table.declared.mirror
        binding = serving.get(mirror.revision) if mirror is not None else None
        if mirror is None or binding is None:
            return None
        counted = self._traffic.of_copies(table.service, mirror.revision)
        copies = replace(binding, traffic=counted, answer_as_alias=False)
        share = Share(f"mirror {mirror.revision}", mirror.percent)
        return MirrorRoute(copies, share, mirror.max_inflight, mirror.max_bytes)

    def _binding(self, table: RouteTable, digest: str, revision: Revision, used: _Used) -> Binding:
        made = (
            self._endpoint(upstream, self._replica(table.service, digest, upstream, used), used)
            for upstream in revision.upstreams
        )
        endpoints = tuple(endpoint for endpoint in made if endpoint is not None)
        return Binding(
            label=revision.label,
            upstream_model=revision.upstream_model,
            endpoints=endpoints,
            timers=table.declared.timers,
            traffic=self._traffic.of(table.service, digest),
            revision_header=b"X-InferCrane-Revision: %b\r\n" % digest.encode(),
            dialect=revision.dialect,
            replicas=Replicas(endpoints, chooser_of(revision.balance), revision.health, self._traffic.clock),
            answer_as_alias=revision.answer_as_alias,
        )

    def _replica(self, service: str, digest: str, upstream: Upstream, used: _Used) -> Replica:
        """The one that was known before, if it was."""
        key, before = ReplicaKey(digest, upstream.id, upstream.url), self._compiled.get(service)
        replica = before.used.replicas.get(key) if before is not None else None
        return used.replicas.setdefault(key, replica or Replica(self._traffic.clock()))

    def _endpoint(self, upstream: Upstream, replica: Replica, used: _Used) -> Endpoint | None:
        """None when it cannot be used: a request is never sent without its key."""
        if self._why_unusable(upstream):
            return None
        parts = urlsplit(upstream.url)
        tls = parts.scheme == "https"
        address = Address(parts.hostname or "", parts.port or (443 if tls else 80), tls)
        pool = self._pools.get(address) or self._new_pool(address)
        self._pools[address] = used.pools[address] = pool
        key = self._keys.find(upstream.key_ref) if upstream.key_ref else None
        return Endpoint(
            id=upstream.id,
            pool=pool,
            host_header=parts.netloc.encode(),
            prefix=parts.path.rstrip("/").encode(),
            authorization=b"Authorization: Bearer %b\r\n" % key.encode() if key else b"",
            replica=replica,
            draining=upstream.state == DRAINING,
        )

    def _new_pool(self, address: Address) -> Pool:
        return Pool(address, self._dialer, self._pool_idle_s, self._traffic.clock)


def _canary(table: RouteTable, bindings: Mapping[str, Binding]) -> Canary | None:
    """The revision with weight that is not the active one."""
    for digest, percent in table.weights.items():
        if digest != table.active:
            return Canary(bindings[digest], Share(digest, percent))
    return None
