"""What a limit comes to for each of several workers."""

import pytest

from pulumi_infercrane.router.clients.keys import Grant, Key, KeyLimits
from pulumi_infercrane.router.serving.workers.shares import Place, share, share_of_keys, share_of_table
from pulumi_infercrane.router.tables.schema import read_declared
from pulumi_infercrane.router.tables.table import RouteTable
from tests.router.conftest import R1, R2, declared, revision


@pytest.mark.parametrize("of", [1, 2, 3, 7])
@pytest.mark.parametrize("limit", [0, 1, 2, 7, 256])
def test_shares_add_up_unless_there_are_more_workers_than_the_limit(limit: int, of: int) -> None:
    shares = [share(limit, Place(number, of)) for number in range(of)]
    assert sum(shares) == (max(limit, of) if limit else 0)
    assert max(shares) - min(shares) <= 1


def test_every_limit_of_a_table_is_shared_and_nothing_else_changes() -> None:
    limits = {"max_inflight": 5, "max_inflight_per_revision": 4, "max_queue": 64, "max_queue_bytes": 100}
    mirror = {"revision": R2, "percent": 10, "max_inflight": 8, "max_bytes": 1000}
    revisions = {R1: revision("r1", "http://a"), R2: revision("r2", "http://b")}
    table = RouteTable("chat", 7, read_declared(declared(revisions, limits=limits, mirror=mirror)), active=R1)
    own = share_of_table(table, Place(0, 2))
    assert own.document() | {"digest": "", "limits": 0, "mirror": 0} == (
        table.document() | {"digest": "", "limits": 0, "mirror": 0}
    )
    assert own.declared.limits is not None and own.declared.mirror is not None
    assert own.declared.limits.document() == {
        "max_inflight": 3,
        "max_inflight_per_revision": 2,
        "max_queue": 32,
        "max_queue_bytes": 50,
        "queue_timeout_s": 5,
    }
    assert own.declared.mirror.max_inflight == 4


def test_what_has_no_limits_gets_none() -> None:
    table = RouteTable("chat", 1, read_declared(declared({R1: revision("r1", "http://a")})))
    assert share_of_table(table, Place(0, 2)) == table


def test_the_budget_of_a_key_is_shared() -> None:
    free, limited = Grant("free", ("chat",)), Grant("ci", ("chat",), limits=KeyLimits(60, None, 3))
    keys = {grant.name: Key(grant, "2026-01-01T00:00:00Z", ()) for grant in (free, limited)}
    own = share_of_keys(keys, Place(1, 2))
    assert own["free"] is keys["free"]
    assert own["ci"].grant.limits == KeyLimits(30, None, 1)
