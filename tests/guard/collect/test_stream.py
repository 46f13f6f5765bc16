"""One streamed answer is timed from its first generated text and classified by what really ended it."""

import json

import pytest

from pulumi_infercrane.guard.collect import stream
from pulumi_infercrane.guard.collect.stream import Answer, Chat, Patience
from tests.guard.collect.scripted import CUT, DONE, ROLE, StartScripted, Step, delta, event, finish, good, usage


@pytest.fixture
def ask(scripted: StartScripted):
    async def ask(*steps: Step, patience: Patience | None = None) -> Answer:
        server = await scripted(script=lambda number, body: steps)
        async with stream.open_session() as session:
            return await stream.ask(session, server.url, Chat("chat", stream.prompt("hello", 8)), patience)

    return ask


# --- times and tokens -------------------------------------------------------------------------------------------


async def test_first_token_is_the_first_generated_text(ask) -> None:
    answer = await ask(ROLE, 0.05, delta(content=""), 0.05, delta(content="a"), 0.1, delta(content="b"), finish())
    assert 0.1 <= answer.ttft_s < 0.2
    assert answer.e2e_s >= answer.ttft_s + 0.1


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
async def test_reasoning_is_generated_text_but_no_answer(ask, field: str) -> None:
    answer = await ask(ROLE, delta(**{field: "hm"}), 0.1, delta(content="a"), finish())
    assert answer.ttft_s < 0.1
    assert answer.text == "a"


async def test_time_per_token_leaves_out_the_first(ask) -> None:
    answer = await ask(0.1, delta(content="a"), 0.1, delta(content="b"), 0.1, delta(content="c"), finish(), usage())
    assert answer.tpot_s == pytest.approx((answer.e2e_s - answer.ttft_s) / 2)
    assert answer.tpot_s < answer.ttft_s + 0.05


async def test_end_is_the_finish_not_the_close_of_the_connection(ask) -> None:
    answer = await ask(delta(content="a"), finish(), 0.2, usage(), DONE)
    assert answer.e2e_s < 0.1


async def test_tokens_are_those_the_server_counted(ask) -> None:
    answer = await ask(delta(content="a b"), finish(), usage(prompt=30, completion=7, cached=20))
    assert (answer.in_tokens, answer.cached_tokens, answer.out_tokens) == (30, 20, 7)
    assert answer.token_source == "usage"


async def test_without_usage_events_are_counted(ask) -> None:
    answer = await ask(ROLE, delta(content="a"), delta(content="b"), finish())
    assert (answer.out_tokens, answer.token_source, answer.in_tokens) == (2, "events", None)


async def test_an_empty_answer_is_complete(ask) -> None:
    answer = await ask(ROLE, finish(), usage(completion=1))
    assert (answer.outcome, answer.text, answer.tpot_s) == ("complete", "", None)
    assert answer.ttft_s == answer.e2e_s


# --- outcomes ---------------------------------------------------------------------------------------------------


async def test_complete_with_the_finish_in_the_last_text_and_without_done(ask) -> None:
    last = event(choices=[{"delta": {"content": "b"}, "finish_reason": "length"}])
    answer = await ask(delta(content="a"), last)
    assert (answer.outcome, answer.text, answer.finish_reason) == ("complete", "ab", "length")


async def test_cut_after_the_finish_is_complete(ask) -> None:
    assert (await ask(delta(content="a"), finish(), CUT)).outcome == "complete"


@pytest.mark.parametrize("end", [(CUT,), (DONE,), (DONE, CUT), ()])
async def test_without_a_finish_the_answer_is_truncated(ask, end: tuple[Step, ...]) -> None:
    answer = await ask(ROLE, delta(content="a"), *end)
    assert (answer.outcome, answer.ttft_s) == ("truncated", None)


async def test_cut_before_any_event_is_truncated(ask) -> None:
    assert (await ask(CUT)).outcome == "truncated"


async def test_error_event_inside_200_is_a_failure_whatever_follows(ask) -> None:
    broken = event(error={"message": "private words", "type": "InternalServerError", "code": 500})
    answer = await ask(ROLE, delta(content="a"), broken, finish(), DONE)
    assert (answer.outcome, answer.error) == ("error_event", "InternalServerError")


async def test_error_event_with_a_plain_text_keeps_the_text_to_itself(ask) -> None:
    assert (await ask(event(error="private words"))).error == "error"


@pytest.mark.parametrize("reason", ["abort", "error"])
async def test_given_up_by_the_server_is_aborted(ask, reason: str) -> None:
    assert (await ask(delta(content="a"), finish(reason), DONE)).outcome == "aborted"


async def test_an_unknown_finish_is_complete(ask) -> None:
    assert (await ask(delta(content="a"), finish("repetition"))).outcome == "complete"


async def test_silence_and_comments_end_by_the_timer(ask) -> None:
    patience = Patience(first_s=0.2, gap_s=0.1)
    assert (await ask(5.0, patience=patience)).outcome == "idle_timeout"
    pings = [b": ping\n\n", 0.05] * 10
    assert (await ask(delta(content="a"), *pings, finish(), patience=patience)).outcome == "idle_timeout"


async def test_a_slow_but_steady_stream_is_no_silence(ask) -> None:
    steady = [step for _ in range(6) for step in (delta(content="a"), 0.1)]
    assert (await ask(*steady, finish(), patience=Patience(first_s=0.3, gap_s=0.3))).outcome == "complete"


async def test_unreadable_event(ask) -> None:
    assert (await ask(b"data: {half\n\n", finish())).outcome == "error_event"


async def test_http_status(scripted: StartScripted) -> None:
    server = await scripted(status=503)
    async with stream.open_session() as session:
        assert await stream.ask(session, server.url, Chat("chat", stream.prompt("x", 1))) == Answer(
            "http_error", error="503"
        )


async def test_nobody_listens(scripted: StartScripted) -> None:
    server = await scripted()
    await server.stop()
    async with stream.open_session() as session:
        assert (await stream.ask(session, server.url, Chat("chat", stream.prompt("x", 1)))).outcome == "connect_failed"


# --- bytes ------------------------------------------------------------------------------------------------------


async def test_events_split_anywhere_and_crlf(ask) -> None:
    whole = b"".join(step for step in good("a b") if isinstance(step, bytes)).replace(b"\n", b"\r\n")
    answer = await ask(*(whole[at : at + 7] for at in range(0, len(whole), 7)))
    assert (answer.outcome, answer.text) == ("complete", "a b ")


async def test_an_event_without_an_end_is_given_up(ask) -> None:
    answer = await ask(*[b"x" * 100_000] * 12)
    assert (answer.outcome, answer.error) == ("error_event", "unreadable_event")


@pytest.mark.parametrize("odd", ["[1]", "7", '{"choices": 3}', '{"choices": [1]}', '{"choices": [{"delta": null}]}'])
async def test_odd_events_are_passed_over(ask, odd: str) -> None:
    assert (await ask(f"data: {odd}\n\n".encode(), delta(content="a"), finish())).outcome == "complete"


async def test_only_fields_of_the_schema_are_sent(scripted: StartScripted) -> None:
    server = await scripted()
    async with stream.open_session() as session:
        await stream.ask(session, server.url, Chat("chat", stream.prompt("hello", 8)))
    expected = {"model", "messages", "max_tokens", "temperature", "stream", "stream_options"}
    assert set(server.asked[0]) == expected
    assert json.dumps(server.asked[0]["temperature"]) == "0"


# --- tool calls -------------------------------------------------------------------------------------------------


def call(index: int, **function: str) -> bytes:
    return delta(tool_calls=[{"index": index, "function": function}])


async def test_tool_calls_are_put_together_from_their_pieces(ask) -> None:
    pieces = call(0, name="find", arguments='{"a"'), call(1, name="stop"), call(0, arguments=": 1}")
    answer = await ask(ROLE, *pieces, finish("tool_calls"))
    assert answer.tool_calls == (("find", '{"a": 1}'), ("stop", ""))
    assert answer.text == ""


async def test_what_is_no_tool_call_is_none(ask) -> None:
    answer = await ask(delta(tool_calls="soon"), delta(tool_calls=[7]), delta(content="a"), finish())
    assert answer.tool_calls == ()
