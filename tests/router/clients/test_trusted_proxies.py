"""Who the client is, behind proxies that were declared, and behind none."""

import json
from pathlib import Path

import pytest

from pulumi_infercrane.router.clients.trusted_proxies import read_trusted_proxies
from pulumi_infercrane.router.errors import AddressRefused
from pulumi_infercrane.router.protocol.headers import Headers
from tests.router.client import chat
from tests.router.conftest import R1, StartRouter, eventually, revision
from tests.router.upstream import Upstream

PROXIES = read_trusted_proxies("10.0.0.0/8, fd00::/8,127.0.0.1")


def client_of(peer: str, *forwarded: str) -> str:
    lines = [(b"x-forwarded-for", b"X-Forwarded-For", value.encode("latin-1")) for value in forwarded]
    return PROXIES.client_of(peer.encode(), Headers(lines)).decode()


@pytest.mark.parametrize("peer", ["192.0.2.1", "11.0.0.1", "2001:db8::1", "unknown"])
def test_whoever_is_not_declared_speaks_for_itself_only(peer: str) -> None:
    assert client_of(peer, "203.0.113.9") == peer


@pytest.mark.parametrize(
    ("forwarded", "client"),
    [
        (["203.0.113.9"], "203.0.113.9"),
        (["198.51.100.1, 203.0.113.9"], "203.0.113.9"),
        (["203.0.113.9,10.0.0.2 ,\tfd00::2"], "203.0.113.9"),
        (["203.0.113.9", "10.0.0.2"], "203.0.113.9"),
        (["198.51.100.1", "203.0.113.9"], "203.0.113.9"),
        (["203.0.113.9:4711"], "203.0.113.9"),
        (["[2001:db8::9]:4711"], "2001:db8::9"),
        (["2001:DB8:0::9"], "2001:db8::9"),
        (["::ffff:203.0.113.9, ::ffff:10.0.0.2"], "203.0.113.9"),
        (["2001:db8::9%eth0"], "2001:db8::9"),
    ],
)
def test_the_client_is_the_right_most_that_is_not_declared(forwarded: list[str], client: str) -> None:
    for peer in ("10.0.0.1", "fd00::1"):
        assert client_of(peer, *forwarded) == client


@pytest.mark.parametrize(
    ("forwarded", "client"),
    [
        ([], "10.0.0.1"),
        ([""], "10.0.0.1"),
        (["unknown"], "10.0.0.1"),
        (["203.0.113.9, unknown"], "10.0.0.1"),
        (["203.0.113.9, _hidden, 10.0.0.2"], "10.0.0.2"),
        (["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
        (["203.0.113.9," + ",".join(["10.0.0.2"] * 5_000)], "10.0.0.2"),
    ],
)
def test_where_the_list_says_nothing_more_it_is_the_last_proxy(forwarded: list[str], client: str) -> None:
    assert client_of("10.0.0.1", *forwarded) == client


@pytest.mark.parametrize(
    ("peer", "forwarded", "scheme"),
    [
        ("10.0.0.1", ["https"], "https"),
        ("10.0.0.1", ["http"], "http"),
        ("fd00::1", [" HTTPS"], "https"),
        ("10.0.0.1", [], "own"),
        ("10.0.0.1", [""], "own"),
        ("10.0.0.1", ["wss"], "own"),
        ("10.0.0.1", ["https, http"], "own"),
        ("10.0.0.1", ["https", "https"], "own"),
        ("192.0.2.1", ["https"], "own"),
        ("unknown", ["https"], "own"),
    ],
)
def test_the_scheme_is_what_a_declared_proxy_says_if_it_says_one(peer: str, forwarded: list[str], scheme: str) -> None:
    lines = [(b"x-forwarded-proto", b"X-Forwarded-Proto", value.encode()) for value in forwarded]
    assert PROXIES.scheme_of(peer.encode(), Headers(lines), b"own") == scheme.encode()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "does not appear to be"),
        ("10.0.0.0/8,", "does not appear to be"),
        ("proxy.internal", "does not appear to be"),
        ("10.0.0.1/8", "has host bits set"),
        ("0.0.0.0/0", "every client could say it is another"),
        ("::/0", "every client could say it is another"),
    ],
)
def test_networks_that_are_none(text: str, why: str) -> None:
    with pytest.raises(AddressRefused, match=why):
        read_trusted_proxies(text)


@pytest.mark.parametrize(
    ("declared", "client", "scheme"), [(True, "203.0.113.9", "https"), (False, "127.0.0.1", "http")]
)
async def test_upstreams_and_the_access_log_are_told_of_the_client(
    start_router: StartRouter, upstream: Upstream, tmp_path: Path, declared: bool, client: str, scheme: str
) -> None:
    log = tmp_path / "access.log"
    router = await start_router(access_log=str(log), trusted_proxies=PROXIES if declared else None)
    await router.put({R1: revision("r1", upstream.url)})
    await router.flip(R1)
    spoofed = ("X-Forwarded-For: 198.51.100.1", "X-Forwarded-For: 203.0.113.9, 10.0.0.2")
    async with await router.client() as connection:
        assert (await connection.ask(chat(False, "X-Forwarded-Proto: https", *spoofed))).whole
        assert (await connection.ask(chat(False, *spoofed, model="invented"))).status == 404
    await eventually(lambda: log.read_bytes().count(b"\n") == 2)
    assert upstream.calls[0].header("x-forwarded-for") == client
    assert upstream.calls[0].header("x-forwarded-proto") == scheme
    assert [json.loads(line)["peer"] for line in log.read_text().splitlines()] == [client] * 2
