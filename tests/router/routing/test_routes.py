"""Tables compiled for the request path: what is kept over a change, and what is not."""

from collections.abc import Iterator
from dataclasses import replace
from time import monotonic
from typing import Any

import pytest

from pulumi_infercrane.router.counting.traffic import TrafficBook
from pulumi_infercrane.router.routing.routes import Compiler, Routes
from pulumi_infercrane.router.routing.upstream_keys import UpstreamKeys
from pulumi_infercrane.router.tables.schema import read_declared
from pulumi_infercrane.router.tables.table import RouteTable
from tests.router.conftest import R1, R2, declared, revision


@pytest.fixture
def compiler() -> Iterator[Compiler]:
    made = Compiler(UpstreamKeys({}), TrafficBook(monotonic), 3)
    yield made
    made.compile({})


def table(service: str = "chat", **more: Any) -> RouteTable:
    revisions = {R1: revision("r1", "http://a:1", "http://b:1"), R2: revision("r2", "http://c:1")}
    return RouteTable(service, 1, read_declared(declared(revisions, aliases=[service], **more)), active=R1)


def replicas(routes: Routes, service: str = "chat") -> list[object]:
    return [endpoint.replica for endpoint in routes.by_service[service].bindings[R1].endpoints]


def test_a_change_of_one_service_leaves_the_others_as_they_are(compiler: Compiler) -> None:
    tables = {"chat": table(), "other": table("other")}
    before = compiler.compile(tables)
    after = compiler.compile({**tables, "chat": replace(tables["chat"], active=R2)})
    assert after.by_service["other"] is before.by_service["other"]
    assert after.by_service["chat"].active is after.by_service["chat"].bindings[R2]


def test_replicas_and_pools_outlive_a_change_of_their_table(compiler: Compiler) -> None:
    before = compiler.compile({"chat": table()})
    pools = set(compiler.pools)
    after = compiler.compile({"chat": table(pinning=True)})
    assert replicas(after) == replicas(before)
    assert set(compiler.pools) == pools


def test_a_replica_at_another_address_is_another_one(compiler: Compiler) -> None:
    before = compiler.compile({"chat": table()})
    moved = read_declared(declared({R1: revision("r1", "http://a:1", "http://d:1"), R2: revision("r2", "http://c:1")}))
    after = compiler.compile({"chat": replace(table(), declared=moved)})
    assert [one is other for one, other in zip(replicas(after), replicas(before), strict=True)] == [True, False]
    assert {pool.address.host for pool in compiler.pools} == {"a", "c", "d"}


def test_services_at_one_address_share_its_connections(compiler: Compiler) -> None:
    both = {"chat": table(), "other": table("other")}
    routes = compiler.compile(both)
    chat, other = ([e.pool for e in routes.by_service[name].bindings[R1].endpoints] for name in both)
    assert chat == other
    assert not set(replicas(routes)) & set(replicas(routes, "other"))
    compiler.compile({"chat": both["chat"]})
    assert len(compiler.pools) == 3


@pytest.mark.parametrize(
    ("more", "plain"),
    [
        ({}, True),
        ({"pinning": True}, True),
        ({"fallback": R2}, False),
        ({"fallback": R1}, True),
        ({"mirror": {"revision": R2, "percent": 1}}, False),
    ],
)
def test_a_service_without_anything_special_takes_the_short_way(compiler: Compiler, more: Any, plain: bool) -> None:
    assert compiler.compile({"chat": table(**more)}).by_service["chat"].plain is plain


def test_weights_make_a_canary_of_the_revision_that_is_not_active(compiler: Compiler) -> None:
    route = compiler.compile({"chat": replace(table(), weights={R1: 95, R2: 5})}).by_service["chat"]
    assert route.canary is not None
    assert (route.canary.binding, route.plain) == (route.bindings[R2], False)
