"""Where the router listens, and where it never connects to."""

from pathlib import Path

import pytest

from pulumi_infercrane.router.addresses import ListenAddress, UnixAddress, points_at, read_listen_address, why_refused
from pulumi_infercrane.router.errors import AddressRefused


@pytest.mark.parametrize(
    ("text", "host"), [("127.0.0.1:80", "127.0.0.1"), ("localhost:80", "127.0.0.1"), ("[::1]:80", "::1")]
)
def test_loopback_is_accepted(text: str, host: str) -> None:
    assert read_listen_address(text) == ListenAddress(host, 80)


@pytest.mark.parametrize("text", ["0.0.0.0:80", "10.0.0.1:80", "[::]:80", "example.org:80"])
def test_other_machines_are_not(text: str) -> None:
    with pytest.raises(AddressRefused, match="loopback only"):
        read_listen_address(text)


@pytest.mark.parametrize(("text", "host"), [("0.0.0.0:80", "0.0.0.0"), ("[::]:80", "::"), ("10.0.0.1:80", "10.0.0.1")])
def test_other_machines_are_accepted_where_keys_are_required(text: str, host: str) -> None:
    assert read_listen_address(text, keyed=True) == ListenAddress(host, 80)


def test_a_unix_socket_is_no_other_machines_way_in() -> None:
    address = read_listen_address("unix:/run/http.sock")
    assert address == UnixAddress(Path("/run/http.sock"))
    assert not points_at("http://127.0.0.1:8000", address)


@pytest.mark.parametrize("text", ["unix:", "unix:http.sock"])
def test_a_unix_socket_has_an_absolute_path(text: str) -> None:
    with pytest.raises(AddressRefused, match="absolute path"):
        read_listen_address(text)


def test_a_name_is_no_address_to_listen_on() -> None:
    with pytest.raises(AddressRefused, match="listen on an IP address"):
        read_listen_address("example.org:80", keyed=True)


@pytest.mark.parametrize("text", ["", "127.0.0.1", ":80", "127.0.0.1:http", "127.0.0.1:65536"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(AddressRefused, match="is not host:port"):
        read_listen_address(text)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8000",
        "http://10.0.0.7",
        "https://api.example.org/v2/openai",
        "http://[fd00::1]:80",
        "http://vllm_1:8000",
        "http://api.example.org.:8000",
        "https://xn--mnchen-3ya.example/v1/%7Ea",
    ],
)
def test_upstreams(url: str) -> None:
    assert why_refused(url, with_key=False) == ""


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("ftp://a", "must be http"),
        ("http://", "must be http"),
        ("a:80", "must be http"),
        ("http://a:port", "not a URL"),
        ("http://user:key@a", "credentials"),
        ("http://a?x=1", "query"),
        ("http://a#x", "fragment"),
        ("http://169.254.169.254", "metadata"),
        ("http://0xa9fea9fe", "metadata"),
        ("http://2852039166", "metadata"),
        ("http://[::ffff:169.254.169.254]", "metadata"),
        ("http://[fd00:ec2::254]", "metadata"),
        ("http://metadata.google.internal", "metadata"),
        ("http://0.0.0.0:80", "unspecified"),
        ("http://224.0.0.1", "multicast"),
        ("http://a/x HTTP/1.1 y", "visible ASCII"),
        ("http://a\t:80", "visible ASCII"),
        ("http://a\r\nX: y", "visible ASCII"),
        ("http://a\x7fb:1", "visible ASCII"),
        ("http://münchen.example", "visible ASCII"),
        ("http://a..b:1", "is not host:port"),
        ("https://.localhost:1", "is not host:port"),
        ("http://-a", "is not host:port"),
        ("http://a;b", "is not host:port"),
        (f"http://{'a' * 64}.x:1", "is not host:port"),
        (f"http://{'.'.join(['a' * 50] * 3)}.{'b' * 63}.{'c' * 40}", "is not host:port"),
        ("http://xn--:1", "is not host:port"),
        ("http://[::1%25lo]:1", "is not host:port"),
        ("http://[v1.a]:1", "not "),
        ("http://127.0.0.1:0", "is not host:port"),
        ("http://a:", "is not host:port"),
        ('http://a/"x"', "in its path"),
        ("http://a/%x", "in its path"),
    ],
)
def test_K6_upstreams_that_are_refused(url: str, why: str) -> None:
    assert why in why_refused(url, with_key=False)


def test_a_key_does_not_cross_the_internet_in_clear_text() -> None:
    assert "use https" in why_refused("http://8.8.8.8", with_key=True)
    assert why_refused("https://8.8.8.8", with_key=True) == ""
    assert why_refused("http://10.0.0.1", with_key=True) == ""


@pytest.mark.parametrize(
    ("url", "same"),
    [("http://127.0.0.1:8000", True), ("http://127.9.9.9:8000/x", True), ("http://127.0.0.1:8001", False)],
)
def test_the_routers_own_address(url: str, same: bool) -> None:
    assert points_at(url, ListenAddress("127.0.0.1", 8000)) is same
