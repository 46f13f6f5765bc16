"""Requests and answers that two readers could frame in two ways, and what may not be passed on: probes F, L, R13."""

import asyncio
import gzip
import json
from collections.abc import Sequence

from tests.router.ambiguous import AMBIGUOUS
from tests.router.client import Answer, request
from tests.router.probes import Probe, Stage
from tests.router.probes.streams import asked, sending, unchanged
from tests.router.upstream import ANSWER, LAST_CHUNK, STREAM_HEAD, Call, answer, chunk, delta, whole

PATH = "/v1/chat/completions"
BOTH = ("length and chunked", "chunked and length")
LENGTHS = ("two lengths", "signed length", "hex length", "huge length")
CODINGS = ("gzip, chunked", "identity then chunked", "xchunked", "identity", "chunked twice")
CHUNKS = ("chunk size in hex", "chunk end")
LINES = ("blank before colon", "NUL in value", "bad name", "control byte in target")
HOSTS = ("no host", "two hosts")
"""Without what RFC 9112 lets a server repair: bare LF, folded lines, absolute form, equal lengths, chunks on 1.0."""
BURST = 60


def passed_on(names: Sequence[str]) -> "Probe":
    """Which of these requests reach the upstream."""

    async def ask(stage: Stage) -> str:
        found = [name for name in names if await _attempts(stage, name)]
        return "passed on: " + ", ".join(found) if found else ""

    subject = {LENGTHS: "lengths", CODINGS: "codings", CHUNKS: "chunks", LINES: "lines", HOSTS: "hosts"}[tuple(names)]
    return Probe("F1", f"Bad or ambiguous {subject}: refused", ask)


async def both_framings(stage: Stage) -> str:
    """A server may take it by its chunks, if it closes the connection behind it; ours refuses it."""
    found = {name: await _attempts(stage, name) for name in BOTH}
    if max(found.values()) > 1:
        return "passed on, and what is behind it"
    return "passed on" if any(found.values()) else ""


async def _attempts(stage: Stage, name: str) -> int:
    stage.reset()
    start, _, rest = AMBIGUOUS[name][0].partition(b"\n")
    own = "".join(f"{header}\r\n" for header in stage.headers).encode()
    async with await stage.client() as client:
        try:
            await client.send(start + b"\n" + own + rest + stage.chat(False))
            async with asyncio.timeout(0.4):
                await client.until_closed()
        except (TimeoutError, ConnectionError):
            pass
    await asyncio.sleep(0.02)
    return stage.upstream.attempts


def post(stage: Stage, *headers: str, body: bytes, version: str = "1.1") -> bytes:
    lines = (f"POST {PATH} HTTP/{version}", "Host: router", "Content-Type: application/json", *stage.headers, *headers)
    return "\r\n".join([*lines, "", ""]).encode() + body


BODY = b'{"model":"chat","messages":[{"role":"user","content":"hi"}]}'


async def ask_raw(stage: Stage, data: bytes) -> Answer:
    async with await stage.client() as client:
        return await client.ask(data)


async def trailers(stage: Stage) -> str:
    body = b"%x\r\n%b\r\n0\r\nX-Smuggled: 1\r\n\r\n" % (len(BODY), BODY)
    answer = await ask_raw(stage, post(stage, "Transfer-Encoding: chunked", "Trailer: X-Smuggled", body=body))
    if answer.status != 200:
        return f"status {answer.status}"
    return "trailer passed on" if b"x-smuggled: 1" in stage.upstream.calls[-1].head.lower() else ""


async def named_in_connection(stage: Stage) -> str:
    private = whole(ANSWER, headers=b"Connection: X-Private\r\nX-Private: 1\r\n")
    stage.plays(sending(private))
    named = stage.chat(False, "Connection: X-Secret", "X-Secret: 1", "TE: trailers")
    answer = await ask_raw(stage, named)
    lost = [name for name in ("x-secret", "te") if stage.upstream.calls[-1].header(name) is not None]
    lost += ["x-private"] if answer.header("x-private") else []
    return "passed on: " + ", ".join(lost) if lost else ""


async def secrets(stage: Stage) -> str:
    await ask_raw(stage, stage.chat(False, *([] if stage.headers else ["Authorization: Bearer client-secret"])))
    wanted = stage.headers[0].rpartition(" ")[2] if stage.headers else "client-secret"
    return "the client's key reaches the upstream" if wanted.encode() in stage.upstream.calls[-1].head else ""


async def two_answers(stage: Stage) -> str:
    stage.plays(sending(whole(ANSWER) + whole({"injected": True})))
    async with await stage.client() as client:
        await client.send(stage.chat(False))
        try:
            async with asyncio.timeout(0.5):
                seen = await client.until_closed()
        except TimeoutError:
            seen = b""
    if seen.count(b"injected"):
        return "the client gets both"
    stage.reset()
    for _ in range(2):
        if b"injected" in (await ask_raw(stage, stage.chat(False))).body:
            return "the next client gets the second"
    return ""


async def bodiless(stage: Stage) -> str:
    for sent, status in (
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\n\r\n", 304),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + whole(ANSWER), 200),
        (b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + whole(ANSWER), 200),
    ):
        stage.plays(sending(sent))
        async with await stage.client() as client:
            await client.send(stage.chat(False))
            answer = await client.answer()
            while answer.status < 200:
                answer = await client.answer()
        if answer.status != status:
            return f"{sent[9:12].decode()}: status {answer.status}"
    return ""


async def switches(stage: Stage) -> str:
    stage.plays(sending(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"))
    answer = await ask_raw(stage, stage.chat(False))
    return "" if answer.status >= 500 else f"status {answer.status}"


async def upgrades(stage: Stage) -> str:
    for wish in ("h2c", "websocket"):
        stage.reset()
        headers = (f"Upgrade: {wish}", "Connection: Upgrade, HTTP2-Settings", "HTTP2-Settings: AAMA")
        answer = await ask_raw(stage, stage.chat(False, *headers))
        if stage.upstream.calls and stage.upstream.calls[-1].header("upgrade"):
            return f"{wish} passed on"
        if answer.status not in (200, 400, 403, 501):
            return f"{wish}: status {answer.status}"
    return ""


async def methods(stage: Stage) -> str:
    for method in ("OPTIONS", "HEAD", "DELETE"):
        async with await stage.client() as client:
            own = "".join(f"{header}\r\n" for header in stage.headers)
            await client.send(f"{method} {PATH} HTTP/1.1\r\nHost: router\r\n{own}\r\n".encode())
            try:
                answer = await client.answer(body=method != "HEAD")
            except TimeoutError:
                return f"{method} hangs"
        if answer.status >= 500:
            return f"{method}: status {answer.status}"
    return ""


async def waits_for_100(stage: Stage) -> str:
    async with await stage.client() as client:
        await client.send(post(stage, f"Content-Length: {len(BODY)}", "Expect: 100-continue", body=b""))
        try:
            async with asyncio.timeout(2):
                first = await client.head()
        except TimeoutError:
            return "hangs"
        if first.status != 100:
            return f"status {first.status}"
        await client.send(BODY)
        answer = await client.answer()
        return "" if answer.status == 200 else f"status {answer.status}"


async def pipelined(stage: Stage) -> str:
    async with await stage.client() as client:
        bad = post(stage, "Content-Length: nonsense", body=b"")
        await client.send(stage.chat(False) + bad + stage.chat(False))
        first = await client.answer()
        await client.until_closed()
    if first.status != 200:
        return f"the first is answered {first.status}"
    return "" if stage.upstream.attempts == 1 else f"{stage.upstream.attempts} reach the upstream"


async def http_1_0(stage: Stage) -> str:
    body = BODY[:-1] + b',"stream":true}'
    answer = await ask_raw(stage, post(stage, f"Content-Length: {len(body)}", body=body, version="1.0"))
    if answer.status != 200:
        return f"status {answer.status}"
    return "chunks for HTTP/1.0" if answer.header("transfer-encoding") else ""


async def chunked_request(stage: Stage) -> str:
    body = b"%x;extension=1\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
    answer = await ask_raw(stage, post(stage, "Transfer-Encoding: chunked", body=body))
    if answer.status != 200:
        return f"status {answer.status}"
    call = stage.upstream.calls[-1]
    both = call.header("transfer-encoding") and call.header("content-length")
    return "both framings" if both else "" if json.loads(call.body).items() >= json.loads(BODY).items() else "cut"


async def odd_body(stage: Stage) -> str:
    body = (
        '{"model" : "chat","messages":[{"role":"user","content":"é 😀 \\u00e9 \\ud83d\\ude00"}],'
        '"x_unknown":{"a":[1.0,1e3,12345678901234567890]},"user":"u1","seed":7}'
    ).encode()
    answer = await ask_raw(stage, post(stage, f"Content-Length: {len(body)}", body=body))
    if answer.status != 200:
        return f"status {answer.status}"
    found = stage.upstream.calls[-1].body
    if found == body:
        return ""
    changed = json.loads(found)
    lost = [name for name in json.loads(body) if changed.get(name) != json.loads(body)[name]]
    added = [name for name in changed if name not in json.loads(body)]
    words = (["loses " + ", ".join(lost)] if lost else []) + ([f"adds {len(added)} fields"] if added else [])
    return "; ".join(words) or "written anew"


async def odd_answer(stage: Stage) -> str:
    sent = '{"choices":[{"index":0,"message":{"role":"assistant","content":"é 😀 \\u00e9"},"finish_reason":"stop"}],'
    body = (sent + '"x_unknown":[1e3,12345678901234567890]}').encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    return unchanged(await asked(stage, sending(head + body), stream=False), body)


async def compressed(stage: Stage) -> str:
    plain = json.dumps(ANSWER).encode()
    packed = gzip.compress(plain)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n"
    stage.plays(sending(head % len(packed) + packed))
    answer = await ask_raw(stage, stage.chat(False, "Accept-Encoding: gzip"))
    if answer.status != 200:
        return f"status {answer.status}"
    found = gzip.decompress(answer.body) if answer.header("content-encoding") == "gzip" else answer.body
    return "" if b'"hello"' in found else "cannot be read"


async def early(stage: Stage) -> str:
    async def refuse(call: Call) -> None:
        await call.send(whole({"error": {"message": "too large"}}, "413 Content Too Large", b"Connection: close\r\n"))
        await call.until_told()

    stage.plays(refuse)
    stage.upstream.reads_body = False
    body = BODY[:-1] + b',"x":"' + b"x" * 4_000_000 + b'"}'
    async with await stage.client() as client:
        sending_it = asyncio.create_task(client.send(request(body, *stage.headers)))
        answer = await client.answer()
        sending_it.cancel()
    return "" if answer.status == 413 else f"status {answer.status}"


async def huge_head(stage: Stage) -> str:
    for headers in (["X-Large: " + "x" * 60_000], [f"X-{number}: y" for number in range(5000)]):
        stage.reset()
        async with await stage.client() as client:
            try:
                answer = await client.ask(stage.chat(False, *headers))
            except (asyncio.IncompleteReadError, ConnectionError):
                continue  # refused by closing
        if answer.status >= 500:
            return f"status {answer.status}"
        if answer.status == 200:
            size = "60 kB header" if len(headers) == 1 else "5000 headers"
            return f"{size} passed on"
    return ""


async def large_body(stage: Stage) -> str:
    body = BODY[:-1] + b',"x":"' + b"x" * 8_000_000 + b'"}'
    answer = await ask_raw(stage, request(body, *stage.headers))
    return "" if answer.status == 200 else f"status {answer.status}"


async def closed_after_each_answer(stage: Stage) -> str:
    """The upstream offers to keep its connection, and closes it all the same, as llama-server does after a stream."""

    async def answer_and_close(call: Call) -> None:
        await answer(call)
        call.writer.close()

    stage.plays(answer_and_close)
    failed = 0
    for number in range(BURST):
        failed += (await ask_raw(stage, stage.chat(number % 2 == 0))).status != 200
    if stage.upstream.attempts > BURST:
        return f"{stage.upstream.attempts - BURST} of {BURST} sent twice"
    return f"{failed} of {BURST} fail" if failed else ""


async def bytes_on_an_idle_connection(stage: Stage) -> str:
    async def answer_then_more(call: Call) -> None:
        await answer(call)
        await asyncio.sleep(0.05)
        await call.send(whole({"injected": True}))

    stage.plays(answer_then_more)
    await ask_raw(stage, stage.chat(False))
    await asyncio.sleep(0.1)
    stage.reset()
    return "the next client gets them" if b"injected" in (await ask_raw(stage, stage.chat(False))).body else ""


async def broken_chunks(stage: Stage) -> str:
    stage.plays(sending(STREAM_HEAD, chunk(delta()), b"zz\r\nnonsense\r\n", LAST_CHUNK, pause_s=0.05))
    answer = await ask_raw(stage, stage.chat())
    return "looks complete" if answer.whole and answer.status == 200 else ""


PROBES = (
    Probe("F1", "Both Content-Length and Transfer-Encoding: refused", both_framings),
    *map(passed_on, (LENGTHS, CODINGS, CHUNKS, LINES, HOSTS)),
    Probe("F2", "Trailers of a request do not become headers", trailers),
    Probe("F2", "Headers named in Connection end here, both ways", named_in_connection),
    Probe("K3", "A client's key does not reach the upstream", secrets),
    Probe("F3", "Two answers at once: neither this client nor the next gets the second", two_answers),
    Probe("F3", "Bytes on an idle upstream connection reach nobody", bytes_on_an_idle_connection),
    Probe("F3", "A broken chunk in an answer: the client sees a cut", broken_chunks),
    Probe("F4", "204, 304 with a length, 100 and 103 before the answer: as they are", bodiless),
    Probe("F4", "101 that nobody asked for is an error", switches),
    Probe("F4", "OPTIONS, HEAD, DELETE: answered", methods),
    Probe("K7", "A wish for another protocol is not passed on", upgrades),
    Probe("F5", "A client that waits for 100 Continue gets it", waits_for_100),
    Probe("F6", "Pipelined requests, the second bad: the first is answered, the third reaches nobody", pipelined),
    Probe("F7", "HTTP/1.0: a stream without chunks", http_1_0),
    Probe("F8", "A chunked request arrives whole, in one framing", chunked_request),
    Probe("F10", "A request's body: no byte changes", odd_body),
    Probe("F10", "An answer's body: no byte changes", odd_answer),
    Probe("F11", "A compressed answer can be read", compressed),
    Probe("L1", "413 before the upload has ended reaches the client", early),
    Probe("L1", "A head of 60 kB or 5,000 lines is refused", huge_head),
    Probe("L1", "A body of 8 MB arrives", large_body),
    Probe(
        "R13", "The upstream closes after each answer: nothing fails, nothing is sent twice", closed_after_each_answer
    ),
)
