"""Every cell of the fault matrix, on real sockets."""

import contextlib
import socket
from collections.abc import Awaitable, Callable, Iterator
from time import monotonic

import pytest

from pulumi_infercrane.router.routing.replicas import state_of
from tests.router.client import Answer
from tests.router.conftest import R1, Running, StartRouter, revision
from tests.router.faults import (
    AT_ONCE,
    CONNECT,
    ERROR_500,
    FIRST_BYTE,
    GAP,
    PAGE,
    TOTAL,
    Expected,
    Fault,
    asking,
    cells,
    deaf,
    page,
    sound,
)
from tests.router.upstream import Upstream

TIMERS = {CONNECT: 0.3, FIRST_BYTE: 0.3, GAP: 0.1, TOTAL: 0.4}
ENOUGH_S = 10
"""For what a fault does not hold up."""
SOON_S = 3.0
"""At once, or after a timer and the sweep that looks at it, on a busy machine."""


async def failing(start: Callable[[], Awaitable[Upstream]], fault: Fault) -> Upstream:
    upstream = await start()
    if fault.script is None or fault.script is deaf:
        await upstream.stop()
    else:
        upstream.script, upstream.reads_body = fault.script, fault.reads_body
    return upstream


@contextlib.contextmanager
def silent_port(port: int) -> Iterator[None]:
    """A listener whose queue is full, so that the kernel drops what asks for a connection."""
    with socket.socket() as listener, contextlib.ExitStack() as waiting:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(0)
        for _ in range(4):
            client = waiting.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(("127.0.0.1", port))
        yield


RENAMING = [(fault, kind) for fault, kind, replicas in cells() if replicas == 1 and "200, " in fault.expected.client]
"""What comes when part of an answer has gone out, which a revision with `answer_as_alias` may hold back."""


@pytest.mark.parametrize(
    ("fault", "kind", "replicas", "answer_as_alias"),
    [*((*cell, False) for cell in cells()), *((*cell, 1, True) for cell in RENAMING)],
    ids=lambda value: getattr(value, "name", str(value)),
)
async def test_a_fault_has_its_outcome(
    start_router: StartRouter,
    start_upstream: Callable[[], Awaitable[Upstream]],
    fault: Fault,
    kind: str,
    replicas: int,
    answer_as_alias: bool,
) -> None:
    bad, good = await failing(start_upstream, fault), await start_upstream()
    router = await start_router()
    urls = [bad.url, good.url][:replicas]
    expected = fault.follows(kind, replicas)
    timers = {name: seconds if name == expected.within else ENOUGH_S for name, seconds in TIMERS.items()}
    await router.put({R1: revision("r1", *urls, answer_as_alias=answer_as_alias)}, timers=timers)
    await router.flip(R1)
    with silent_port(bad.port) if fault.script is deaf else contextlib.nullcontext():
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
