"""Whatever becomes of a dial, the request ends with it, in time, and nobody else waits for it."""

import asyncio
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from time import monotonic
from typing import Any, NoReturn

import pytest

from pulumi_infercrane.router.protocol.observer import Outcome
from pulumi_infercrane.router.routing import lookups
from pulumi_infercrane.router.routing.dialer import Address, Dialer
from pulumi_infercrane.router.routing.lookups import Lookups
from pulumi_infercrane.router.routing.readiness import why_not_ready
from pulumi_infercrane.router.routing.upstream import Pool
from tests.router.client import Client, chat
from tests.router.conftest import R1, Running, eventually, revision
from tests.router.upstream import Upstream

SOON = {"connect_s": 0.3}


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Resolver:
    """Knows `upstream` and nobody else, and what is held takes until it is let go."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.held: set[str] = set()
        self.let_go = threading.Event()

    def __call__(self, host: str, *_: Any, **__: Any) -> list[Any]:
        self.asked.append(host)
        if host in self.held:
            self.let_go.wait(10)
        if host != "upstream":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (address, 0)) for address in ("127.0.0.9", "127.0.0.1")]


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Resolver]:
    made = Resolver()
    monkeypatch.setattr(lookups.socket, "getaddrinfo", made)
    yield made
    made.let_go.set()


@pytest.mark.parametrize(
    "address", [("a..b", False), ("a" * 70 + ".x", False), (".localhost", True), ("localhost..", True), ("::1", False)]
)
async def test_a_dial_fails_in_one_way_only(address: tuple[str, bool]) -> None:
    """Names that are none raised no OSError: their requests hung for ever."""
    host, tls = address
    with pytest.raises(OSError, match=r"."):
        await Dialer(Clock()).open(Address(host, 1, tls), asyncio.Protocol, 5)


async def test_whatever_a_dial_fails_of_is_a_failed_connection(
    router: Running, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*_: object) -> NoReturn:
        raise UnicodeError("label empty or too long")

    monkeypatch.setattr(Lookups, "addresses", never)
    assert (await client.ask(chat(False))).error == "connect_failed"
    assert (router.traffic().inflight, await router.outcome()) == (0, Outcome.CONNECT_FAILED)
    assert await why_not_ready(router.parts.relay.routes) == [
        "no upstream of revision r1 of service chat takes connections"
    ]


async def test_a_resolver_that_hangs_is_not_waited_for(router: Running, client: Client, resolver: Resolver) -> None:
    resolver.held.add("slow")
    await router.put({R1: revision("r1", "http://slow:1")}, timers=SOON)
    began = monotonic()
    assert (await client.ask(chat(False))).error == "connect_failed"
    assert 0.2 < monotonic() - began < 2


async def test_N8_names_that_do_not_resolve_hold_up_no_other(
    router: Running, upstream: Upstream, resolver: Resolver
) -> None:
    names = [f"slow-{number}" for number in range(8)]
    resolver.held.update(names)
    slow = {R1: revision("r1", *(f"http://{name}:1" for name in names))}
    await router.put(slow, service="slow", aliases=["slow"])
    await router.flip(R1, service="slow")
    await router.put({R1: revision("r1", upstream.url.replace("127.0.0.1", "upstream"))}, timers=SOON)
    waiting = [await router.client() for _ in range(20)]
    for one in waiting:
        await one.send(chat(False, model="slow"))
    await eventually(lambda: bool(resolver.asked))
    async with await router.client() as client:
        assert (await client.ask(chat(False))).status == 200
    assert len(resolver.asked) == len(set(resolver.asked)), "one look-up per name at a time"
    for one in waiting:
        one.hang_up()


async def test_all_upstreams_with_tls_share_what_they_trust(router: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each had a context of its own, made on the loop: a table with 256 of them stopped the router for 21 s."""
    made: list[threading.Thread] = []
    real = ssl.create_default_context

    def counted() -> ssl.SSLContext:
        made.append(threading.current_thread())
        return real()

    monkeypatch.setattr(ssl, "create_default_context", counted)
    await router.put({R1: revision("r1", *(f"https://127.0.0.1:{port}" for port in range(1, 21)))})
    assert made == []
    pools = [pool for pool in router.parts.relay.compiler.pools if pool.address.tls]
    ends = await asyncio.gather(*(pool.dial(5) for pool in pools), return_exceptions=True)
    assert {type(end) for end in ends} == {ConnectionRefusedError}
    assert len(made) == 1
    assert made[0] is not threading.main_thread()


async def test_who_leaves_does_not_take_it_from_the_others(router: Running) -> None:
    await router.put({R1: revision("r1", "https://127.0.0.1:1")})
    (pool,) = [pool for pool in router.parts.relay.compiler.pools if pool.address.tls]
    first, second = (asyncio.get_running_loop().create_task(pool.dial(5)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(ConnectionRefusedError):
        await second
    assert first.cancelled()


async def test_connections_whose_dial_was_given_up_on_are_not_counted(upstream: Upstream) -> None:
    """Their end is told to nobody: the gauge of a pool only ever rose."""
    pool = Pool(Address("127.0.0.1", upstream.port, False), Dialer(monotonic), 3, monotonic)
    for turns in range(10):
        dial = asyncio.create_task(pool.dial(3))
        for _ in range(turns):
            await asyncio.sleep(0)
        dial.cancel()
        with suppress(asyncio.CancelledError):
            (await dial).abort()
    await eventually(lambda: not pool.open)
    kept = await pool.dial(3)
    assert pool.open == 1
    kept.abort()
    await eventually(lambda: not pool.open)


async def test_an_address_is_never_looked_up(resolver: Resolver) -> None:
    known = Lookups(Clock())
    assert await known.addresses("127.0.0.1") == ("127.0.0.1",)
    assert await known.addresses("::1") == ("::1",)
    assert resolver.asked == []


async def test_a_name_is_looked_up_once_in_a_while(resolver: Resolver) -> None:
    clock = Clock()
    known = Lookups(clock)
    both = await asyncio.gather(known.addresses("upstream"), known.addresses("upstream"))
    assert both == [("127.0.0.9", "127.0.0.1")] * 2
    clock.now = lookups.FRESH_S - 0.1
    await known.addresses("upstream")
    assert len(resolver.asked) == 1
    clock.now = lookups.FRESH_S
    await known.addresses("upstream")
    assert len(resolver.asked) == 2
    known.forget("upstream")
    await known.addresses("upstream")
    assert len(resolver.asked) == 3


async def test_what_was_found_a_moment_ago_is_used_while_the_resolver_hangs(resolver: Resolver) -> None:
    clock = Clock()
    known = Lookups(clock)
    found = await known.addresses("upstream")
    resolver.held.add("upstream")
    clock.now = lookups.STALE_S - 1
    assert await known.addresses("upstream") == found
    clock.now = lookups.STALE_S
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await known.addresses("upstream")
    assert len(resolver.asked) == 2
    resolver.let_go.set()
    assert await known.addresses("upstream") == found
    assert len(resolver.asked) == 2, "who gave up waiting has not ended the look-up"
