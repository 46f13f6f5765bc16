"""What becomes of a stream on its way: probes T, and the silences of L7."""

import asyncio
from time import monotonic

from tests.router.client import Answer
from tests.router.probes import Probe, Stage
from tests.router.upstream import DONE, LAST_CHUNK, STREAM_HEAD, Call, Script, chunk, delta, event, whole

SILENCE_S = 2.0
"""The timers every peer that has such is started with."""
PATIENCE_S = 6.0


async def asked(stage: Stage, script: Script, *, stream: bool = True) -> Answer:
    stage.plays(script)
    async with await stage.client() as client:
        return await client.ask(stage.chat(stream))


def sending(*pieces: bytes, close: bool = False, reset: bool = False, pause_s: float = 0.0) -> Script:
    async def send(call: Call) -> None:
        for piece in pieces:
            await call.send(piece)
            if pause_s:
                await asyncio.sleep(pause_s)
        if reset:
            await asyncio.sleep(0.05)
            call.reset()
        elif close:
            call.writer.close()

    return send


def unchanged(answer: Answer, body: bytes) -> str:
    """Whether the client got exactly this, to its end."""
    if answer.status != 200:
        return f"status {answer.status}"
    if not answer.whole:
        return "cut"
    return "" if answer.body == body else "other bytes"


def visibly_cut(stage: Stage, answer: Answer, sent: bytes) -> str:
    """Whether the client got what was sent, then a broken connection, and nobody was asked twice."""
    if stage.upstream.attempts > 1:
        return f"sent {stage.upstream.attempts} times"
    if answer.status != 200:
        return f"status {answer.status}"
    if answer.whole:
        return "looks complete" + ("" if answer.body == sent else ", with other bytes")
    return "" if answer.body == sent else "other bytes"


async def dies(stage: Stage) -> str:
    events = [delta(text) for text in "abc"]
    answer = await asked(stage, sending(STREAM_HEAD, *map(chunk, events), close=True, pause_s=0.02))
    return visibly_cut(stage, answer, b"".join(events))


async def is_reset(stage: Stage) -> str:
    return visibly_cut(stage, await asked(stage, sending(STREAM_HEAD, chunk(delta()), reset=True)), delta())


async def whole_answer_is_cut(stage: Stage) -> str:
    answer = await asked(stage, sending(whole({"choices": []})[:-5], close=True), stream=False)
    if stage.upstream.attempts > 1:
        return f"sent {stage.upstream.attempts} times"
    return "looks complete" if answer.whole and answer.status == 200 else ""


async def ends_without_finish(stage: Stage) -> str:
    return unchanged(await asked(stage, sending(STREAM_HEAD, chunk(delta()), LAST_CHUNK)), delta())


async def says_error(stage: Stage) -> str:
    error = event({"error": {"message": "out of memory", "type": "x", "code": 500}})
    script = sending(STREAM_HEAD, chunk(delta()), chunk(error), chunk(DONE), LAST_CHUNK, pause_s=0.02)
    return unchanged(await asked(stage, script), delta() + error + DONE)


async def closes_before_it_answers(stage: Stage) -> str:
    answer = await asked(stage, sending(close=True), stream=False)
    return _one_attempt(stage) or ("" if answer.status >= 500 else f"status {answer.status}")


async def answers_status(stage: Stage) -> str:
    for status in ("429 Too Many Requests", "500 Internal Server Error", "503 Service Unavailable"):
        stage.upstream.calls.clear()
        sent = whole({"error": {"message": "busy", "code": 1}}, status, b"Retry-After: 7\r\n")
        answer = await asked(stage, sending(sent), stream=False)
        if fault := _one_attempt(stage):
            return f"{status[:3]}: {fault}"
        if answer.status != int(status[:3]) or answer.header("retry-after") != "7":
            return f"{status[:3]} becomes {answer.status}, Retry-After {answer.header('retry-after')}"
        if answer.body != sent.partition(b"\r\n\r\n")[2]:
            return f"{status[:3]}: other bytes"
    return ""


def _one_attempt(stage: Stage) -> str:
    return f"sent {stage.upstream.attempts} times" if stage.upstream.attempts != 1 else ""


async def comes_byte_by_byte(stage: Stage) -> str:
    body = delta("日本 é 😀") + delta(finish="stop") + DONE
    pieces = [chunk(body[at : at + 1]) for at in range(len(body))]
    return unchanged(await asked(stage, sending(STREAM_HEAD, *pieces, LAST_CHUNK, pause_s=0.0005)), body)


async def is_split_anywhere(stage: Stage) -> str:
    """Framing and events cut at other places than each other."""
    body = delta("日本 é 😀") + delta(finish="stop") + DONE
    wire = STREAM_HEAD + chunk(body[:50]) + chunk(body[50:]) + LAST_CHUNK
    pieces = [wire[at : at + 7] for at in range(0, len(wire), 7)]
    return unchanged(await asked(stage, sending(*pieces, pause_s=0.001)), body)


async def has_other_line_ends(stage: Stage) -> str:
    body = b": comment\r\n\r\n" + (delta("a") + delta(finish="stop")).replace(b"\n", b"\r\n") + b"data:[DONE]\r\r"
    return unchanged(await asked(stage, sending(STREAM_HEAD, chunk(body), LAST_CHUNK)), body)


async def is_long(stage: Stage) -> str:
    events = [delta(f"{number} " + "x" * 8000) for number in range(500)] + [delta(finish="stop"), DONE]
    stage.plays(sending(STREAM_HEAD, *map(chunk, events), LAST_CHUNK))
    async with await stage.client() as client:
        await client.send(stage.chat())
        client.writer.transport.pause_reading()
        await asyncio.sleep(0.5)
        client.writer.transport.resume_reading()
        return unchanged(await client.answer(), b"".join(events))


async def comes_at_once(stage: Stage) -> str:
    go_on = asyncio.Event()

    async def slowly(call: Call) -> None:
        await call.stream(delta("first"))
        await go_on.wait()
        await call.end_stream()

    stage.plays(slowly)
    async with await stage.client() as client:
        began = monotonic()
        await client.send(stage.chat())
        try:
            async with asyncio.timeout(PATIENCE_S):
                await client.reader.readuntil(b"first")
        except TimeoutError:
            return f"held back for {PATIENCE_S:.0f} s and more"
        finally:
            go_on.set()
        took = monotonic() - began
        return "" if took < 0.5 else f"held back for {took:.1f} s"


async def falls_silent(stage: Stage, *beat: bytes) -> str:
    async def silent(call: Call) -> None:
        await call.stream(delta())
        while beat:
            await asyncio.sleep(0.2)
            await call.send(*beat)
        await call.until_told()

    stage.plays(silent)
    async with await stage.client() as client:
        began = monotonic()
        await client.send(stage.chat())
        try:
            async with asyncio.timeout(PATIENCE_S):
                answer = await client.answer()
        except TimeoutError:
            return f"still open after {PATIENCE_S:.0f} s"
        if monotonic() - began < SILENCE_S / 2:
            return "ended too soon"
        return "looks complete" if answer.whole else ""


async def only_comments(stage: Stage) -> str:
    return await falls_silent(stage, chunk(b": ping\n\n"))


PROBES = (
    Probe("T1", "A stream dies: the client sees a cut, nothing is added", dies),
    Probe("T5", "A stream is reset after its first event: a cut, and one attempt", is_reset),
    Probe("T5", "An answer without a stream is cut: no 200 that looks complete, and one attempt", whole_answer_is_cut),
    Probe("T2", "A stream ends without a finish: no byte changes", ends_without_finish),
    Probe("T3", "An error event in a 200: no byte changes", says_error),
    Probe("T6", "The upstream closes before it answers: 5xx, and one attempt", closes_before_it_answers),
    Probe("T7", "429, 500, 503 with Retry-After: no byte changes, and one attempt", answers_status),
    Probe("T9", "A stream in chunks of one byte: no byte changes", comes_byte_by_byte),
    Probe("T9", "Events, characters and chunks split over segments: no byte changes", is_split_anywhere),
    Probe("T9", "CRLF, CR, comments, no blank behind the colon: no byte changes", has_other_line_ends),
    Probe("T10", "4 MB of stream for a slow reader: every byte", is_long),
    Probe("T10", "An event arrives when it is sent", comes_at_once),
    Probe("L7", "A stream falls silent: it is ended, visibly", falls_silent),
    Probe("L7", "Comments are no sign of life: it is ended, visibly", only_comments),
)
