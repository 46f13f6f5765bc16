"""Replay evidence: both sides answer the same recorded requests; what is kept is how the answers agree."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pulumi_infercrane.guard.collect import CollectError, find
from pulumi_infercrane.router.recording.policy import RecordingPolicy
from pulumi_infercrane.router.recording.recorder import Recorder
from tests.guard.collect.scripted import CUT, ScriptedServer, StartScripted, delta, finish, good, target_of, usage

JSON_WANTED = {"type": "json_schema", "json_schema": {"schema": {"required": ["city"]}}}
Record = Callable[..., Path]


def line(number: int, **body: Any) -> dict[str, Any]:
    asked = {"model": "prod", "messages": [{"role": "user", "content": f"question {number}"}], **body}
    return {"schema": "infercrane.recording/v1", "id": f"q{number}", "path": "/v1/chat/completions", "body": asked}


@pytest.fixture
def record(tmp_path: Path) -> Record:
    def record(*lines: dict[str, Any], name: str = "recording.jsonl") -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(json.dumps(one) + "\n" for one in lines))
        return path

    return record


async def replay(
    recording: Path, candidate: ScriptedServer, baseline: ScriptedServer, **given: Any
) -> dict[str, list[dict[str, Any]]]:
    """The lines written, by role, the header first."""
    collector = find("replay")
    plan = collector.plan({"recording": recording, **given})
    sides = target_of("r2", candidate.url), target_of("r1", baseline.url)
    show = given.get("progress", lambda label, done, total: None)
    paths = await collector.collect(*sides, out=recording.parent / "out", plan=plan, progress=show)
    return {envelope["role"]: lines_of(path, envelope) for path in paths if (envelope := json.loads(path.read_bytes()))}


def lines_of(path: Path, envelope: dict[str, Any]) -> list[dict[str, Any]]:
    raw = path.with_name(envelope["files"][0]["path"]).read_text()
    return [json.loads(one) for one in raw.splitlines()]


def says(*steps: Any) -> Callable[[int, dict[str, Any]], list[Any]]:
    return lambda number, body: [*steps]


async def test_both_sides_answer_the_same_requests_as_recorded(record: Record, scripted: StartScripted) -> None:
    candidate, baseline = await scripted(), await scripted()
    path = record(line(1, temperature=0.7, top_p=0.9, user="jane", n=3), line(2, max_tokens=5), line(3, max_tokens=900))
    await replay(path, candidate, baseline, max_tokens=64)
    assert sorted(candidate.prompts) == sorted(baseline.prompts) == ["question 1", "question 2", "question 3"]
    first, second, third = sorted(
        (body for body in candidate.asked if body["messages"][0]["content"] != "Hello"),
        key=lambda body: body["messages"][0]["content"],
    )
    assert (first["model"], first["temperature"], first["top_p"], first["max_tokens"]) == ("chat", 0.7, 0.9, 64)
    assert first.keys().isdisjoint({"user", "n"})
    assert (second["max_tokens"], third["max_tokens"]) == (5, 64)


async def test_lines_are_paired_by_id_under_one_workload(record: Record, scripted: StartScripted) -> None:
    found = await replay(record(line(1), line(2)), await scripted(), await scripted())
    headers = [lines[0] for lines in found.values()]
    assert {header["schema"] for header in headers} == {"infercrane.replay/v1"}
    assert len({header["workload_digest"] for header in headers}) == 1
    assert [one["id"] for one in found["candidate"][1:]] == [one["id"] for one in found["baseline"][1:]] == ["q1", "q2"]
    assert (headers[0]["planned"], headers[0]["greedy"], headers[0]["similarity"]) == (2, False, "token_ratio")


async def test_agreement_of_two_answers(record: Record, scripted: StartScripted) -> None:
    candidate, baseline = await scripted(script=says(*good("a b c d"))), await scripted(script=says(*good("a b x d")))
    found = await replay(record(line(1)), candidate, baseline)
    (one,), (other,) = found["candidate"][1:], found["baseline"][1:]
    assert one["text_sha256"] != other["text_sha256"]
    assert one["similarity"] == 0.75
    assert "similarity" not in other
    assert (one["out_tokens"], one["finish_reason"], one["refused"]) == (4, "stop", False)
    assert "tool_calls" not in one and "structured" not in one


async def test_a_failed_answer_is_no_answer_to_compare(record: Record, scripted: StartScripted) -> None:
    found = await replay(record(line(1)), await scripted(), await scripted(script=says(CUT)))
    assert "similarity" not in found["candidate"][1]
    assert found["baseline"][1] == {"id": "q1", "outcome": "truncated", "error": "ClientPayloadError"}


async def test_structure_is_checked_where_it_was_asked_for(record: Record, scripted: StartScripted) -> None:
    path = record(line(1, response_format=JSON_WANTED))
    right, wrong = says(delta(content='{"city": "Oslo"}'), finish()), says(delta(content='{"town": "Oslo"}'), finish())
    found = await replay(path, await scripted(script=right), await scripted(script=wrong))
    assert (found["candidate"][1]["structured"], found["baseline"][1]["structured"]) == (True, False)


async def test_tool_calls_are_compared_whatever_their_spelling(record: Record, scripted: StartScripted) -> None:
    def call(arguments: str) -> Any:
        call = {"index": 0, "function": {"name": "find", "arguments": arguments}}
        return says(delta(tool_calls=[call]), finish("tool_calls"), usage())

    spelled, respelled = call('{"a": 1, "b": [2]}'), call('{"b":[2],"a":1}')
    found = await replay(record(line(1)), await scripted(script=spelled), await scripted(script=respelled))
    assert found["candidate"][1]["tool_calls"] == found["baseline"][1]["tool_calls"]
    found = await replay(record(line(1)), await scripted(script=spelled), await scripted(script=call('{"a": 2}')))
    assert found["candidate"][1]["tool_calls"] != found["baseline"][1]["tool_calls"]


async def test_greedy_is_said_when_every_request_was(record: Record, scripted: StartScripted) -> None:
    found = await replay(record(line(1, temperature=0), line(2)), await scripted(), await scripted())
    assert found["candidate"][0]["greedy"] is False
    server = await scripted()
    found = await replay(record(line(1, temperature=0), line(2, temperature=1)), server, await scripted(), greedy=True)
    assert found["candidate"][0]["greedy"] is True
    assert {body["temperature"] for body in server.asked} == {0}


async def test_no_text_is_kept(record: Record, scripted: StartScripted) -> None:
    path = record(line(1))
    await replay(path, await scripted(script=says(*good("confidential words"))), await scripted())
    written = "".join(file.read_text() for file in (path.parent / "out").rglob("*") if file.is_file())
    assert "confidential" not in written
    assert "question" not in written


# --- recordings -------------------------------------------------------------------------------------------------


async def test_a_folder_is_read_in_the_order_of_its_names(record: Record, scripted: StartScripted) -> None:
    record(line(2), name="rec/b.jsonl")
    folder = record(line(1), line(9), name="rec/a.jsonl").parent
    found = await replay(folder, await scripted(), await scripted(), requests=2)
    assert [one["id"] for one in found["candidate"][1:]] == ["q1", "q9"]


async def test_an_id_that_comes_again_and_a_cut_last_line_are_left_out(record: Record, scripted: StartScripted) -> None:
    path = record(line(1), line(1), line(2))
    path.write_text(path.read_text() + '{"schema":"infercrane.recor')
    found = await replay(path, await scripted(), await scripted())
    assert [one["id"] for one in found["candidate"][1:]] == ["q1", "q2"]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "the recording is empty"),
        ([line(1) | {"body": None}], r"recording\.jsonl:1: only metadata was recorded, .*`what: content`"),
        ([line(1), line(2) | {"schema": "x"}], r"recording\.jsonl:2: schema is not infercrane\.recording/v1"),
        ([line(1) | {"path": "/v1/embeddings"}], "only requests to /v1/chat/completions can be replayed"),
        ([line(1) | {"body": {"messages": []}}], "body is not a chat request"),
        ([line(1) | {"id": ""}], "id is missing"),
    ],
)
async def test_what_cannot_be_replayed_is_said(record: Record, lines: list[Any], message: str) -> None:
    with pytest.raises(CollectError, match=message):
        await replay(record(*lines), ScriptedServer(), ScriptedServer())


async def test_no_recording_and_no_such_similarity(tmp_path: Path) -> None:
    with pytest.raises(CollectError, match="the recording cannot be read"):
        await replay(tmp_path / "none", ScriptedServer(), ScriptedServer())
    with pytest.raises(CollectError, match="there is no similarity 'vibes', only token_ratio"):
        await replay(tmp_path / "none", ScriptedServer(), ScriptedServer(), similarity="vibes")


async def test_what_the_router_records_can_be_replayed(tmp_path: Path, scripted: StartScripted) -> None:
    recorder = Recorder(RecordingPolicy(tmp_path / "rec", 1.0, "content", ("digits",)), Counter())
    recorder.start()
    for number in range(3):
        recorder.offer(b"request-%d" % number, b"/v1/chat/completions", json.dumps(line(number)["body"]).encode())
    recorder.close()
    candidate = await scripted()
    found = await replay(tmp_path / "rec", candidate, await scripted())
    assert found["candidate"][0]["planned"] == 3
    assert candidate.prompts == ["question 1"] * 3


async def test_what_it_records_by_default_cannot(tmp_path: Path) -> None:
    recorder = Recorder(RecordingPolicy(tmp_path / "rec", 1.0), Counter())
    recorder.start()
    recorder.offer(b"request", b"/v1/chat/completions", json.dumps(line(1)["body"]).encode())
    recorder.close()
    with pytest.raises(CollectError, match=r"only metadata was recorded, .* record with `what: content`"):
        await replay(tmp_path / "rec", ScriptedServer(), ScriptedServer())


async def test_an_interrupted_replay_keeps_how_alike_answers_were(record: Record, scripted: StartScripted) -> None:
    path = record(*(line(number) for number in range(8)))
    candidate, baseline = await scripted(script=says(*good("a b c d"))), await scripted(script=says(*good("a b x d")))
    running: list[asyncio.Task[Any]] = []
    stop = lambda label, done, total: running[0].cancel() if done == 6 else None  # noqa: E731
    running.append(asyncio.create_task(replay(path, candidate, baseline, concurrency=1, progress=stop)))
    with pytest.raises(asyncio.CancelledError):
        await running[0]
    assert "a b c d" not in (path.parent / "out" / "r2" / "replay.partial.jsonl").read_text()
    asked = len(candidate.prompts)
    found = await replay(path, candidate, baseline, concurrency=1)
    assert len(candidate.prompts) == asked + 6
    assert [one["similarity"] for one in found["candidate"][1:]] == [0.75] * 8
