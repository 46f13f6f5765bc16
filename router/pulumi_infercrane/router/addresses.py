"""Which addresses the router listens on and which it dials."""

import ipaddress
import re
import socket
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from pulumi_infercrane.router.errors import AddressRefused

_METADATA_NAMES = frozenset({"metadata", "metadata.google.internal", "instance-data"})
_METADATA_IPV6 = ipaddress.ip_address("fd00:ec2::254")

_VISIBLE = re.compile(r"[\x21-\x7e]*")
_AUTHORITY = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?")
_LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
_PATH = re.compile(r"([A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})*")
"""RFC 3986."""
_LONGEST_NAME = 253

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True)
class ListenAddress:
    """Host and port of the data listener. Port 0 lets the kernel choose."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True)
class UnixAddress:
    """Path of the data listener's unix socket: the owner and the group may connect."""

    path: Path

    def __str__(self) -> str:
        return f"unix:{self.path}"


Listening = ListenAddress | UnixAddress


def read_listen_address(text: str, *, keyed: bool = False) -> Listening:
    """`127.0.0.1:8000`, `[::1]:8000`, `localhost:8000` or `unix:/path`; other machines' way in only when `keyed`.

    Raises:
        AddressRefused: none of these, or reachable from other machines although no keys are required.
    """
    if text.startswith("unix:"):
        return _unix_address(text)
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdecimal() or int(port) > 65_535:
        raise AddressRefused(f"{text!r} is not host:port, for example 127.0.0.1:8000, or unix:/path")
    if not keyed:
        refuse_open(text, host)
    if host != "localhost" and _as_ip(host) is None:
        raise AddressRefused(f"{text}: listen on an IP address, for example 0.0.0.0:8000")
    return ListenAddress("127.0.0.1" if host == "localhost" else host, int(port))


def refuse_open(shown: str, host: str) -> None:
    """Where no keys are required.

    Raises:
        AddressRefused: other machines reach this host.
    """
    if not _is_loopback(host):
        raise AddressRefused(
            f"{shown}: without --require-keys the router listens on loopback only. "
            "Require client keys (infercrane router key new), or use 127.0.0.1"
        )


def _unix_address(text: str) -> UnixAddress:
    path = Path(text.removeprefix("unix:"))
    if not path.is_absolute():
        raise AddressRefused(f"{text}: name an absolute path, for example unix:/run/infercrane/router.sock")
    return UnixAddress(path)


def why_refused(url: str, *, with_key: bool) -> str:
    """Why an upstream URL is not acceptable, or the empty string.

    Refused are other schemes than http(s), credentials, query and fragment, hosts that could never be dialled, metadata
    and other link-local addresses, and a key sent in clear text to a public address. What is accepted can go into a
    request line, a header and the configuration of a proxy as it is.
    """
    if not _VISIBLE.fullmatch(url):
        return "may hold visible ASCII characters only: no blanks, no control characters, host names as xn--…"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        return f"not a URL: {error}"
    if parts.scheme not in ("http", "https") or not host:
        return "must be http://host:port or https://host:port"
    if parts.username is not None or parts.password is not None or "@" in parts.netloc:
        return "carries credentials: name the key by key_ref instead"
    if "?" in url or "#" in url:
        return "may not have a query or fragment"
    if port == 0 or not _AUTHORITY.fullmatch(parts.netloc) or not (_is_ipv6(host) or _is_name(host)):
        return f"{parts.netloc!r} is not host:port of a host name (labels of 1 to 63 of a-z 0-9 - _), IPv4 or [IPv6]"
    if not _PATH.fullmatch(parts.path):
        return "has characters in its path that must be written as %XX"
    return _why_host_refused(host, parts, with_key=with_key)


def _is_ipv6(host: str) -> bool:
    try:
        return bool(ipaddress.IPv6Address(host))
    except ValueError:
        return False


def _is_name(host: str) -> bool:
    """A name that can be looked up, an IPv4 address included; one trailing dot is allowed."""
    labels = host.removesuffix(".").split(".")
    return len(host) <= _LONGEST_NAME and all(_LABEL.fullmatch(label) and _decodes(label) for label in labels)


def _decodes(label: str) -> bool:
    """Whether a label is what it says it is: one that begins with `xn--` is the ASCII form of another (RFC 3490)."""
    if not label.startswith("xn--"):
        return True
    try:
        return bool(label.removeprefix("xn--").encode().decode("punycode"))
    except UnicodeError:
        return False


def _why_host_refused(host: str, parts: SplitResult, *, with_key: bool) -> str:
    address = _as_ip(host)
    if host.rstrip(".") in _METADATA_NAMES or address == _METADATA_IPV6:
        return "is a cloud metadata address"
    if address is None:
        return ""
    if address.is_link_local or address.is_multicast or address.is_unspecified:
        return "is a link-local (cloud metadata), multicast or unspecified address"
    if with_key and parts.scheme == "http" and address.is_global:
        return "would send its key in clear text to a public address: use https"
    return ""


def points_at(url: str, listening: Listening) -> bool:
    """Whether an upstream URL is the router's own data listener."""
    if isinstance(listening, UnixAddress):
        return False
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    host = parts.hostname or ""
    return port == listening.port and (_is_loopback(host) or host == listening.host)


def _is_loopback(host: str) -> bool:
    address = _as_ip(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def _as_ip(host: str) -> IpAddress | None:
    """The address a literal means, in every spelling the resolver takes (`127.1`, `0x7f000001`, `::ffff:…`)."""
    try:
        address: IpAddress = ipaddress.ip_address(host)
    except ValueError:
        try:
            address = ipaddress.IPv4Address(socket.inet_aton(host))
        except OSError:
            return None
    mapped = getattr(address, "ipv4_mapped", None)
    return mapped if mapped is not None else address
