"""The fault matrix: what a client sees of an upstream that fails, by kind of request and number of replicas.

`test_faults.py` brings every cell about; `python -m tests.router.faults` writes the same table into docs/failures.md.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pulumi_infercrane.router.protocol.observer import Outcome
from tests.router.client import request
from tests.router.upstream import ANSWER, STREAM_HEAD, Call, Script, chunk, delta, event, whole

PAGE = Path(__file__).parents[2] / "docs" / "failures.md"
BEGIN, END = "<!-- generated: failures -->\n", "<!-- end -->\n"

LARGE = 3_000_000
"""Bytes: more than one socket takes at once, so that the upload is under way when it fails."""

KINDS: Mapping[str, bytes] = {
    "small": b'{"model":"chat"}',
    "stream": b'{"model":"chat","stream":true}',
    "large": b'{"model":"chat","x":"%b"}' % (b"x" * LARGE),
}

AT_ONCE, CONNECT, FIRST_BYTE, GAP, TOTAL = "at once", "connect_s", "first_byte_s", "gap_s", "total_s"


@dataclass(frozen=True)
class Expected:
    """`client` is the status and error code, or what becomes of the body; `sent` counts upstreams that got it."""

    client: str
    outcome: Outcome
    within: str = AT_ONCE
    sent: int = 1
    blamed: bool = True
    """Whether it counts against the replica (`health.eject_after`)."""


@dataclass(frozen=True)
class Fault:
    """What the upstream does, and what follows. `others` are the kinds for which something else follows."""

    name: str
    script: Script | None
    """None: it refuses connections; `deaf`: it does not even do that."""
    expected: Expected
    others: Mapping[str, Expected] | None = None
    replaced: Expected | None = None
    """What follows when there is a second, sound replica; without it, the same."""
    reads_body: bool = True

    def follows(self, kind: str, replicas: int) -> Expected:
        if replicas > 1 and self.replaced is not None:
            return self.replaced
        return (self.others or {}).get(kind, self.expected)


async def deaf(call: Call) -> None:
    """Never reached: the queue of its listener is full."""


async def _reset(call: Call) -> None:
    await asyncio.sleep(0.02)
    call.reset()


async def _fail(call: Call) -> None:
    await call.send(ERROR_500)


async def _garbage(call: Call) -> None:
    await call.send(b"\x16\x03\x01 nonsense\r\n\r\n")


async def _banner(call: Call) -> None:
    await call.send(b"SSH-2.0-OpenSSH_9.6\r\n")
    await call.until_told()


async def _lines_of_lf(call: Call) -> None:
    await call.send(whole(ANSWER).replace(b"\r\n", b"\n"))
    await call.until_told()


async def _half(call: Call) -> None:
    await call.send(*_first_half(call))
    call.writer.close()


async def _half_then_silence(call: Call) -> None:
    await call.send(*_first_half(call))
    await call.until_told()


async def _without_end(call: Call) -> None:
    await call.send(*_first_half(call))
    while True:
        await asyncio.sleep(0.02)
        await call.send(chunk(delta("a")) if call.document.get("stream") else b"")


async def _error_in_200(call: Call) -> None:
    error = {"error": {"message": "out of memory", "code": 500}}
    if call.document.get("stream"):
        await call.stream(delta("a"), event(error))
        await call.end_stream()
    else:
        await call.send(whole(error))


def _first_half(call: Call) -> tuple[bytes, ...]:
    if call.document.get("stream"):
        return STREAM_HEAD, chunk(delta("a"))
    answer = whole(ANSWER)
    return (answer[: len(answer) - 20],)


ERROR_500 = whole({"error": {"message": "out of memory"}}, "500 Internal Server Error")

_CUT = Expected("200, then cut", Outcome.TRUNCATED)

FAULTS = (
    Fault(
        "refuses connections",
        None,
        Expected("503 `connect_failed`", Outcome.CONNECT_FAILED, sent=0),
        replaced=Expected("200, whole", Outcome.COMPLETE),
    ),
    Fault(
        "does not answer to connections",
        deaf,
        Expected("503 `connect_failed`", Outcome.CONNECT_FAILED, CONNECT, sent=0),
        replaced=Expected("200, whole", Outcome.COMPLETE, CONNECT),
    ),
    Fault(
        "resets the connection before it answers",
        _reset,
        Expected("502 `upstream_closed`", Outcome.UPSTREAM_CLOSED),
        reads_body=False,
    ),
    Fault(
        "takes the request and says nothing",
        Call.until_told,
        Expected("504 `upstream_timeout`", Outcome.FIRST_BYTE_TIMEOUT, FIRST_BYTE),
    ),
    Fault(
        "stops reading the request and says nothing",
        lambda call: asyncio.sleep(3600),
        Expected("504 `upstream_timeout`", Outcome.FIRST_BYTE_TIMEOUT, FIRST_BYTE),
        reads_body=False,
    ),
    Fault("answers 500", _fail, Expected("500, as it came", Outcome.HTTP_ERROR)),
    Fault(
        "answers 500 before it has read the request",
        _fail,
        Expected("500, as it came", Outcome.HTTP_ERROR),
        reads_body=False,
    ),
    Fault("answers what is not HTTP", _garbage, Expected("502 `upstream_protocol`", Outcome.UPSTREAM_PROTOCOL)),
    Fault(
        "greets in another protocol and waits", _banner, Expected("502 `upstream_protocol`", Outcome.UPSTREAM_PROTOCOL)
    ),
    Fault(
        "ends the lines of its head with LF alone",
        _lines_of_lf,
        Expected("502 `upstream_protocol`", Outcome.UPSTREAM_PROTOCOL),
    ),
    Fault("dies in the middle of its answer", _half, _CUT),
    Fault(
        "falls silent in the middle of its answer",
        _half_then_silence,
        replace(_CUT, outcome=Outcome.IDLE_TIMEOUT, within=FIRST_BYTE),
        others={"stream": replace(_CUT, outcome=Outcome.IDLE_TIMEOUT, within=GAP)},
    ),
    Fault(
        "does not come to an end",
        _without_end,
        replace(_CUT, outcome=Outcome.TOTAL_TIMEOUT, within=TOTAL, blamed=False),
    ),
    Fault(
        "is slow to begin, and has a time to end",
        Call.until_told,
        Expected("504 `upstream_timeout`", Outcome.TOTAL_TIMEOUT, TOTAL, blamed=False),
    ),
    Fault("says in a 200 that it failed", _error_in_200, Expected("200, as it came", Outcome.ERROR_EVENT)),
)


def asking(kind: str) -> bytes:
    """A request of this kind."""
    return request(KINDS[kind])


def cells() -> list[tuple[Fault, str, int]]:
    """Fault, kind of request, number of replicas, of which the first fails and the others are sound."""
    return [(fault, kind, replicas) for fault in FAULTS for kind in KINDS for replicas in (1, 2)]


def table() -> str:
    """Rows that say the same are one row."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for fault, kind, replicas in cells():
        rows.setdefault((fault.name, str(replicas), *_said(fault.follows(kind, replicas))), []).append(kind)
    merged: dict[tuple[str, ...], list[str]] = {}
    for (name, replicas, *said), kinds in rows.items():
        merged.setdefault((name, ", ".join(kinds), *said), []).append(replicas)
    head = ("the upstream", "request", "replicas", "the client gets", "upstreams sent to", "outcome", "blamed", "when")
    lines = [head, ("---",) * len(head)]
    lines += [(name, kinds, ", ".join(replicas), *said) for (name, kinds, *said), replicas in merged.items()]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _said(expected: Expected) -> tuple[str, ...]:
    when = expected.within if expected.within == AT_ONCE else f"`{expected.within}`"
    return (
        expected.client, str(expected.sent), f"`{expected.outcome}`", "yes" if expected.blamed else "no", when
    )  # fmt: skip


def page(text: str) -> str:
    """The page with the table of today in its place."""
    before, rest = text.split(BEGIN)
    return before + BEGIN + table() + END + rest.partition(END)[2]


def sound(body: bytes) -> bool:
    """Whether this is the answer of a sound upstream."""
    return b"finish_reason" in body and (body.endswith(b"[DONE]\n\n") or json.loads(body) == ANSWER)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
