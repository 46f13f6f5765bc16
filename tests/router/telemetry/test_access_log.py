"""What the access log says of every kind of request, and what it never says."""

import asyncio
import errno
import json
import os
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from pulumi_infercrane.router.clients.keys import KeyLimits
from pulumi_infercrane.router.errors import AccessLogRefused
from pulumi_infercrane.router.telemetry.access_log import AccessLog
from pulumi_infercrane.router.telemetry.metrics import render
from tests.router.client import Client, chat, request
from tests.router.conftest import R1, RouterProcess, Running, StartRouter, declared, eventually, revision
from tests.router.upstream import ANSWER, Call, Script, Upstream, delta, event, whole

USAGE = {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}

Start = Callable[..., RouterProcess]
Logged = Callable[[int], Awaitable[list[dict[str, Any]]]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "access.jsonl"


@pytest.fixture
async def router(start_router: StartRouter, upstream: Upstream, path: Path) -> Running:
    running = await start_router(access_log=str(path))
    await running.put({R1: revision("r1", upstream.url)})
    await running.flip(R1)
    return running


@pytest.fixture
def logged(path: Path) -> Logged:
    """The lines, once there are so many."""

    async def lines(count: int) -> list[dict[str, Any]]:
        await eventually(lambda: path.exists() and path.read_bytes().count(b"\n") == count)
        return [json.loads(line) for line in path.read_text().splitlines()]

    return lines


async def test_a_stream(router: Running, upstream: Upstream, logged: Logged) -> None:
    async def answer(call: Call) -> None:
        await call.stream(delta("secret text"), event({"choices": [], "usage": USAGE}))
        await call.end_stream()

    upstream.script = answer
    async with await router.client() as client:
        await client.ask(chat(True, "X-Request-Id: mine-1", prompt="secret prompt"))
    (line,) = await logged(1)
    assert 0 < line.pop("ttft_s") <= line.pop("seconds") < 5
    assert line.pop("time").endswith("Z")
    assert line == {
        "request_id": "mine-1",
        "method": "POST",
        "path": "/v1/chat/completions",
        "model": "chat",
        "service": "chat",
        "revision": R1,
        "upstream": "r1-0",
        "status": 200,
        "outcome": "complete",
        "attempt": 1,
        "prompt_tokens": 7,
        "completion_tokens": 2,
        "token_source": "usage",
        "peer": "127.0.0.1",
    }


async def test_a_stream_without_usage_has_its_events_counted(
    router: Running, upstream: Upstream, logged: Logged
) -> None:
    async def answer(call: Call) -> None:
        await call.stream(*[delta()] * 3)
        await call.end_stream()

    upstream.script = answer
    async with await router.client() as client:
        await client.ask(chat())
    (line,) = await logged(1)
    assert (line["completion_tokens"], line["token_source"]) == (4, "events")


async def test_a_client_that_leaves(router: Running, upstream: Upstream, logged: Logged) -> None:
    async def wait(call: Call) -> None:
        await call.stream(delta())
        await call.until_told()

    upstream.script = wait
    async with await router.client() as client:
        await client.send(chat())
        await client.head()
    (line,) = await logged(1)
    assert (line["outcome"], line["status"]) == ("client_cancelled", 200)


async def test_an_upstream_that_is_not_there(router: Running, logged: Logged) -> None:
    await router.put({R1: revision("r1", "http://127.0.0.1:1")})
    async with await router.client() as client:
        await client.ask(chat())
    (line,) = await logged(1)
    assert (line["outcome"], line["status"], line["reason"]) == ("connect_failed", 503, "connect_failed")


@pytest.mark.parametrize(
    ("asked", "status", "reason", "target"),
    [
        (chat(model="other"), 404, "model_not_found", "/v1/chat/completions"),
        (request(b"{}", path="/metrics"), 404, "unsupported_endpoint", "/metrics"),
        (request(b"{}", path="/" + 2000 * "x"), 404, "unsupported_endpoint", "/" + 511 * "x"),
        (b"GARBAGE\r\n\r\n", 400, "bad_request", None),
    ],
)
async def test_a_request_that_is_refused(
    router: Running, logged: Logged, asked: bytes, status: int, reason: str, target: str | None
) -> None:
    async with await router.client() as client:
        await client.ask(asked)
    (line,) = await logged(1)
    assert (line["status"], line["reason"], line.get("path")) == (status, reason, target)
    assert "revision" not in line


async def test_the_list_of_models(router: Running, logged: Logged) -> None:
    async with await router.client() as client:
        await client.ask(b"GET /v1/models HTTP/1.1\r\nHost: router\r\n\r\n")
    (line,) = await logged(1)
    assert (line["method"], line["path"], line["status"]) == ("GET", "/v1/models", 200)


async def test_the_name_of_the_key_and_never_the_key(router: Running, logged: Logged, path: Path) -> None:
    secret = await router.key("batch", limits=KeyLimits(requests_per_minute=1))
    async with await router.client() as client:
        for _ in range(2):
            await client.ask(chat(False, f"Authorization: Bearer {secret}"))
    first, second = await logged(2)
    assert (first["key"], first["status"]) == ("batch", 200)
    assert (second["key"], second["status"], second["outcome"]) == ("batch", 429, "limited")
    assert secret not in path.read_text()


async def test_time_in_the_queue_is_part_of_the_whole(router: Running, upstream: Upstream, logged: Logged) -> None:
    generation = str(router.parts.live.table("chat").generation)
    limited = router.read({R1: revision("r1", upstream.url)}, limits={"max_inflight": 1, "max_queue": 1})
    await router.parts.live.put("chat", limited, generation)
    async with await router.client() as one, await router.client() as two:
        upstream.script = _slowly
        await one.send(chat(False))
        await eventually(lambda: upstream.attempts == 1)
        await two.send(chat(False))
        await one.answer()
        await two.answer()
    first, second = await logged(2)
    assert "queued_s" not in first
    assert 0.02 < second["queued_s"] < second["seconds"]


async def _slowly(call: Call) -> None:
    await asyncio.sleep(0.05)
    await call.send(whole(ANSWER))


PROMPT, WORDS = "planted-prompt", "planted-answer"


async def _answers(call: Call) -> None:
    await call.send(whole({**ANSWER, "text": WORDS}))


async def _fails(call: Call) -> None:
    await call.send(whole({"error": {"message": WORDS}}, "500 Internal Server Error"))


async def _breaks_off(call: Call) -> None:
    await call.stream(delta(WORDS), event({"error": {"message": WORDS}}))
    call.writer.close()


async def _speaks_another_protocol(call: Call) -> None:
    await call.send(f"{WORDS}\r\n\r\n".encode())


@pytest.mark.parametrize("script", [_answers, _fails, _breaks_off, _speaks_another_protocol, None])
async def test_K5_neither_prompt_nor_answer_is_in_logs_errors_or_metrics(
    router: Running,
    upstream: Upstream,
    logged: Logged,
    path: Path,
    script: Script | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("DEBUG")
    if script is None:
        await upstream.stop()
    else:
        upstream.script = script
    asked = [chat(prompt=PROMPT), chat(prompt=PROMPT, model="other"), chat(prompt=PROMPT)[:-1] + b"x"]
    answers = []
    for data in asked:
        async with await router.client() as client:
            answers.append(await client.ask(data))
    await logged(len(asked))
    relay = router.parts.relay
    own = b"".join(one.body for one in answers if one.header("x-infercrane-error")).decode()
    text = path.read_text() + caplog.text + own + render(relay.routes, relay.traffic)
    assert [word for word in (PROMPT, WORDS) if word in text] == []


async def test_a_file_that_was_rotated_away_is_made_anew(router: Running, logged: Logged, path: Path) -> None:
    async with await router.client() as client:
        await client.ask(chat(False))
        await logged(1)
        path.rename(path.with_suffix(".1"))
        await client.ask(chat(False))
        await logged(1)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.with_suffix(".1").read_bytes().count(b"\n") == 1


def test_a_line_that_a_full_disk_broke_spoils_no_other(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written of a batch counted as all of it, and the next line went on where it broke off."""
    room, write = 12, os.write

    def full(descriptor: int, data: bytes) -> int:
        nonlocal room
        if not room:
            raise OSError(errno.ENOSPC, "No space left on device")
        room -= (written := write(descriptor, data[:room]))
        return written

    log = AccessLog(str(path))
    log.open()
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left"):
        log.tell(b'{"n":1}\n{"n":2}\n')
    room = 100
    log.tell(b'{"n":3}\n')
    log.tell(b'{"n":4}\n')
    log.close()
    assert path.read_bytes() == b'{"n":1}\n{"n"\n{"n":3}\n{"n":4}\n'


def test_a_file_that_cannot_be_written_is_said_at_the_start(start_process: Start, tmp_path: Path) -> None:
    process = start_process(options=("--access-log", str(tmp_path / "none" / "log")))
    _, errors = process.process.communicate(timeout=15)
    assert errors.endswith("none/log cannot be written: No such file or directory\n")
    with pytest.raises(AccessLogRefused, match="Is a directory"):
        AccessLog(str(tmp_path)).open()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(AccessLogRefused, match="No such device"):
        AccessLog(str(tmp_path / "pipe")).open()


async def test_without_an_access_log_nothing_is_kept(start_router: StartRouter) -> None:
    running = await start_router()
    assert running.parts.relay.telemetry is None
    assert not running.parts.relay.traffic.told


async def test_standard_output_of_the_process(start_process: Start, upstream: Upstream) -> None:
    process = start_process(options=("--access-log", "-")).wait_ready()
    async with process.client() as control:
        await control.put("chat", declared({R1: revision("r1", upstream.url)}), if_match=None)
    async with await Client.connect(process.port) as client:
        await client.ask(chat(False))
    process.terminate()
    output, errors = process.process.communicate(timeout=15)
    assert json.loads(output)["reason"] == "no_route", errors
