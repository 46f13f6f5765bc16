"""The tables compiled for the request path: one immutable value, replaced by one assignment."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from urllib.parse import urlsplit

from pulumi_infercrane.router.relay.upstream import Address, Pool
from pulumi_infercrane.router.table import Revision, RouteTable, Timers, Upstream
from pulumi_infercrane.router.traffic import Traffic, TrafficBook

Keys = Callable[[str], str | None]
"""Resolves a key reference to the key; None when it is missing or empty."""


@dataclass(frozen=True)
class Endpoint:
    """One upstream, ready to be dialled and written to."""

    id: str
    pool: Pool
    host_header: bytes
    prefix: bytes
    authorization: bytes
    """A whole header line, or empty."""


@dataclass(frozen=True)
class Binding:
    """Everything a request keeps from its dispatch to its end."""

    label: str
    upstream_model: str
    endpoints: tuple[Endpoint, ...]
    timers: Timers
    traffic: Traffic
    revision_header: bytes

    def answer_headers(self, request_id: bytes, attempt: int) -> bytes:
        """What every answer of a bound request carries."""
        return b"%bX-InferCrane-Attempt: %d\r\nX-Request-Id: %b\r\n" % (self.revision_header, attempt, request_id)

    def next_endpoint(self) -> Endpoint:
        """Round robin."""
        self.traffic.turn += 1
        return self.endpoints[self.traffic.turn % len(self.endpoints)]


@dataclass(frozen=True)
class ServiceRoute:
    """One service."""

    table: RouteTable
    active: Binding | None
    bindings: Mapping[str, Binding]


@dataclass(frozen=True)
class Routes:
    """All services."""

    by_service: Mapping[str, ServiceRoute]
    by_alias: Mapping[str, ServiceRoute]

    @property
    def tables(self) -> dict[str, RouteTable]:
        return {name: route.table for name, route in self.by_service.items()}


class Compiler:
    """Keeps what outlives a table: connection pools per address, traffic counters per revision."""

    def __init__(self, keys: Keys, traffic: TrafficBook, pool_idle_s: float) -> None:
        self._keys = keys
        self._traffic = traffic
        self._pool_idle_s = pool_idle_s
        self._pools: dict[Address, Pool] = {}

    @property
    def pools(self) -> tuple[Pool, ...]:
        return tuple(self._pools.values())

    def compile(self, tables: Mapping[str, RouteTable]) -> Routes:
        """The routes of all tables. Addresses no table names any more lose their idle connections."""
        used: dict[Address, Pool] = {}
        services = {name: self._service(table, used) for name, table in tables.items()}
        for address, pool in self._pools.items():
            if address not in used:
                pool.retire()
        self._pools = used
        by_alias = {alias: route for route in services.values() for alias in route.table.declared.aliases}
        return Routes(MappingProxyType(services), MappingProxyType(by_alias))

    def missing_keys(self, table: RouteTable) -> list[str]:
        """Findings: references that resolve to nothing."""
        return [
            f"revisions.{digest}.upstreams: {upstream.key_ref} is not set where the router runs"
            for digest, revision in table.declared.revisions.items()
            for upstream in revision.upstreams
            if upstream.key_ref and not self._keys(upstream.key_ref)
        ]

    def _service(self, table: RouteTable, used: dict[Address, Pool]) -> ServiceRoute:
        bindings = {
            digest: self._binding(table, digest, revision, used)
            for digest, revision in table.declared.revisions.items()
        }
        return ServiceRoute(table, bindings.get(table.active), MappingProxyType(bindings))

    def _binding(self, table: RouteTable, digest: str, revision: Revision, used: dict[Address, Pool]) -> Binding:
        endpoints = (self._endpoint(upstream, used) for upstream in revision.upstreams)
        return Binding(
            label=revision.label,
            upstream_model=revision.upstream_model,
            endpoints=tuple(endpoint for endpoint in endpoints if endpoint is not None),
            timers=table.declared.timers,
            traffic=self._traffic.of(table.service, digest),
            revision_header=b"X-InferCrane-Revision: %b\r\n" % digest.encode(),
        )

    def _endpoint(self, upstream: Upstream, used: dict[Address, Pool]) -> Endpoint | None:
        """None when its key is missing: a request is never sent without it."""
        parts = urlsplit(upstream.url)
        tls = parts.scheme == "https"
        address = Address(parts.hostname or "", parts.port or (443 if tls else 80), tls)
        pool = used.setdefault(address, self._pools.get(address) or self._new_pool(address))
        key = self._keys(upstream.key_ref) if upstream.key_ref else ""
        if key is None:
            return None
        return Endpoint(
            id=upstream.id,
            pool=pool,
            host_header=parts.netloc.encode(),
            prefix=parts.path.rstrip("/").encode(),
            authorization=b"Authorization: Bearer %b\r\n" % key.encode() if key else b"",
        )

    def _new_pool(self, address: Address) -> Pool:
        return Pool(address, self._pool_idle_s, self._traffic.clock)
