"""Reader of our own collectors' files: `infercrane.benchmark/v1` and `infercrane.quality/v1`, JSON Lines."""

import math
import re
from collections.abc import Callable, Iterator
from typing import Any

from pulumi_infercrane.guard.evidence.envelope import Envelope
from pulumi_infercrane.guard.evidence.records import Answer, Benchmark, Quality, Record, Request
from pulumi_infercrane.guard.reasons import Inadmissible
from pulumi_infercrane.guard.strict_json import parse_lines
from pulumi_infercrane.guard.times import parse_time

VERSIONS = ("0.1",)

MAX_LATENCY_S = 600.0
TOLERATED_BAD_SHARE = 0.005
TOLERATED_CLOCK_S = 60.0
TOLERATED_SUM_SHARE = 0.10
MAX_EXACT = 2**53

_LATENCIES = ("ttft_s", "tpot_s", "e2e_s")
_HEX64 = re.compile(r"[0-9a-f]{64}")


def read(primary: bytes, envelope: Envelope) -> Record:
    """The canonical record of one file, cross-checked with its envelope.

    Raises:
        Inadmissible: with the reason code and the line or field.
    """
    reader = _READERS.get(envelope.kind)
    if reader is None:
        raise Inadmissible("tool_unknown", f"infercrane writes no evidence of kind {envelope.kind!r}")
    header, *lines = parse_lines(primary)
    if header.get("schema") != f"infercrane.{envelope.kind}/v1":
        raise Inadmissible("schema_unknown", f"line 1: schema is not infercrane.{envelope.kind}/v1")
    _check_header(header, envelope)
    return reader(header, _checked_ids(lines, envelope.planned.requests))


def _check_header(header: dict[str, Any], envelope: Envelope) -> None:
    if _field(header, "revision_digest", str, 1) != envelope.subject.revision_digest:
        raise Inadmissible("binding_conflict", "the file names another revision than its envelope")
    if _field(header, "planned", int, 1) != envelope.planned.requests:
        raise Inadmissible("counters_disagree", "the file plans another number of requests than its envelope")
    for name, declared in (("started_at", envelope.window.started), ("ended_at", envelope.window.ended)):
        written = _time(_field(header, name, str, 1))
        if abs((written - declared).total_seconds()) > TOLERATED_CLOCK_S:
            raise Inadmissible("inconsistent", f"{name} of the file and of its envelope differ by more than a minute")


def _time(text: str) -> Any:
    try:
        return parse_time(text)
    except ValueError as error:
        raise Inadmissible("clock", f"line 1: {error}") from error


def _checked_ids(lines: list[dict[str, Any]], planned: int) -> list[dict[str, Any]]:
    if len(lines) > planned:
        raise Inadmissible("counters_disagree", f"{len(lines)} lines, but {planned} were planned")
    seen: set[str] = set()
    for number, line in _numbered(lines):
        identifier = _field(line, "id", str, number)
        if identifier in seen:
            raise Inadmissible("counters_disagree", f"line {number}: id {identifier!r} occurs twice")
        seen.add(identifier)
    return lines


def _benchmark(header: dict[str, Any], lines: list[dict[str, Any]]) -> Benchmark:
    sources = {_field(line, "token_source", str, number) for number, line in _numbered(lines) if "token_source" in line}
    if len(sources) > 1:
        raise Inadmissible("inconsistent", "token counts come from more than one source")
    requests = [_request(line, number) for number, line in _numbered(lines)]
    _check_bad_share(requests)
    _check_sums(requests)
    return Benchmark(
        load_model=_closed_loop(header),
        concurrency=_number(header, "concurrency", 1),
        streaming=_field(header, "streaming", bool, 1),
        token_source=sources.pop() if sources else "",
        requests=tuple(requests),
    )


def _closed_loop(header: dict[str, Any]) -> str:
    load_model: str = _field(header, "load_model", str, 1)
    if load_model != "closed":
        raise Inadmissible("schema_unknown", f"line 1: load_model {load_model!r}, this format knows only 'closed'")
    return load_model


def _request(line: dict[str, Any], number: int) -> Request:
    outcome = _field(line, "outcome", str, number)
    if outcome != "complete":
        return Request(ok=False, outcome=outcome)
    latencies = {name: _optional_number(line, name, number) for name in _LATENCIES}
    if latencies["e2e_s"] is None or latencies["ttft_s"] is None:
        raise Inadmissible("bad_value", f"line {number}: a complete request without ttft_s or e2e_s")
    if not all(value is None or 0 < value <= MAX_LATENCY_S for value in latencies.values()):
        return Request(ok=False, outcome="bad_value")
    in_tokens, out_tokens = (_optional_count(line, name, number) for name in ("in_tokens", "out_tokens"))
    return Request(ok=True, outcome=outcome, in_tokens=in_tokens, out_tokens=out_tokens, **latencies)


def _check_bad_share(requests: list[Request]) -> None:
    bad = sum(request.outcome == "bad_value" for request in requests)
    if bad > TOLERATED_BAD_SHARE * len(requests):
        text = f"{bad} of {len(requests)} complete requests have a latency outside 0 to {MAX_LATENCY_S:.0f} s"
        raise Inadmissible("bad_value", text)


def _check_sums(requests: list[Request]) -> None:
    """ttft + tpot · (tokens - 1) must be about e2e, on the average of the requests that have all four."""
    parts = [_parts(request) for request in requests if request.tpot_s is not None and request.out_tokens]
    whole = math.fsum(e2e for _, e2e in parts)
    gap = abs(math.fsum(part for part, _ in parts) - whole)
    if gap > TOLERATED_SUM_SHARE * whole:
        raise Inadmissible("inconsistent", "ttft_s + tpot_s · (out_tokens - 1) differs from e2e_s by more than 10 %")


def _parts(request: Request) -> tuple[float, float]:
    ttft, tpot, e2e = request.ttft_s or 0.0, request.tpot_s or 0.0, request.e2e_s or 0.0
    return ttft + tpot * max((request.out_tokens or 1) - 1, 0), e2e


def _quality(header: dict[str, Any], lines: list[dict[str, Any]]) -> Quality:
    if not lines:
        raise Inadmissible("no_scores", "not one item was scored")
    return Quality(
        task=_field(header, "task", str, 1),
        metric=_field(header, "metric", str, 1),
        tasks_digest=_field(header, "tasks_digest", str, 1),
        answers={line["id"]: _answer(line, number) for number, line in _numbered(lines)},
    )


def _answer(line: dict[str, Any], number: int) -> Answer:
    ok = _field(line, "outcome", str, number) == "complete"
    score = _number(line, "score", number)
    if not 0 <= score <= 1:
        raise Inadmissible("bad_value", f"line {number}: score {score} is not between 0 and 1")
    if not ok and score:
        raise Inadmissible("inconsistent", f"line {number}: a failed request cannot score")
    text = line.get("text_sha256", "")
    if ok and not (isinstance(text, str) and _HEX64.fullmatch(text)):
        raise Inadmissible("bad_value", f"line {number}: text_sha256 is not 64 hex digits")
    empty = "empty" in line and _field(line, "empty", bool, number)
    return Answer(score=score, ok=ok, empty=empty, cut=line.get("finish_reason") == "length", text_sha256=text)


def _numbered(lines: list[dict[str, Any]]) -> Iterator[tuple[int, dict[str, Any]]]:
    return enumerate(lines, start=2)


def _field(line: dict[str, Any], name: str, kind: type, number: int) -> Any:
    value = line.get(name)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise Inadmissible("bad_value", f"line {number}: {name} is missing or not a {kind.__name__}")
    return value


def _number(line: dict[str, Any], name: str, number: int) -> float:
    value = _optional_number(line, name, number)
    if value is None:
        raise Inadmissible("bad_value", f"line {number}: {name} is missing")
    return value


def _optional_number(line: dict[str, Any], name: str, number: int) -> float | None:
    value = line.get(name)
    if value is None and name not in line:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > MAX_EXACT:
        raise Inadmissible("bad_value", f"line {number}: {name} is not a number")
    return float(value)


def _optional_count(line: dict[str, Any], name: str, number: int) -> int | None:
    value = line.get(name)
    if name not in line:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_EXACT:
        raise Inadmissible("bad_value", f"line {number}: {name} is not a count")
    return value


_READERS: dict[str, Callable[[dict[str, Any], list[dict[str, Any]]], Record]] = {
    "benchmark": _benchmark,
    "quality": _quality,
}
