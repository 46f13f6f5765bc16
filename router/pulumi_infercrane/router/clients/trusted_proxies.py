"""Proxies in front of the router, and what they say about who the client is."""

import ipaddress
from dataclasses import dataclass

from pulumi_infercrane.router.errors import AddressRefused
from pulumi_infercrane.router.protocol.headers import Headers

FORWARDED_FOR = b"x-forwarded-for"
FORWARDED_PROTO = b"x-forwarded-proto"
_SCHEMES = (b"http", b"https")
_MOST_HOPS = 32
"""Looked at, from the right: the rest of a longer list is none that proxies of ours wrote."""

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IpNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True)
class TrustedProxies:
    """The addresses whose `X-Forwarded-For` and `X-Forwarded-Proto` are believed."""

    networks: tuple[IpNetwork, ...]

    def client_of(self, peer: bytes, headers: Headers) -> bytes:
        """The address of the client: the right-most one that is not of a trusted proxy.

        Without any, or where the list breaks off with what is no address, it is the last proxy that is known of.
        """
        if FORWARDED_FOR not in headers.first or not self._trusts(_address(peer)):
            return peer
        client = peer
        for hop in reversed(b",".join(headers.all(FORWARDED_FOR)).rsplit(b",", _MOST_HOPS)[-_MOST_HOPS:]):
            address = _address(hop)
            if address is None:
                break
            client = str(address).encode()
            if not self._trusts(address):
                break
        return client

    def scheme_of(self, peer: bytes, headers: Headers, own: bytes) -> bytes:
        """By which the client came: what a proxy says, if it is one scheme, else `own`, that of its connection."""
        given = headers.first.get(FORWARDED_PROTO)
        if given is None or headers.repeated(FORWARDED_PROTO) or not self._trusts(_address(peer)):
            return own
        scheme = given.strip().lower()
        return scheme if scheme in _SCHEMES else own

    def _trusts(self, address: IpAddress | None) -> bool:
        return address is not None and any(address in network for network in self.networks)


def read_trusted_proxies(text: str) -> TrustedProxies:
    """`10.0.0.0/8,::1`: addresses and networks.

    Raises:
        AddressRefused: one is none, or is every address there is.
    """
    return TrustedProxies(tuple(_network(part.strip()) for part in text.split(",")))


def _network(text: str) -> IpNetwork:
    try:
        network = ipaddress.ip_network(text)
    except ValueError as error:
        raise AddressRefused(str(error)) from error
    if network.prefixlen == 0:
        raise AddressRefused(f"{text}: every client could say it is another: name the proxies")
    return network


def _address(text: bytes) -> IpAddress | None:
    """Of one hop, without the port that some proxies add, and without a zone; None when it is none."""
    host = text.strip().decode("latin-1")
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
