"""Health paths are asked, within bounds, and move traffic off what does not answer."""

import asyncio

import pytest

from pulumi_infercrane.router.relay.probes import MAX_OF_SERVICE, answers_well
from pulumi_infercrane.router.routing.routes import Endpoint
from tests.router.client import chat
from tests.router.conftest import R1, Running, eventually
from tests.router.conftest import revision as entry
from tests.router.upstream import Call, Upstream, answer, whole

PROBED = {"probe_s": 0.05, "probe_timeout_s": 0.2, "probe_failures": 2}


class Health:
    """A script that answers probes by a status and everything else as usual."""

    def __init__(self, status: str = "200 OK") -> None:
        self.status = status
        self.probes: list[Call] = []

    async def __call__(self, call: Call) -> None:
        if not call.head.startswith(b"GET"):
            await answer(call)
            return
        self.probes.append(call)
        await call.send(whole({}, self.status))


@pytest.fixture
async def other(start_upstream) -> Upstream:
    return await start_upstream()


def ready(router: Running) -> list[str]:
    route = router.parts.relay.routes.by_service["chat"]
    return [endpoint.id for endpoint in route.bindings[R1].replicas.ready]


async def test_a_replica_whose_probes_fail_gets_nothing_until_one_succeeds(
    router: Running, upstream: Upstream, other: Upstream
) -> None:
    upstream.script, other.script = sick, well = Health("503 Service Unavailable"), Health()
    await router.put({R1: entry("r1", upstream.url, other.url, health=PROBED)})
    await eventually(lambda: ready(router) == ["r1-1"])
    async with await router.client() as client:
        assert {(await client.ask(chat(False))).status for _ in range(4)} == {200}
    assert all(call.head.startswith(b"GET") for call in upstream.calls)
    sick.status = "200 OK"
    await eventually(lambda: len(ready(router)) == 2)
    assert well.probes[0].head.startswith(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1:")


async def test_N16_a_probe_takes_no_traffic_off_the_only_replica(router: Running, upstream: Upstream) -> None:
    upstream.script = health = Health("500 Internal Server Error")
    await router.put({R1: entry("r1", upstream.url, health=PROBED)})
    await eventually(lambda: len(health.probes) > 3)
    async with await router.client() as client:
        assert (await client.ask(chat())).status == 200


async def test_R7_the_probes_of_a_removed_replica_end(router: Running, upstream: Upstream, other: Upstream) -> None:
    upstream.script = health = Health()
    await router.put({R1: entry("r1", upstream.url, health=PROBED)})
    await eventually(lambda: len(health.probes) > 1)
    await router.put({R1: entry("r1", other.url, health=PROBED)})
    await asyncio.sleep(0.05)
    seen = len(health.probes)
    await asyncio.sleep(0.2)
    assert len(health.probes) == seen


async def test_K2_a_probe_sends_the_key_of_the_upstream(start_router, upstream: Upstream) -> None:
    upstream.script = health = Health()
    router = await start_router(environment={"R1_KEY": "secret"})
    table = entry("r1", upstream.url, health=PROBED)
    table["upstreams"][0]["key_ref"] = "env:R1_KEY"
    table["dialect"] = "unheard-of"
    await router.put({R1: table})
    await eventually(lambda: bool(health.probes))
    assert health.probes[0].header("authorization") == "Bearer secret"
    assert health.probes[0].head.startswith(b"GET /v1/models ")


@pytest.mark.parametrize(
    ("sent", "well"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", True),
        (b"HTTP/1.1 404 Not Found\r\n\r\n", True),
        (b"HTTP/1.1 503 Service Unavailable\r\n\r\n", False),
        (b"HTTP/1.1\r\n\r\n", False),
        (b"SSH-2.0-OpenSSH\r\n", False),
        (b"HTTP/1.1 200 " + b"x" * 100_000, False),
        (b"", False),
    ],
)
async def test_what_counts_as_well(router: Running, upstream: Upstream, sent: bytes, well: bool) -> None:
    async def say(call: Call) -> None:
        await call.send(sent)
        call.writer.close()

    upstream.script = say
    assert await answers_well(endpoint(router), b"/health", 1) is well


async def test_a_replica_that_says_nothing_is_not_waited_for(router: Running, upstream: Upstream) -> None:
    async def mute(call: Call) -> None:
        await call.until_told()

    upstream.script = mute
    assert not await answers_well(endpoint(router), b"/health", 0.05)
    await upstream.stop()
    assert not await answers_well(endpoint(router), b"/health", 1)


def endpoint(router: Running) -> Endpoint:
    return router.parts.relay.routes.by_service["chat"].bindings[R1].endpoints[0]


async def test_replicas_that_hang_leave_the_probes_of_other_services_alone(
    router: Running, upstream: Upstream, other: Upstream
) -> None:
    """A hundred of one service, and the next one was not probed at all."""

    async def mute(call: Call) -> None:
        await call.until_told()

    upstream.script, other.script = mute, Health()
    many = [f"{upstream.url}/{number}" for number in range(100)]
    await router.put({R1: entry("r1", *many, health={**PROBED, "probe_timeout_s": 10})})
    await eventually(lambda: upstream.attempts >= MAX_OF_SERVICE)
    await router.put({R1: entry("r1", other.url, health=PROBED)}, service="other", aliases=["other"])
    await eventually(lambda: other.attempts > 2, timeout_s=2)
    assert upstream.attempts == MAX_OF_SERVICE


async def test_every_replica_of_a_large_service_has_its_probes(router: Running, upstream: Upstream) -> None:
    upstream.script = health = Health()
    many = [f"{upstream.url}/{number}" for number in range(100)]
    await router.put({R1: entry("r1", *many, health=PROBED)})
    await eventually(lambda: len({call.head.split(b" ")[1] for call in health.probes}) == 100)
