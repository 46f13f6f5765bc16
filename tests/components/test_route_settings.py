"""Settings of a route: by the names of revisions in a program, by their digests in the table."""

from typing import Any

import pytest

from pulumi_infercrane.components import Health, Mirror, RouteArgs, ServiceLimits, Timers
from pulumi_infercrane.components.route_settings import InvalidRoute, read_route, table_settings

R1, R2 = "sha256:" + "1" * 64, "sha256:" + "2" * 64
DIGESTS = {"r1": R1, "r2": R2}


def test_what_is_not_said_is_not_declared() -> None:
    assert table_settings(RouteArgs(), DIGESTS) == {}


def test_every_setting_goes_into_the_table_as_the_table_says_it() -> None:
    args = RouteArgs(
        limits=ServiceLimits(max_inflight=2, max_queue=0),
        pins=("r2",),
        pinning=False,
        session_header="x-session",
        fallback="r1",
        mirror=Mirror("r2", percent=5),
        balance="power_of_two",
        health=Health(),
        timers=Timers(gap_s=7),
    )
    assert table_settings(args, DIGESTS) == {
        "limits": {"max_inflight": 2, "max_queue": 0, "max_queue_bytes": 64 * 1024 * 1024, "queue_timeout_s": 5},
        "pins": [R2],
        "pinning": False,
        "session_header": "x-session",
        "fallback": R1,
        "mirror": {"revision": R2, "percent": 5, "max_inflight": 8, "max_bytes": 1024 * 1024},
        "balance": "power_of_two",
        "health": Health().document(),
        "timers": {"connect_s": 5, "first_byte_s": 600, "gap_s": 7, "client_stall_s": 60},
    }


def test_a_file_says_the_same_as_a_program() -> None:
    document = {"limits": {"max_inflight": 2}, "pins": ["r2"], "mirror": {"revision": "r2", "percent": 5}}
    args = RouteArgs(limits=ServiceLimits(2), pins=["r2"], mirror=Mirror("r2", 5))
    assert read_route(document, DIGESTS) == args


@pytest.mark.parametrize(
    ("args", "finding"),
    [
        (RouteArgs(pins=["r1", "r3"]), "route.pins[1]: no revision 'r3' is declared; declared are r1, r2"),
        (RouteArgs(pins=[R1]), "route.pins[0]: no revision 'sha256:1"),
        (RouteArgs(fallback="r3"), "route.fallback: no revision 'r3'"),
        (RouteArgs(mirror=Mirror("r3", 5)), "route.mirror.revision: no revision 'r3'"),
        (RouteArgs(mirror=Mirror("r2", 0)), "route.mirror.percent: must be a whole number from 1 to 100"),
        (RouteArgs(pins="r1"), "route.pins: must be a list"),
        (RouteArgs(limits=ServiceLimits()), "route.limits: needs max_inflight or max_inflight_per_revision"),
    ],
)
def test_what_the_table_would_refuse_is_refused_before(args: RouteArgs, finding: str) -> None:
    with pytest.raises(InvalidRoute) as refused:
        table_settings(args, DIGESTS)
    assert str(refused.value).startswith(finding)


def test_which_stack_a_route_is_of_is_no_setting() -> None:
    with pytest.raises(InvalidRoute, match=r"route\.stack: is no setting"):
        read_route({"stack": "shop/prod"}, DIGESTS)


@pytest.mark.parametrize(
    "document",
    [{"pins": [["r1"]]}, {"mirror": "r2"}, {"mirror": {"revision": 2, "percent": 5}}, {"fallback": None}, {"x": 1}],
)
def test_a_value_of_another_kind_is_a_finding(document: dict[str, Any]) -> None:
    with pytest.raises(InvalidRoute) as refused:
        read_route(document, DIGESTS)
    assert refused.value.findings
