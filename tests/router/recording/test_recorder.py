"""The recorder takes complete chat requests, a fixed share of them, and never makes the data plane wait."""

import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pulumi_infercrane.router.control.client import Flip
from pulumi_infercrane.router.errors import RecordingRefused
from pulumi_infercrane.router.recording import recorder as module
from pulumi_infercrane.router.recording.policy import RecordingPolicy
from pulumi_infercrane.router.recording.recorder import Recorder
from tests.router.client import chat, request
from tests.router.conftest import R1, RouterProcess, Running, StartRouter, declared, revision
from tests.router.upstream import Upstream

CHAT = b"/v1/chat/completions"
BODY = b'{"model":"chat","messages":[{"role":"user","content":"hello"}]}'


@pytest.fixture
def policy(tmp_path: Path) -> Callable[..., RecordingPolicy]:
    return lambda sample=1.0, **more: RecordingPolicy(tmp_path / "rec", sample, **more)


def lines(tmp_path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for path in (tmp_path / "rec").glob("*") for line in path.read_text().splitlines()]


async def recording(start_router: StartRouter, upstream: Upstream, policy: RecordingPolicy) -> Running:
    router = await start_router(record=policy)
    await router.put({R1: revision("r1", upstream.url)})
    await router.flip(R1)
    return router


async def test_a_chat_request_is_recorded_without_its_head(
    tmp_path: Path, start_router: StartRouter, upstream: Upstream, policy: Any
) -> None:
    router = await recording(start_router, upstream, policy(what="content"))
    async with await router.client() as client:
        secret = "Authorization: Bearer sk-secret", "Cookie: c=secret", "X-Request-Id: jane-secret", "X-Note: secret"
        assert (await client.ask(chat(True, *secret, temperature=0))).whole
        assert (await client.ask(request(b'{"model":"chat","input":"x"}', path="/v1/embeddings"))).status == 200
        assert (await client.ask(chat(model="other"))).status == 404
        assert (await client.ask(request(b"{"))).status == 400
    router.parts.relay.recorder.close()
    (line,) = lines(tmp_path)
    assert line.keys() == {"schema", "id", "at", "path", "body"}
    assert line["body"] == {"model": "chat", "stream": True, "messages": [], "temperature": 0}
    assert "secret" not in json.dumps(line)
    assert router.parts.relay.traffic.recorded == {"written": 1, "dropped": 0, "failed": 0}


async def test_a_body_that_never_was_complete_is_not_recorded(
    tmp_path: Path, start_router: StartRouter, upstream: Upstream, policy: Any
) -> None:
    router = await recording(start_router, upstream, policy(what="content"))
    async with await router.client() as client:
        await client.send(chat()[:-5])
    router.parts.relay.recorder.close()
    assert lines(tmp_path) == []


async def test_metrics_count_what_became_of_them(start_router: StartRouter, upstream: Upstream, policy: Any) -> None:
    from pulumi_infercrane.router.telemetry.metrics import render

    router = await recording(start_router, upstream, policy())
    async with await router.client() as client:
        await client.ask(chat())
    router.parts.relay.recorder.close()
    shown = render(router.parts.live.routes, router.parts.relay.traffic).splitlines()
    assert 'infercrane_router_recorded_total{outcome="written"} 1' in shown
    assert 'infercrane_router_recorded_total{outcome="dropped"} 0' in shown


def test_by_default_there_is_metadata_only(tmp_path: Path, policy: Any) -> None:
    recorder = Recorder(policy(), Counter())
    recorder.start()
    recorder.offer(b"r1", CHAT, BODY)
    recorder.close()
    (line,) = lines(tmp_path)
    assert "body" not in line
    assert line["metadata"]["text_chars"] == 5


def test_the_sample_follows_from_the_id(tmp_path: Path, policy: Any) -> None:
    chosen: list[set[str]] = []
    for _ in range(2):
        recorder = Recorder(policy(0.3), Counter())
        recorder.start()
        for number in range(400):
            recorder.offer(b"request-%d" % number, CHAT, BODY)
        recorder.close()
        chosen.append({line["id"] for line in lines(tmp_path)})
    assert chosen[0] == chosen[1]
    assert 80 < len(chosen[0]) < 160


def test_sample_0_records_nothing(tmp_path: Path, policy: Any) -> None:
    recorder = Recorder(policy(0.0), Counter())
    recorder.start()
    recorder.offer(b"r1", CHAT, BODY)
    recorder.close()
    assert lines(tmp_path) == []


def test_what_the_thread_cannot_take_is_dropped_and_counted(policy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_PENDING", 10 * len(BODY))
    counts: Counter[str] = Counter()
    recorder = Recorder(policy(), counts)
    blocked = threading.Event()
    monkeypatch.setattr(recorder, "_contents", lambda body: blocked.wait(5) and {})
    recorder.start()
    for number in range(25):
        recorder.offer(b"%d" % number, CHAT, BODY)
    assert counts["dropped"] == 15
    blocked.set()
    recorder.close()
    assert counts["written"] == 10
    assert recorder._taken_in == recorder._worked_off


def test_a_large_request_is_dropped(policy: Any) -> None:
    counts: Counter[str] = Counter()
    Recorder(policy(), counts).offer(b"1", CHAT, b"x" * (module.MAX_BODY + 1))
    assert counts["dropped"] == 1


def test_a_disk_that_refuses_is_counted_and_tried_again(
    tmp_path: Path, policy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: Counter[str] = Counter()
    recorder = Recorder(policy(), counts)
    append = recorder._segments.append
    answers = iter([OSError(28, "No space left on device"), None])

    def refuse_once(line: bytes) -> None:
        if (error := next(answers)) is not None:
            raise error
        append(line)

    monkeypatch.setattr(recorder._segments, "append", refuse_once)
    recorder.start()
    recorder.offer(b"1", CHAT, BODY)
    recorder.offer(b"2", CHAT, BODY)
    recorder.close()
    assert (counts["failed"], counts["written"]) == (1, 1)


def test_a_folder_that_cannot_be_used_is_said_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RecordingRefused, match="cannot be used"):
        Recorder(RecordingPolicy(tmp_path / "file", 1.0), Counter()).start()


def test_without_a_policy_the_recorder_is_not_even_loaded() -> None:
    program = (
        "import sys; import pulumi_infercrane.router.serving.server, pulumi_infercrane.stacks.cli.router;"
        "sys.exit(any('router.recording' in name for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


async def test_the_process_records_what_its_policy_says(
    tmp_path: Path, start_process: Callable[..., RouterProcess], upstream: Upstream
) -> None:
    policy = "schema: infercrane.recording/v1\nfolder: rec\nsample: 1\nwhat: content\nredact: [digits]\n"
    (tmp_path / "record.yaml").write_text(policy)
    process = start_process(record="record.yaml").wait_ready()
    async with process.client() as control:
        await control.put("chat", declared({R1: revision("r1", upstream.url)}), if_match=None)
        await control.flip("chat", Flip("", R1, "decision-1"))
    from tests.router.client import Client

    async with await Client.connect(process.port) as client:
        assert (await client.ask(chat(messages=[{"role": "user", "content": "pin 1234"}]))).whole
    process.terminate()
    code, errors = await process.ended()
    assert code == 0, errors
    assert [line["body"]["messages"][0]["content"] for line in lines(tmp_path)] == ["pin 1111"]


async def test_a_wrong_policy_stops_the_start(tmp_path: Path, start_process: Callable[..., RouterProcess]) -> None:
    (tmp_path / "record.yaml").write_text("sample: 1\n")
    code, errors = await start_process(record="record.yaml").ended()
    assert code == 2
    assert "record.yaml: 'schema' is missing" in errors
