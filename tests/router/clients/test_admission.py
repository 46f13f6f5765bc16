"""What runs, what waits and what is refused, on real sockets: probes L3, C4, R2 and the limits of keys."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from pulumi_infercrane.router.clients.keys import KeyLimits
from pulumi_infercrane.router.protocol.observer import Outcome
from pulumi_infercrane.router.relay import relay
from pulumi_infercrane.router.routing.dispatch import Bound
from pulumi_infercrane.router.routing.upstream import Pool
from tests.router.client import Answer, Client, chat
from tests.router.conftest import R1, R2, Running, eventually, revision
from tests.router.upstream import ANSWER, Call, Upstream, answer, whole

Gate = asyncio.Event


class Asking:
    """Clients of one test; each request on a connection of its own."""

    def __init__(self, router: Running, closing: AsyncExitStack) -> None:
        self.router = router
        self.closing = closing

    async def send(self, *headers: str, **more: Any) -> Client:
        client = await self.closing.enter_async_context(await self.router.client())
        await client.send(chat(more.pop("stream", False), *headers, **more))
        return client

    async def ask(self, *headers: str, **more: Any) -> Answer:
        return await (await self.send(*headers, **more)).answer()

    async def occupy(self, *headers: str, **more: Any) -> Client:
        """A request that has reached the upstream."""
        before = self.inflight
        client = await self.send(*headers, **more)
        await eventually(lambda: self.inflight == before + 1)
        return client

    async def queue(self, *headers: str, **more: Any) -> Client:
        """A request that waits."""
        before = self.waiting
        client = await self.send(*headers, **more)
        await eventually(lambda: self.waiting == before + 1)
        return client

    @property
    def inflight(self) -> int:
        return sum(traffic.inflight for traffic in self.router.parts.relay.traffic.all())

    @property
    def waiting(self) -> int:
        return self.router.parts.relay.admission.queues["chat"].length


@pytest.fixture
def gate() -> Gate:
    """The upstream answers when it is set."""
    return asyncio.Event()


@pytest.fixture
async def asking(router: Running, upstream: Upstream, gate: Gate) -> AsyncIterator[Asking]:
    async def held(call: Call) -> None:
        await gate.wait()
        await answer(call)

    upstream.script = held
    async with AsyncExitStack() as closing:
        yield Asking(router, closing)


async def limit(router: Running, upstream: Upstream, **limits: Any) -> None:
    await router.put({R1: revision("r1", upstream.url)}, limits=limits)


def count(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> list[object]:
    """Grows with each call of a function."""
    calls: list[object] = []
    real = getattr(module, name)

    def counted(*given: object) -> object:
        calls.append(given)
        return real(*given)

    monkeypatch.setattr(module, name, counted)
    return calls


async def test_without_limits_nothing_is_admitted_at_all(
    router: Running, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> Bound:
        raise AssertionError

    monkeypatch.setattr(router.parts.relay.admission, "admit", never)
    assert (await client.ask(chat())).whole


async def test_L3_inflight_and_queue_and_one_more(asking: Asking, upstream: Upstream, gate: Gate) -> None:
    await limit(asking.router, upstream, max_inflight=2, max_queue=2, queue_timeout_s=7)
    served = [await asking.occupy(), await asking.occupy(), await asking.queue(), await asking.queue()]
    refused = await asking.ask()
    assert (refused.status, refused.error, refused.header("retry-after")) == (503, "overloaded", "7")
    assert json.loads(refused.body)["error"]["type"] == "server_error"
    assert upstream.attempts == 2
    gate.set()
    assert [(await client.answer()).status for client in served] == [200] * 4
    assert asking.router.reasons() == {"queue_full": 1}
    assert (asking.inflight, asking.waiting) == (0, 0)


async def test_never_more_than_the_limit_runs(asking: Asking, upstream: Upstream, gate: Gate) -> None:
    gate.set()
    most = 0

    async def counting(call: Call) -> None:
        nonlocal most
        most = max(most, asking.inflight)
        await asyncio.sleep(0.001)
        await answer(call)

    upstream.script = counting
    await limit(asking.router, upstream, max_inflight=3, max_queue=100)
    answers = await asyncio.gather(*(asking.ask() for _ in range(60)))
    assert [one.status for one in answers] == [200] * 60
    assert most == 3


async def test_who_waits_too_long_is_told_when_to_come_again(asking: Asking, upstream: Upstream) -> None:
    await limit(asking.router, upstream, max_inflight=1, queue_timeout_s=0.05)
    await asking.occupy()
    refused = await asking.ask()
    assert (refused.status, refused.error, refused.header("retry-after")) == (503, "overloaded", "1")
    assert asking.router.reasons() == {"queue_timeout": 1}
    assert asking.router.parts.relay.traffic.unbound[Outcome.SHED] == 1


async def test_a_refused_connection_serves_the_next_request(asking: Asking, upstream: Upstream, gate: Gate) -> None:
    await limit(asking.router, upstream, max_inflight=1, queue_timeout_s=0.05)
    await asking.occupy()
    client = await asking.queue()
    await client.send(chat(False))
    assert (await client.answer()).status == 503
    gate.set()
    assert (await client.answer()).status == 200


async def test_C4_a_client_that_leaves_the_queue_reaches_nobody(asking: Asking, upstream: Upstream, gate: Gate) -> None:
    await limit(asking.router, upstream, max_inflight=1, max_queue=1)
    first = await asking.occupy()
    (await asking.queue()).hang_up()
    await eventually(lambda: asking.waiting == 0)
    last = await asking.queue()
    gate.set()
    assert [(await client.answer()).status for client in (first, last)] == [200, 200]
    assert upstream.attempts == 2
    assert asking.router.parts.relay.traffic.unbound == {Outcome.CLIENT_CANCELLED: 1}


async def test_C5_whatever_becomes_of_requests_every_slot_comes_back(
    asking: Asking, upstream: Upstream, gate: Gate
) -> None:
    async def rude(call: Call) -> None:
        call.reset()

    await limit(asking.router, upstream, max_inflight=2, max_queue=100)
    clients = [await asking.occupy(), await asking.occupy(), *[await asking.queue() for _ in range(30)]]
    await limit(asking.router, upstream, max_inflight=2, max_queue=100, queue_timeout_s=0.05)
    for _ in range(10):
        await asking.send()
    await eventually(lambda: asking.router.reasons() == {"queue_timeout": 10})
    for client in clients[::3]:
        client.hang_up()
    upstream.script = rude
    gate.set()
    await eventually(lambda: (asking.inflight, asking.waiting) == (0, 0))
    upstream.script = answer
    assert asking.router.parts.relay.admission.queues["chat"].inflight == 0
    assert [(await asking.ask()).status for _ in range(10)] == [200] * 10


async def test_R2_a_queued_request_goes_by_the_routes_of_the_moment_it_leaves(
    asking: Asking, upstream: Upstream, gate: Gate
) -> None:
    both = {R1: revision("r1", upstream.url), R2: revision("r2", upstream.url)}
    await asking.router.put(both, limits={"max_inflight": 1})
    first, second = await asking.occupy(), await asking.queue()
    await asking.router.flip(R2)
    gate.set()
    assert [(await one.answer()).header("x-infercrane-revision") for one in (first, second)] == [R1, R2]


async def test_limits_that_are_lifted_let_everybody_in(asking: Asking, upstream: Upstream, gate: Gate) -> None:
    await limit(asking.router, upstream, max_inflight=1)
    await asking.occupy()
    clients = [await asking.queue() for _ in range(3)]
    await asking.router.put({R1: revision("r1", upstream.url)})
    await eventually(lambda: asking.inflight == 4)
    gate.set()
    assert [(await client.answer()).status for client in clients] == [200] * 3


async def test_who_waits_for_another_revision_is_counted_there_once(
    asking: Asking, upstream: Upstream, gate: Gate
) -> None:
    """Each look at the queue counted them again: 191 for 20 requests."""
    dead = revision("r1", "http://127.0.0.1:1", health={"eject_after": 1, "eject_s": 60})
    both = {R1: dead, R2: revision("r2", upstream.url)}
    await asking.router.put(both, fallback=R2, limits={"max_inflight": 2, "max_inflight_per_revision": 1})
    clients = [await asking.occupy(), *[await asking.queue() for _ in range(9)]]
    gate.set()
    assert {(await client.answer()).header("x-infercrane-revision") for client in clients} == {R2}
    assert asking.router.traffic(R1).spilled == {R2: 10}


async def test_limits_that_come_back_count_what_is_still_open(asking: Asking, upstream: Upstream, gate: Gate) -> None:
    """Five ran on and five more were let in."""
    await limit(asking.router, upstream, max_inflight=5)
    clients = [await asking.occupy() for _ in range(5)]
    await asking.router.put({R1: revision("r1", upstream.url)})
    await limit(asking.router, upstream, max_inflight=5)
    clients.append(await asking.queue())
    assert asking.inflight == 5
    gate.set()
    assert [(await client.answer()).status for client in clients] == [200] * 6
    await asking.router.put({R1: revision("r1", upstream.url)})
    assert not asking.router.parts.relay.admission._lifted, "nothing is kept of limits that are gone"


async def test_what_waits_for_a_full_revision_is_read_once_and_looked_at_once(
    asking: Asking, upstream: Upstream, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 600 waiting, each request that ended stopped all streams for half a second."""
    both = {R1: revision("r1", upstream.url), R2: revision("r2", upstream.url)}
    await asking.router.put(both, pins=[R2], limits={"max_inflight_per_revision": 1})
    read = count(monkeypatch, relay, "requested_model")
    chosen = count(monkeypatch, relay, "choose")
    clients = [await asking.occupy(), *[await asking.queue() for _ in range(20)]]
    clients.append(await asking.occupy(f"X-InferCrane-Revision: {R2}"))
    gate.set()
    assert [(await client.answer()).status for client in clients] == [200] * 22
    assert len(read) == 22
    assert len(chosen) <= 22 + 2 * 22, "once as it comes, once as it goes, and the next one of its revision"


async def test_what_waits_for_a_full_revision_moves_with_a_flip(asking: Asking, upstream: Upstream, gate: Gate) -> None:
    both = {R1: revision("r1", upstream.url), R2: revision("r2", upstream.url)}
    await asking.router.put(both, limits={"max_inflight_per_revision": 1})
    await asking.occupy()
    await asking.queue()
    await asking.queue()
    await asking.router.flip(R2)
    await eventually(lambda: (asking.inflight, asking.waiting) == (2, 1))
    assert [asking.router.traffic(one).inflight for one in (R1, R2)] == [1, 1]


async def test_a_busy_revision_does_not_hold_up_another(asking: Asking, upstream: Upstream, gate: Gate) -> None:
    both = {R1: revision("r1", upstream.url), R2: revision("r2", upstream.url)}
    await asking.router.put(both, pins=[R2], limits={"max_inflight_per_revision": 1})
    pin = f"X-InferCrane-Revision: {R2}"
    await asking.occupy()
    await asking.queue()
    pinned = await asking.occupy(pin)
    await asking.queue(pin)
    gate.set()
    assert (await pinned.answer()).header("x-infercrane-revision") == R2
    await eventually(lambda: (asking.inflight, asking.waiting) == (0, 0))


async def test_bodies_that_wait_are_bounded_together(asking: Asking, upstream: Upstream) -> None:
    await limit(asking.router, upstream, max_inflight=1, max_queue=100, max_queue_bytes=250_000)
    await asking.occupy()
    for _ in range(2):
        await asking.queue(x="x" * 100_000)
    assert (await asking.ask(x="x" * 100_000)).error == "overloaded"
    await asking.queue()
    assert asking.waiting == 3


async def test_the_more_urgent_go_first_and_the_least_urgent_make_place(
    asking: Asking, upstream: Upstream, gate: Gate
) -> None:
    await limit(asking.router, upstream, max_inflight=1, max_queue=3)
    first = await asking.occupy(order=0)
    low, _, _ = [await asking.queue("X-InferCrane-Priority: low", order=order) for order in (5, 9, 9)]
    normal = await asking.send(order=4)
    high = await asking.send("X-InferCrane-Priority: high", order=3)
    await eventually(lambda: asking.router.reasons().get("displaced") == 2)
    gate.set()
    assert [(await client.answer()).status for client in (first, high, normal, low)] == [200] * 4
    assert [call.document["order"] for call in upstream.calls] == [0, 3, 4, 5]


async def test_what_is_pipelined_behind_a_displaced_request_waits_for_its_turn(
    asking: Asking, upstream: Upstream, gate: Gate
) -> None:
    await limit(asking.router, upstream, max_inflight=1, max_queue=1)
    first = await asking.occupy()
    client = await asking.queue("X-InferCrane-Priority: low")
    await client.send(chat(False, "X-InferCrane-Priority: high"))
    normal = await asking.send()
    assert (await client.answer()).error == "overloaded"
    assert (await normal.answer()).error == "overloaded"
    gate.set()
    assert [(await one.answer()).status for one in (first, client)] == [200, 200]
    assert asking.router.reasons() == {"displaced": 2}


async def test_nobody_is_displaced_when_that_is_not_enough(asking: Asking, upstream: Upstream) -> None:
    await limit(asking.router, upstream, max_inflight=1, max_queue=2, max_queue_bytes=1000)
    await asking.occupy()
    await asking.queue("X-InferCrane-Priority: low")
    refused = await asking.ask("X-InferCrane-Priority: high", x="x" * 2000)
    assert refused.error == "overloaded"
    assert (asking.waiting, asking.router.reasons()) == (1, {"queue_full": 1})


async def test_a_class_is_asked_for_only_with_a_key_that_may(asking: Asking, gate: Gate) -> None:
    gate.set()
    secret = await asking.router.key(priorities=("low", "normal"))
    key = f"Authorization: Bearer {secret}"
    for given, status in (("low", 200), (" NORMAL ", 200), ("high", 403), ("urgent", 400), ("", 400)):
        assert (await asking.ask(key, f"X-InferCrane-Priority: {given}")).status == status, given
    assert asking.router.reasons() == {"priority_not_allowed": 1, "unknown_priority": 2}


async def test_the_first_class_of_a_key_is_its_own(asking: Asking, upstream: Upstream, gate: Gate) -> None:
    await limit(asking.router, upstream, max_inflight=1)
    keys = [await asking.router.key(name, priorities=(name,)) for name in ("low", "normal", "high")]
    first = await asking.occupy(f"Authorization: Bearer {keys[1]}", order=0)
    for order, secret in enumerate(keys):
        await asking.queue(f"Authorization: Bearer {secret}", order=3 - order)
    gate.set()
    await first.answer()
    await eventually(lambda: upstream.attempts == 4)
    assert [call.document["order"] for call in upstream.calls] == [0, 1, 2, 3]


async def test_a_key_revoked_while_its_request_waits_sends_nothing(
    asking: Asking, upstream: Upstream, gate: Gate
) -> None:
    await limit(asking.router, upstream, max_inflight=1)
    stays, goes = await asking.router.key("stays"), await asking.router.key("goes")
    await asking.occupy(f"Authorization: Bearer {stays}")
    waiting = await asking.queue(f"Authorization: Bearer {goes}")
    await asking.router.parts.keys.revoke("goes")
    gate.set()
    assert (await waiting.answer()).error == "invalid_api_key"
    assert upstream.attempts == 1


async def test_a_key_has_its_own_rate_and_nobody_else_pays_for_it(asking: Asking, gate: Gate) -> None:
    gate.set()
    limited = await asking.router.key("limited", limits=KeyLimits(requests_per_minute=2))
    free = await asking.router.key("free")
    answers = [await asking.ask(f"Authorization: Bearer {limited}") for _ in range(3)]
    assert [one.status for one in answers] == [200, 200, 429]
    assert answers[2].error == "rate_limit_exceeded"
    assert json.loads(answers[2].body)["error"]["type"] == "rate_limit_error"
    assert 1 <= int(answers[2].header("retry-after") or 0) <= 30
    assert (await asking.ask(f"Authorization: Bearer {free}")).status == 200
    assert asking.router.parts.relay.traffic.unbound[Outcome.LIMITED] == 1


async def test_a_rotation_gives_no_second_budget(asking: Asking, gate: Gate) -> None:
    gate.set()
    old = await asking.router.key(limits=KeyLimits(requests_per_minute=1))
    assert (await asking.ask(f"Authorization: Bearer {old}")).status == 200
    _, new = await asking.router.parts.keys.rotate("ci", 100)
    assert (await asking.ask(f"Authorization: Bearer {new}")).status == 429


async def test_tokens_are_settled_by_what_the_upstream_counted(asking: Asking, upstream: Upstream) -> None:
    async def counted(call: Call) -> None:
        await call.send(whole({**ANSWER, "usage": {"prompt_tokens": 100, "completion_tokens": 100}}))

    upstream.script = counted
    key = f"Authorization: Bearer {await asking.router.key(limits=KeyLimits(tokens_per_minute=1000))}"
    answers = [await asking.ask(key, max_tokens=700) for _ in range(3)]
    assert [one.status for one in answers] == [200, 200, 429]
    assert asking.router.reasons() == {"key_tokens": 1}


async def test_an_upstream_that_takes_no_connection_costs_no_tokens(asking: Asking, upstream: Upstream) -> None:
    await upstream.stop()
    key = f"Authorization: Bearer {await asking.router.key(limits=KeyLimits(tokens_per_minute=1000, max_inflight=1))}"
    assert [(await asking.ask(key, max_tokens=900)).error for _ in range(3)] == ["connect_failed"] * 3


async def test_a_request_that_was_handed_to_nobody_costs_no_tokens(
    asking: Asking, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = f"Authorization: Bearer {await asking.router.key(limits=KeyLimits(tokens_per_minute=1000))}"
    with monkeypatch.context() as dialling:
        dialling.setattr(Pool, "dial", lambda *_: asyncio.Event().wait())
        (await asking.occupy(key, max_tokens=900)).hang_up()
        await eventually(lambda: asking.inflight == 0)
    gate.set()
    assert (await asking.ask(key, max_tokens=900)).status == 200


async def test_a_request_the_queue_refuses_costs_no_tokens(asking: Asking, upstream: Upstream, gate: Gate) -> None:
    await limit(asking.router, upstream, max_inflight=1, max_queue=0)
    key = f"Authorization: Bearer {await asking.router.key(limits=KeyLimits(tokens_per_minute=2000))}"
    first = await asking.occupy(key, max_tokens=900)
    assert [(await asking.ask(key, max_tokens=900)).status for _ in range(3)] == [503] * 3
    gate.set()
    assert (await first.answer()).status == 200


async def test_requests_in_flight_of_one_key(asking: Asking, gate: Gate) -> None:
    key = f"Authorization: Bearer {await asking.router.key(limits=KeyLimits(max_inflight=1))}"
    first = await asking.occupy(key)
    assert (await asking.ask(key)).status == 429
    gate.set()
    assert (await first.answer()).status == 200
    assert (await asking.ask(key)).status == 200


async def test_waiting_counts_as_time_to_the_first_token(asking: Asking, upstream: Upstream, gate: Gate) -> None:
    await limit(asking.router, upstream, max_inflight=1)
    await asking.occupy()
    await asking.queue(stream=True)
    await asyncio.sleep(0.1)
    gate.set()
    await eventually(lambda: asking.router.traffic().ttft.count == 1)
    assert asking.router.traffic().ttft.sum >= 0.1
    queue = asking.router.parts.relay.admission.queues["chat"]
    assert queue.waited.sum >= 0.1
    assert queue.waited.count == 1


async def test_a_router_that_stops_tells_those_that_wait_at_once(
    asking: Asking, upstream: Upstream, gate: Gate
) -> None:
    await limit(asking.router, upstream, max_inflight=1)
    first, waiting = await asking.occupy(), await asking.queue()
    asking.router.parts.relay.finish_up()
    assert (await waiting.answer()).error == "draining"
    gate.set()
    assert (await first.answer()).status == 200
    assert upstream.attempts == 1


async def test_a_router_that_ends_now_takes_the_queue_with_it(asking: Asking, upstream: Upstream) -> None:
    await limit(asking.router, upstream, max_inflight=1)
    await asking.occupy()
    waiting = await asking.queue()
    asking.router.parts.relay.cut()
    assert await waiting.until_closed() == b""
    await eventually(lambda: (asking.inflight, asking.waiting) == (0, 0))


async def test_under_overload_the_queue_holds_what_it_may_and_the_rest_has_an_answer(
    asking: Asking, upstream: Upstream
) -> None:
    await limit(asking.router, upstream, max_inflight=1, max_queue=50, max_queue_bytes=400_000)
    await asking.occupy()
    clients = [await asking.send(x="x" * 10_000) for _ in range(200)]
    await eventually(lambda: asking.router.reasons().get("queue_full", 0) == 200 - asking.waiting)
    assert asking.waiting == 39
    assert asking.router.parts.relay.admission.queues["chat"]._waiting_bytes <= 400_000
    assert (await clients[-1].answer()).error == "overloaded"


async def test_a_copy_holds_no_permit_of_its_original(asking: Asking, upstream: Upstream, gate: Gate) -> None:
    both = {R1: revision("r1", upstream.url), R2: revision("r2", upstream.url)}
    mirror = {"revision": R2, "percent": 100}
    await asking.router.put(both, mirror=mirror, limits={"max_inflight": 1})
    clients = [await asking.send(), await asking.queue()]
    await eventually(lambda: upstream.attempts == 2)
    queue = asking.router.parts.relay.admission.queues["chat"]
    assert (queue.inflight, queue.length) == (1, 1)
    gate.set()
    assert [(await client.answer()).status for client in clients] == [200, 200]
    await eventually(lambda: upstream.attempts == 4 and asking.inflight == 0)
    assert queue.inflight == 0
