"""Where clients come in: IPv6, unix sockets, sockets of systemd, TLS, and how many of them."""

import asyncio
import os
import signal
import socket
import ssl
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from pulumi_infercrane.router.control.client import Flip, Grant
from pulumi_infercrane.router.errors import AddressRefused, CertificateRefused
from pulumi_infercrane.router.serving import sockets
from pulumi_infercrane.router.serving.front import most_connections
from pulumi_infercrane.router.serving.tls import Certificate
from tests.router.certificates import certificate, trusting_anybody
from tests.router.client import Client, chat
from tests.router.conftest import R1, RouterProcess, StartRouter, declared, eventually, revision
from tests.router.serving.test_server import put_and_flip
from tests.router.upstream import Upstream

Start = Callable[..., RouterProcess]


async def forwarded(client: Client, upstream: Upstream) -> tuple[str | None, str | None]:
    """What the upstream is told about the client of a request."""
    async with client:
        assert (await client.ask(chat(False))).status == 200
    call = await upstream.call(upstream.attempts - 1)
    return call.header("x-forwarded-for"), call.header("x-forwarded-proto")


async def test_ipv6(start_process: Start, upstream: Upstream) -> None:
    process = start_process(listen="[::1]:0").wait_ready()
    await put_and_flip(process.control, upstream)
    assert await forwarded(await Client.over("::1", process.port), upstream) == ("::1", "http")


async def test_behind_a_proxy_that_was_declared(start_process: Start, upstream: Upstream) -> None:
    process = start_process(options=("--trusted-proxies", "127.0.0.1")).wait_ready()
    await put_and_flip(process.control, upstream)
    async with await Client.connect(process.port) as client:
        assert (await client.ask(chat(False, "X-Forwarded-For: 203.0.113.9"))).status == 200
    assert upstream.calls[0].header("x-forwarded-for") == "203.0.113.9"


async def test_ipv6_and_ipv4_by_one_address(start_process: Start, upstream: Upstream) -> None:
    process = start_process(listen="[::]:0", options=("--require-keys",)).wait_ready()
    await put_and_flip(process.control, upstream)
    async with process.client() as control:
        issued = await control.new_key(Grant("ci", ("chat",)))
    for host in ("127.0.0.1", "::1"):
        async with await Client.over(host, process.port) as client:
            assert (await client.ask(chat(True, f"Authorization: Bearer {issued.secret}"))).whole
    assert [call.header("x-forwarded-for") for call in upstream.calls] == ["127.0.0.1", "::1"]


async def test_an_upstream_by_its_ipv6_address(start_router: StartRouter, upstream: Upstream) -> None:
    listener = await asyncio.start_server(upstream._serve, "::1", 0)
    url = f"http://[::1]:{listener.sockets[0].getsockname()[1]}"
    router = await start_router()
    await router.put({R1: revision("r1", url)})
    await router.flip(R1)
    async with await router.client() as client:
        assert (await client.ask(chat(False))).status == 200
    assert (await upstream.call()).header("host") == url.removeprefix("http://")
    listener.close()


async def test_a_unix_socket_for_clients(start_process: Start, upstream: Upstream, tmp_path: Path) -> None:
    path = tmp_path / "http.sock"
    process = start_process(listen=f"unix:{path}").wait_ready()
    await put_and_flip(process.control, upstream)
    assert stat.S_IMODE(path.stat().st_mode) == 0o660
    assert await forwarded(await Client.over_unix(path), upstream) == ("unknown", "http")
    process.kill()
    again = start_process(listen=f"unix:{path}").wait_ready()  # over the socket that was left
    async with await Client.over_unix(path) as client:
        assert (await client.ask(chat())).whole
    again.terminate()
    assert (await again.ended())[0] == 0
    assert not path.exists()


async def test_a_unix_socket_that_answers_is_somebodys(start_process: Start, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(tmp_path / "http.sock"))
        other.listen()
        code, errors = await start_process(listen=f"unix:{tmp_path}/http.sock").ended()
    assert (code, "another router answers on --listen" in errors) == (1, True)


@pytest.mark.parametrize("options", [(), ("--workers", "1")])
async def test_an_address_for_probes_and_prometheus(
    start_process: Start, tmp_path: Path, options: tuple[str, ...]
) -> None:
    path = tmp_path / "status.sock"
    process = start_process(options=("--status", f"unix:{path}", *options)).wait_ready()
    asked = {}
    async with await Client.over_unix(path) as client:
        for call in ("/livez", "/readyz", "/metrics", "/v1/services"):
            answer = await client.ask(f"GET {call} HTTP/1.1\r\nHost: router\r\n\r\n".encode())
            asked[call] = answer.status
    assert asked == {"/livez": 200, "/readyz": 503, "/metrics": 200, "/v1/services": 404}
    process.terminate()
    assert (await process.ended())[0] == 0
    assert not path.exists()


# systemd


@contextmanager
def listening(*addresses: str | Path) -> Iterator[list[socket.socket]]:
    with ExitStack() as closing:
        made = []
        for address in addresses:
            one = socket.socket(socket.AF_UNIX if isinstance(address, Path) else socket.AF_INET)
            made.append(closing.enter_context(one))
            one.bind(str(address) if isinstance(address, Path) else (address, 0))
            one.listen()
        yield made


_AS_SYSTEMD = """
import os, sys
for index, descriptor in enumerate(sys.argv[1].split(",")):
    os.dup2(int(descriptor), 3 + index)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(index + 1), LISTEN_FDNAMES=sys.argv[2])
os.execv(sys.executable, [sys.executable, "-m", "pulumi_infercrane", "router", "serve", *sys.argv[3:]])
"""


class Started(NamedTuple):
    """A process and the first line it printed."""

    pid: int
    line: str


@contextmanager
def by_systemd(folder: Path, given: list[socket.socket], names: str, *more: str) -> Iterator[Started]:
    """The router with sockets as systemd hands them over. It ends orderly."""
    descriptors = [one.fileno() for one in given]
    options = ["--control", f"{folder}/c.sock", "--state", f"{folder}/state", *more]
    script = [sys.executable, "-c", _AS_SYSTEMD, ",".join(map(str, descriptors)), names, *options]
    with subprocess.Popen(script, pass_fds=descriptors, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield Started(process.pid, process.stdout.readline())
        finally:
            process.terminate()
    assert process.returncode == 0


async def test_sockets_of_systemd_outlive_the_router_and_lose_nobody(tmp_path: Path, upstream: Upstream) -> None:
    control = tmp_path / "c.sock"
    with listening("127.0.0.1", control) as given:
        port = given[0].getsockname()[1]
        with by_systemd(tmp_path, given, "data:control") as started:
            assert f"http://127.0.0.1:{port}," in started.line
            await put_and_flip(control, upstream)
        assert control.exists()
        async with await Client.connect(port) as waiting:  # nobody is there
            await waiting.send(chat())
            with by_systemd(tmp_path, given, "data:control"):
                assert (await waiting.answer()).whole


def test_sockets_for_another_process_are_not_ours() -> None:
    assert sockets.handed_over({"LISTEN_PID": "1", "LISTEN_FDS": "1"}, 2) == {}
    assert sockets.handed_over({}, 2) == {}


@pytest.mark.parametrize(("count", "names"), [("2", "data"), ("2", "data:data"), ("2", "data:x"), ("0", "")])
def test_sockets_of_other_names_are_refused(count: str, names: str) -> None:
    with pytest.raises(AddressRefused, match="FileDescriptorName=data, control or status"):
        sockets.handed_over({"LISTEN_PID": "2", "LISTEN_FDS": count, "LISTEN_FDNAMES": names}, 2)


# TLS


def issued_to(client: Client) -> str:
    """The name in the certificate a client was shown."""
    der = client.writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    return str(x509.load_der_x509_certificate(der).subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)[0].value)


async def test_an_upstream_by_tls_shows_a_certificate_that_is_trusted(
    start_process: Start, upstream: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain, key = certificate(tmp_path, "localhost")
    showing = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    showing.load_cert_chain(chain, key)
    listener = await asyncio.start_server(upstream._serve, "127.0.0.1", 0, ssl=showing)
    url = f"https://localhost:{listener.sockets[0].getsockname()[1]}"
    for trusted, status in ((str(chain), 200), (os.devnull, 503)):
        monkeypatch.setenv("SSL_CERT_FILE", trusted)
        process = start_process(state=f"state-{status}").wait_ready()
        async with process.client() as control:
            await control.put("chat", declared({R1: revision("r1", url)}), if_match=None)
            await control.flip("chat", Flip("", R1, "decision-1"))
        async with await Client.connect(process.port) as client:
            assert (await client.ask(chat(False))).status == status
        process.kill()
    listener.close()


@pytest.fixture
def tls_process(start_process: Start, tmp_path: Path) -> RouterProcess:
    chain, key = certificate(tmp_path)
    return start_process(options=("--tls-cert", str(chain), "--tls-key", str(key))).wait_ready()


async def test_tls(tls_process: RouterProcess, upstream: Upstream) -> None:
    await put_and_flip(tls_process.control, upstream)
    tls = trusting_anybody()
    async with await Client.over("127.0.0.1", tls_process.port, tls) as client:
        assert [(await client.ask(chat(stream))).whole for stream in (True, False)] == [True, True]
        await client.send(b"GET / HTTP/1.1\r\n\r\n")  # no host
        assert (await client.answer()).status == 400
        assert await client.until_closed() == b""
    assert await forwarded(await Client.over("127.0.0.1", tls_process.port, tls), upstream) == ("127.0.0.1", "https")


async def test_clear_text_and_old_versions_are_refused(tls_process: RouterProcess) -> None:
    async with await Client.connect(tls_process.port) as client:
        await client.send(chat())
        assert b"HTTP" not in await client.until_closed()
    old = trusting_anybody(ssl.TLSVersion.TLSv1_2)
    with pytest.warns(DeprecationWarning):
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await Client.over("127.0.0.1", tls_process.port, old)
    tls_process.terminate()
    _, errors = await tls_process.ended()
    assert "Traceback" not in errors


async def test_a_truncated_answer_without_length_is_no_clean_end(
    tls_process: RouterProcess, upstream: Upstream
) -> None:
    async def cut_without_framing(call: object) -> None:
        await call.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {}\n\n")
        call.reset()

    upstream.script = cut_without_framing
    await put_and_flip(tls_process.control, upstream)
    raw = socket.create_connection(("127.0.0.1", tls_process.port))

    def read() -> bytes:
        with trusting_anybody().wrap_socket(raw, suppress_ragged_eofs=False) as client:
            client.sendall(chat())
            data = b""
            while piece := client.recv(65_536):
                data += piece
        return data

    with pytest.raises((ssl.SSLEOFError, ConnectionError)):
        await asyncio.to_thread(read)


async def shown_at(host: str, port: int) -> str:
    async with await Client.over(host, port, trusting_anybody()) as new:
        return issued_to(new)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])  # without and with a server name
async def test_a_new_certificate_is_for_new_connections(
    tls_process: RouterProcess, upstream: Upstream, tmp_path: Path, host: str
) -> None:
    await put_and_flip(tls_process.control, upstream)
    async with await Client.over(host, tls_process.port, trusting_anybody()) as old:
        certificate(tmp_path, "b")
        tls_process.process.send_signal(signal.SIGHUP)
        async with asyncio.timeout(5):
            while await shown_at(host, tls_process.port) != "b":
                await asyncio.sleep(0.01)
        assert issued_to(old) == "a"
        assert (await old.ask(chat())).whole
        certificate(tmp_path, "c", key_of="b")
        tls_process.process.send_signal(signal.SIGHUP)
        await asyncio.sleep(0.1)
        assert await shown_at(host, tls_process.port) == "b"
    tls_process.terminate()
    _, errors = await tls_process.ended()
    assert "the certificate before it stays in use" in errors


async def test_a_changed_file_is_noticed(tmp_path: Path) -> None:
    one = Certificate(*certificate(tmp_path))
    following = asyncio.create_task(one.follow(0.01))
    before = one._current
    await asyncio.sleep(0.05)
    assert one._current is before
    certificate(tmp_path, "b")
    await eventually(lambda: one._current is not before)
    following.cancel()


@pytest.mark.parametrize("error", [FileNotFoundError, PermissionError])
async def test_a_file_that_vanishes_while_it_is_looked_at_does_not_end_the_looking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[OSError]
) -> None:
    one = Certificate(*certificate(tmp_path))
    stat, failing = Path.stat, iter([True] * 4)

    def stat_or_not(path: Path, **more: bool) -> os.stat_result:
        if next(failing, False):
            raise error
        return stat(path, **more)

    monkeypatch.setattr(Path, "exists", lambda _path: True)
    monkeypatch.setattr(Path, "stat", stat_or_not)
    following = asyncio.create_task(one.follow(0.01))
    before = one._current
    await eventually(lambda: one._current is not before)
    following.cancel()


def test_a_certificate_that_is_none_is_named(tmp_path: Path) -> None:
    chain, key = certificate(tmp_path)
    chain.write_text("nothing")
    with pytest.raises(CertificateRefused, match=str(chain)):
        Certificate(chain, key)


def test_a_key_with_a_password_is_refused_without_asking(tmp_path: Path) -> None:
    chain, path = certificate(tmp_path)
    key = serialization.load_pem_private_key(path.read_bytes(), None)
    forms = serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"x")
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, *forms))
    with pytest.raises(CertificateRefused):
        Certificate(chain, path)


# how many


def test_there_are_as_many_as_the_open_files_allow() -> None:
    script = (
        "import resource, sys; from pulumi_infercrane.router.serving.front import most_connections;"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (300, 1256)); print(most_connections(None), most_connections(9))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["500", "9"]
    assert most_connections(7) == 7
