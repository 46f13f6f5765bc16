"""`python -m sglang.bench_serving --output-file`: JSON Lines, one appended for every run.

A run says how many requests completed, and neither how many were sent nor how many failed.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pulumi_infercrane.guard.evidence.envelope import Envelope
from pulumi_infercrane.guard.evidence.reading.checks import checked, token_doubt
from pulumi_infercrane.guard.evidence.reading.documents import check_kind, check_layout, selected
from pulumi_infercrane.guard.evidence.reading.fields import (
    bad,
    count,
    field,
    number,
    number_or_null,
    numbers,
    optional_count,
)
from pulumi_infercrane.guard.evidence.reading.flat_latencies import flat_latencies
from pulumi_infercrane.guard.evidence.reading.hints import check_model, check_revision, check_workload
from pulumi_infercrane.guard.evidence.reading.rows import Rows, tpot
from pulumi_infercrane.guard.evidence.records import Benchmark, Requests
from pulumi_infercrane.guard.reasons import Inadmissible
from pulumi_infercrane.guard.strict_json import parse_lines

VERSIONS: tuple[str, ...] = ()
READS = "The line of SGLang's `bench_serving` output that `select.line` names, with `--output-details` every request."
CANNOT_KNOW = (
    "How many requests were sent and failed (planned.requests of the envelope says it, or the details), when, and by "
    "which version of the tool."
)
FOR_REQUESTS = "--output-details"

_KEYS = ("backend", "dataset_name", "request_rate", "max_concurrency", "duration", "completed", "total_output_tokens")
_NAMES = {"ttft_s": "ttft", "tpot_s": "tpot", "itl_s": "itl", "e2e_s": "e2e_latency"}
_NO_RATE = (re.compile(rb'"request_rate": Infinity\b'), b'"request_rate": "inf"')
"""Without --request-rate the tool writes a number that is not JSON, here and nowhere else."""


def read(parts: Mapping[str, bytes], envelope: Envelope) -> Benchmark:
    """The run that `select.line`, from 1, names; the only one without it.

    Raises:
        Inadmissible: with the line and key.
    """
    check_kind(envelope, "benchmark")
    lines = list(parse_lines(_NO_RATE[0].sub(_NO_RATE[1], parts["primary"])))
    for first in lines[:1]:  # before a line is asked for: several lines of something else are no runs
        check_layout(first, envelope, _KEYS)
    line = check_layout(lines[selected(envelope, "line", 1, len(lines))], envelope, _KEYS)
    _check_hints(line, envelope)
    completed, duration = count(line, "completed", ""), number(line, "duration", "")
    if not completed or duration <= 0:
        raise bad("", f"{completed} requests completed in {duration:g} s: the tool writes no such run")
    requests, errors = _requests(line)
    attempted = len(requests) if requests else _planned(envelope, completed)
    load_model, rate, concurrency = _load(line)
    record = Benchmark(
        attempted=attempted,
        failed=None if attempted is None else attempted - completed,
        errors=errors,
        load_model=load_model,
        rate=rate,
        concurrency=concurrency,
        duration_s=duration,
        requests=requests,
        latencies=flat_latencies(line, _NAMES, "_ms", 1e3),
        in_tokens=count(line, "total_input_tokens", "") / completed,
        out_tokens=count(line, "total_output_tokens", "") / completed,
        out_tokens_per_s=number(line, "output_throughput", ""),
        token_doubt=_doubt(line),
    )
    return check_workload(checked(record, rps=number(line, "request_throughput", ""), window_s=duration), envelope)


def _check_hints(line: Mapping[str, Any], envelope: Envelope) -> None:
    if not any(key.endswith("_ttft_ms") for key in line):
        raise Inadmissible("schema_unknown", "not a file of sglang-bench: no key ends in _ttft_ms")
    server = line.get("server_info")
    check_model(server.get("model_path") if isinstance(server, dict) else None, envelope)
    check_revision(line.get("tag"), envelope)


def _planned(envelope: Envelope, completed: int) -> int | None:
    if envelope.planned is None:
        return None
    planned = envelope.planned.requests
    if completed > planned:
        raise Inadmissible("counters_disagree", f"{completed} requests completed, the envelope plans {planned}")
    return planned


def _load(line: Mapping[str, Any]) -> tuple[str, float | None, float | None]:
    cap = number_or_null(line, "max_concurrency", "")
    if line["request_rate"] == "inf":
        return "closed" if cap else "", None, cap
    if line["request_rate"] == "trace":
        return "open", None, cap
    rate = number(line, "request_rate", "")
    if rate <= 0:
        raise bad("", f"request_rate of {rate:g}")
    return "open", rate, cap


def _doubt(line: Mapping[str, Any]) -> str:
    server, again = (optional_count(line, f"total_output_tokens{end}", "") for end in ("", "_retokenized"))
    return token_doubt(again, server, "counted again by the tool against the server's own count")


def _requests(line: Mapping[str, Any]) -> tuple[Requests | None, dict[str, int]]:
    """A failed request has an error, and zeros."""
    if "ttfts" not in line:
        return None, {}
    ttfts = numbers(line, "ttfts", "")
    gaps, errors = _list(line, "itls", len(ttfts)), _list(line, "errors", len(ttfts))
    ins, outs = (_lengths(line, name, len(ttfts)) for name in ("input_lens", "output_lens"))
    rows = Rows()
    for index, (ttft, error) in enumerate(zip(ttfts, errors, strict=True)):
        if error or ttft == 0:
            rows.fail("error")
            continue
        whole = ttft + math.fsum(numbers({"itls": gaps[index]}, "itls", f"itls[{index}]"))
        rows.add((ttft, tpot(ttft, whole, outs[index]), whole, ins[index], outs[index]))
    return rows.requests(), dict(rows.errors)


def _list(line: Mapping[str, Any], name: str, length: int) -> list[Any]:
    values = field(line, name, list, "")
    if len(values) != length:
        raise Inadmissible("counters_disagree", f"{name} has {len(values)} values, ttfts has {length}")
    return values


def _lengths(line: Mapping[str, Any], name: str, length: int) -> Sequence[float]:
    if name not in line:
        return [math.nan] * length
    return numbers({name: _list(line, name, length)}, name, "")
