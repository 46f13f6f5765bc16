"""The command line of a router: what is not asked for is not in it, and what cannot be is refused before it starts."""

import sys
from pathlib import Path
from typing import Any

import pytest

from pulumi_infercrane.components import RouterArgs, TlsFiles
from pulumi_infercrane.components.place import Place
from pulumi_infercrane.components.router_process import (
    InvalidRouter,
    probed_host,
    router_address,
    router_command,
    router_url,
)

PLACE = Place(Path("/state/dev@lab"))
PLAIN = [
    *(sys.executable, "-m", "pulumi_infercrane", "router", "serve", "--listen", "127.0.0.1:{port}"),
    *("--control", "/state/dev@lab/router.sock", "--state", "/state/dev@lab/router"),
]


def options(**arguments: Any) -> list[str]:
    """What comes after the command line of a router of which nothing was asked."""
    command = router_command(RouterArgs(**arguments), PLACE)
    assert command[: len(PLAIN)] == PLAIN
    return command[len(PLAIN) :]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("chain.pem", "key.pem", "record.yaml"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_what_runs_today_is_not_restarted_for_options_that_are_new() -> None:
    assert router_command(RouterArgs(listen="127.0.0.1:8123"), PLACE) == PLAIN


def test_every_argument_is_an_option_of_its_own(files: Path) -> None:
    assert options(require_keys=True) == ["--require-keys"]
    assert options(tls=TlsFiles("chain.pem", "key.pem")) == [
        *("--tls-cert", str(files / "chain.pem")),
        *("--tls-key", str(files / "key.pem")),
    ]
    assert options(workers=2, max_connections=500) == ["--workers", "2", "--max-connections", "500"]
    assert options(trusted_proxies=["10.0.0.0/8", "::1"]) == ["--trusted-proxies", "10.0.0.0/8,::1"]
    assert options(idle_s=900, max_body=1 << 25) == ["--idle", "900", "--max-body", "33554432"]
    assert options(status="0.0.0.0:9100") == ["--status", "0.0.0.0:9100"]
    assert options(access_log="-") == ["--access-log", "-"]
    assert options(access_log="access.jsonl") == ["--access-log", str(files / "access.jsonl")]
    assert options(record="record.yaml") == ["--record", str(files / "record.yaml")]


def test_the_router_understands_what_it_is_started_with(files: Path) -> None:
    from pulumi_infercrane.stacks.cli.router import serve

    args = RouterArgs(
        "0.0.0.0:8443",
        require_keys=True,
        tls=TlsFiles("chain.pem", "key.pem"),
        workers=2,
        max_connections=500,
        trusted_proxies=("10.0.0.0/8",),
        idle_s=900.5,
        max_body=1 << 25,
        status="127.0.0.1:9100",
        access_log="-",
        record="record.yaml",
    )
    given = router_command(args, PLACE)[5:]
    taken = serve.make_context("serve", given).params
    assert set(taken) >= {"tls_cert", "record"}
    assert (taken["trusted_proxies"], taken["idle"], taken["max_body"]) == ("10.0.0.0/8", 900.5, 1 << 25)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"listen": "0.0.0.0:8000"}, r"router\.listen: .*loopback only"),
        ({"listen": "unix:/run/x.sock"}, r"router\.listen: .*no host:port"),
        ({"listen": "8000"}, r"router\.listen: '8000' is not host:port"),
        ({"workers": 257}, r"router\.workers: 257 is not a whole number from 0 to 256"),
        ({"max_connections": 0}, r"router\.max_connections: 0 is not a whole number from 1"),
        ({"trusted_proxies": ["10.0.0.1", "proxy"]}, r"router\.trusted_proxies: 'proxy' does not appear to be"),
        ({"trusted_proxies": ["0.0.0.0/0"]}, r"router\.trusted_proxies: 0\.0\.0\.0/0: every client could say"),
        ({"idle_s": 0}, r"router\.idle_s: 0 is no number of seconds above 0"),
        ({"idle_s": float("inf")}, r"router\.idle_s: inf is no number"),
        ({"idle_s": True}, r"router\.idle_s: True is no number"),
        ({"max_body": 1.5}, r"router\.max_body: 1\.5 is not a whole number from 1"),
        ({"status": "here"}, r"router\.status: 'here' is not host:port"),
        ({"record": "none.yaml"}, r"router\.record: .*none\.yaml is no file"),
        ({"tls": TlsFiles("chain.pem", "none.pem")}, r"router\.tls\.key: .*none\.pem is no file"),
    ],
)
def test_what_the_router_would_refuse_is_refused_before(files: Path, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRouter, match=message):
        router_command(RouterArgs(**arguments), PLACE)


@pytest.mark.parametrize(
    ("listen", "url", "probed"),
    [
        ("127.0.0.1:8000", "http://127.0.0.1:8000", "127.0.0.1"),
        ("127.0.0.2:8000", "http://127.0.0.2:8000", "127.0.0.2"),
        ("[::1]:8000", "http://[::1]:8000", "127.0.0.1"),
        ("0.0.0.0:8000", "http://127.0.0.1:8000", "127.0.0.1"),
        ("[::]:8000", "http://[::1]:8000", "127.0.0.1"),
        ("10.0.0.7:8000", "http://10.0.0.7:8000", "127.0.0.1"),
    ],
)
def test_where_clients_of_this_machine_find_it(listen: str, url: str, probed: str) -> None:
    args = RouterArgs(listen, require_keys=True)
    assert (router_url(args), probed_host(router_address(args))) == (url, probed)


def test_with_a_certificate_the_address_is_one_of_tls() -> None:
    assert router_url(RouterArgs(tls=TlsFiles("chain.pem", "key.pem"))) == "https://127.0.0.1:8000"
