"""Every cell of the fault matrix, on real sockets."""

from collections.abc import Awaitable, Callable
from time import monotonic

import pytest

from pulumi_infercrane.router.replicas import state_of
from tests.router.client import Answer
from tests.router.conftest import R1, Running, StartRouter, revision
from tests.router.faults import AT_ONCE, ERROR_500, FIRST_BYTE, GAP, PAGE, Expected, Fault, asking, cells, page, sound
from tests.router.upstream import Upstream

TIMERS = {FIRST_BYTE: 0.2, GAP: 0.1}
SOON_S = 1.0
"""At once, or after a timer and the sweep that looks at it, on a busy machine."""


async def failing(start: Callable[[], Awaitable[Upstream]], fault: Fault) -> Upstream:
    upstream = await start()
    if fault.script is None:
        await upstream.stop()
    else:
        upstream.script, upstream.reads_body = fault.script, fault.reads_body
    return upstream


@pytest.mark.parametrize(("fault", "kind", "replicas"), cells(), ids=lambda value: getattr(value, "name", str(value)))
async def test_a_fault_has_its_outcome(
    start_router: StartRouter, start_upstream: Callable[[], Awaitable[Upstream]], fault: Fault, kind: str, replicas: int
) -> None:
    bad, good = await failing(start_upstream, fault), await start_upstream()
    router = await start_router()
    urls = [bad.url, good.url][:replicas]
    await router.put({R1: revision("r1", *urls)}, timers=TIMERS)
    await router.flip(R1)
    expected = fault.follows(kind, replicas)
    began = monotonic()
    async with await router.client() as client:
        answer = await client.ask(asking(kind))
        took = monotonic() - began
    assert client_saw(answer) == expected.client
    assert answer.header("x-infercrane-attempt") == ("2" if good.attempts else "1")
    assert bad.attempts + good.attempts == expected.sent
    assert await router.outcome() == expected.outcome
    assert blamed(router) is expected.blamed
    assert due(expected) <= took < due(expected) + SOON_S
    assert router.traffic().inflight == 0


def client_saw(answer: Answer) -> str:
    if answer.header("x-infercrane-error"):
        return f"{answer.status} `{answer.error}`"
    if not answer.whole:
        return f"{answer.status}, then cut"
    as_sent = answer.status == 500 and answer.body == ERROR_500.partition(b"\r\n\r\n")[2]
    untouched = as_sent or b"out of memory" in answer.body
    assert untouched or sound(answer.body)
    return f"{answer.status}, as it came" if untouched else f"{answer.status}, whole"


def blamed(router: Running) -> bool:
    """Whether the first replica has a failure."""
    replicas = router.parts.relay.routes.by_service["chat"].bindings[R1].replicas
    return state_of(replicas, replicas.endpoints[0]).failed == 1


def due(expected: Expected) -> float:
    return 0 if expected.within == AT_ONCE else TIMERS[expected.within]


def test_the_page_shows_the_matrix() -> None:
    text = PAGE.read_text()
    assert text == page(text), "python -m tests.router.faults writes it"
