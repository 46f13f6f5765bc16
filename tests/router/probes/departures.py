"""Clients that leave, and clients that read slowly: probes C."""

import asyncio
from time import monotonic

from tests.router.client import Client, request
from tests.router.probes import Probe, Stage
from tests.router.upstream import ANSWER, STREAM_HEAD, Call, chunk, delta, whole

TOLD_S, PATIENCE_S = 0.5, 1.5
"""The second is shorter than the timers that peers are started with, which are no sign that they noticed."""
HELD_BACK = 32 * 1024 * 1024
"""Bytes: more than the kernel and any proxy's buffers take for one client."""


async def told(stage: Stage, sent: bytes, *, stream: bool, goes_on: bool = False) -> str:
    """Whether the upstream is told that the client has left, and when."""

    async def go_on(call: Call) -> None:
        while True:
            await call.send(chunk(delta()))
            await asyncio.sleep(0.05)

    async def generate(call: Call) -> None:
        if sent:
            await call.send(sent)
        events = asyncio.create_task(go_on(call)) if goes_on else None
        await call.until_told()
        if events is not None:
            events.cancel()
            await asyncio.wait({events})

    stage.plays(generate)
    client = await stage.client()
    await client.send(stage.chat(stream))
    call = await stage.upstream.call()
    await asyncio.sleep(0.1)
    left_at = monotonic()
    client.hang_up()
    while call.told_at is None and monotonic() - left_at < PATIENCE_S:
        await asyncio.sleep(0.005)
    if call.told_at is None:
        return "upstream not told"
    took = call.told_at - left_at
    return "" if took < TOLD_S else f"told after {took:.1f} s"


async def leaves_mid_stream(stage: Stage) -> str:
    return await told(stage, STREAM_HEAD, stream=True, goes_on=True)


async def leaves_before_the_first_token(stage: Stage) -> str:
    return await told(stage, STREAM_HEAD, stream=True)


async def leaves_before_the_head(stage: Stage) -> str:
    return await told(stage, b"", stream=True)


async def leaves_a_whole_answer(stage: Stage) -> str:
    return await told(stage, b"", stream=False)


async def leaves_its_upload(stage: Stage) -> str:
    client = await stage.client()
    body = b'{"model":"chat","messages":[],"x":"%b"}' % (b"x" * 1_000_000)
    await client.send(request(body, *stage.headers)[:-500_000])
    await asyncio.sleep(0.1)
    client.hang_up()
    await asyncio.sleep(0.3)
    return f"{stage.upstream.attempts} requests reach the upstream" if stage.upstream.attempts else ""


async def reads_nothing(stage: Stage) -> str:
    sent = 0

    async def flood(call: Call) -> None:
        nonlocal sent
        await call.send(STREAM_HEAD)
        piece = chunk(delta("x" * 60_000))
        while True:
            await call.send(piece)
            sent += len(piece)

    stage.plays(flood)
    client = await stage.client()
    client.writer.transport.pause_reading()
    await client.send(stage.chat())
    await asyncio.sleep(1.5)
    client.hang_up()
    return f"takes {sent // 2**20} MiB in 1.5 s" if sent > HELD_BACK else ""


async def reads_late(stage: Stage) -> str:
    large = whole({**ANSWER, "padding": "x" * 3_000_000})

    async def answer_large(call: Call) -> None:
        await call.send(large)

    stage.plays(answer_large)
    for number in range(3):
        client: Client = await stage.client()
        for _ in range(2):
            await client.send(stage.chat(False))
            await asyncio.sleep(0.05)
            answer = await client.answer()
            if not answer.whole:
                return f"answer {number + 1} is cut"
            if answer.header("connection") == "close":
                break
        client.hang_up()
    return ""


PROBES = (
    Probe("C1", "A client leaves in mid-stream: the upstream is told", leaves_mid_stream),
    Probe("C2", "… before the first event: the upstream is told", leaves_before_the_first_token),
    Probe("C2", "… before the head of a stream: the upstream is told", leaves_before_the_head),
    Probe("C3", "… a request without a stream: the upstream is told", leaves_a_whole_answer),
    Probe("C4", "… in mid-upload: nothing is asked of the upstream", leaves_its_upload),
    Probe("C7", "A client that reads nothing: the upstream is held back", reads_nothing),
    Probe("C8", "A client that reads late: whole answers, and the connection goes on", reads_late),
)
