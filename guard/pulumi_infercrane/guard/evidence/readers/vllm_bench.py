"""`vllm bench serve --save-result`: one flat JSON object, milliseconds in keys that end in `_ms`.

It holds no version: it is known by its keys. Keys of `--metadata` are merged into it, and may hide others.
"""

import math
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from pulumi_infercrane.guard.evidence.envelope import Envelope
from pulumi_infercrane.guard.evidence.reading.checks import checked, schedule_delay
from pulumi_infercrane.guard.evidence.reading.documents import check_kind, check_layout
from pulumi_infercrane.guard.evidence.reading.fields import bad, count, field, number, number_or_null, numbers
from pulumi_infercrane.guard.evidence.reading.flat_latencies import flat_latencies
from pulumi_infercrane.guard.evidence.reading.hints import check_model, check_revision, check_workload
from pulumi_infercrane.guard.evidence.reading.moments import check_zoneless
from pulumi_infercrane.guard.evidence.reading.rows import Rows, tpot
from pulumi_infercrane.guard.evidence.reading.stated import Stated
from pulumi_infercrane.guard.evidence.records import Benchmark, Latency, Requests
from pulumi_infercrane.guard.reasons import Inadmissible
from pulumi_infercrane.guard.statistics import quantile
from pulumi_infercrane.guard.strict_json import SEVERAL, first_of, parse

VERSIONS: tuple[str, ...] = ()
READS = "The result file of `vllm bench serve --save-result`, with `--save-detailed` every request."
CANNOT_KNOW = "Its own version, the time zone of the run, and what `--goodput` meant: these come from the envelope."
FOR_QUANTILES = "--percentile-metrics ttft,tpot,e2el --metric-percentiles 50,95,99"
FOR_REQUESTS = "--save-detailed"

_KEYS = ("num_prompts", "request_rate", "max_concurrency", "duration", "completed", "total_output_tokens")
_NAMES = {"ttft_s": "ttft", "tpot_s": "tpot", "itl_s": "itl", "e2e_s": "e2el"}
_GOODPUT = ("request_goodput", "request_goodput:")
_DATE = re.compile(r"\d{8}-\d{6}")
_STATUS = re.compile(r"\b([45]\d\d)\b")


def read(parts: Mapping[str, bytes], envelope: Envelope) -> Benchmark:
    """The run of one file.

    Raises:
        Inadmissible: with the key.
    """
    check_kind(envelope, "benchmark")
    document = _parse(parts["primary"], envelope)
    check_model(document.get("model_id"), envelope)
    check_revision(document.get("revision"), envelope)
    _check_date(document.get("date"), envelope)
    attempted, completed = count(document, "num_prompts", ""), count(document, "completed", "")
    requests, errors = _requests(document)
    duration = _duration(document)
    latencies = _latencies(document, completed)
    load_model, rate, concurrency = _load(document, attempted)
    record = Benchmark(
        attempted=attempted,
        failed=_failed(document, attempted, completed),
        errors=errors,
        load_model=load_model,
        rate=rate,
        concurrency=concurrency,
        duration_s=duration,
        requests=requests,
        latencies=latencies,
        in_tokens=_per_request(document, "total_input_tokens", completed),
        out_tokens=_per_request(document, "total_output_tokens", completed),
        out_tokens_per_s=number(document, "output_throughput", "") if completed else None,
        good=_good(document, envelope, duration),
        slo=envelope.slo.model_dump(exclude_none=True) if envelope.slo else {},
        saturation=_saturation(document, load_model, latencies),
    )
    rps = number(document, "request_throughput", "") if completed else None
    return check_workload(checked(record, rps=rps, window_s=duration), envelope)


def stated(parts: Mapping[str, bytes]) -> Stated:
    """Number of prompts. The date has no zone."""
    document = parse(parts["primary"])
    planned = document.get("num_prompts") if isinstance(document, dict) else None
    return Stated(planned=planned if isinstance(planned, int) and not isinstance(planned, bool) else None)


def _parse(data: bytes, envelope: Envelope) -> dict[str, Any]:
    try:
        document = parse(data)
    except Inadmissible as error:
        if SEVERAL not in error.problem.detail:
            raise
        _laid_out(first_of(data), envelope)
        detail = "several results in one file, as --append-result writes them: split it, one file for every run"
        raise Inadmissible("ambiguous_run", detail) from error
    return _laid_out(document, envelope)


def _laid_out(document: Any, envelope: Envelope) -> dict[str, Any]:
    laid_out = check_layout(document, envelope, _KEYS)
    if not any(key.endswith("_ttft_ms") for key in laid_out):
        raise Inadmissible("schema_unknown", "not a file of vllm-bench: no key ends in _ttft_ms")
    return laid_out


def _check_date(date: Any, envelope: Envelope) -> None:
    """Local time without a zone; a key of --metadata may have hidden it."""
    if isinstance(date, str) and _DATE.fullmatch(date):
        try:
            check_zoneless(envelope, datetime.fromisoformat(date))
        except ValueError as error:
            raise bad("", f"date {date} is none") from error


def _failed(document: Mapping[str, Any], attempted: int, completed: int) -> int:
    """Files from before late 2025 do not say."""
    failed = count(document, "failed", "") if "failed" in document else attempted - completed
    if failed + completed != attempted:
        raise Inadmissible("counters_disagree", f"{completed} completed and {failed} failed of {attempted} prompts")
    return failed


def _duration(document: Mapping[str, Any]) -> float:
    duration = number(document, "duration", "")
    if duration <= 0:
        raise bad("", f"duration of {duration:g} s")
    return duration


def _load(document: Mapping[str, Any], attempted: int) -> tuple[str, float | None, float | None]:
    """Without an arrival rate every place is refilled at once; without a cap there are as many as prompts."""
    cap = number_or_null(document, "max_concurrency", "")
    if document["request_rate"] == "inf":
        return "closed", None, cap or float(attempted)
    rate = number(document, "request_rate", "")
    if rate <= 0:
        raise bad("", f"request_rate of {rate:g}")
    return "open", rate, cap


def _latencies(document: Mapping[str, Any], completed: int) -> dict[str, Latency]:
    """A run where everything failed writes 0 everywhere, and one of single tokens 0 between them."""
    if not completed:
        return {}
    found = flat_latencies(document, _NAMES, "_ms", 1e3)
    if count(document, "total_output_tokens", "") <= completed:
        return {figure: latency for figure, latency in found.items() if figure not in ("tpot_s", "itl_s")}
    return found


def _per_request(document: Mapping[str, Any], name: str, completed: int) -> float | None:
    return count(document, name, "") / completed if completed and name in document else None


def _good(document: Mapping[str, Any], envelope: Envelope, duration: float) -> int | None:
    """Only the envelope knows what a good request was."""
    for name in _GOODPUT:
        goodput = number_or_null(document, name, "")
        if goodput is not None and envelope.slo is not None:
            return round(goodput * duration)
    return None


def _saturation(document: Mapping[str, Any], load_model: str, latencies: Mapping[str, Latency]) -> str:
    """How long requests of an open loop waited in the client. Its achieved rate tells nothing: it has the drain in."""
    if load_model != "open" or "queue_times" not in document:
        return ""
    waits = sorted(numbers(document, "queue_times", ""))
    ttft = latencies["ttft_s"].quantiles.get(0.5) if "ttft_s" in latencies else None
    return schedule_delay(quantile(waits, 0.99) if waits else None, ttft)


# --- requests ---------------------------------------------------------------------------------------------------


def _requests(document: Mapping[str, Any]) -> tuple[Requests | None, dict[str, int]]:
    """Durations of whole requests are always written, the rest only with --save-detailed. A failed one has 0."""
    if "ttfts" not in document and "latencies" not in document:
        return None, {}
    rows = Rows()
    measured = _rows(document)
    for row, error in zip(measured, _errors(document, len(measured)), strict=True):
        if error or row[2] == 0:
            rows.fail(_class(error))
        else:
            rows.add(row)
    return rows.requests(), dict(rows.errors)


def _rows(document: Mapping[str, Any]) -> list[tuple[float, ...]]:
    length = len(field(document, "ttfts" if "ttfts" in document else "latencies", list, ""))
    names = ("ttfts", "latencies", "input_lens", "output_lens")
    ttfts, wholes, ins, outs = (_column(document, name, length) for name in names)
    if "latencies" not in document:
        wholes = [ttft + math.fsum(gaps) for ttft, gaps in zip(ttfts, _gaps(document, length), strict=True)]
    rows = zip(ttfts, wholes, ins, outs, strict=True)
    return [(ttft, tpot(ttft, whole, out), whole, inside, out) for ttft, whole, inside, out in rows]


def _column(document: Mapping[str, Any], name: str, length: int) -> Sequence[float]:
    if name not in document:
        return [math.nan] * length
    values = numbers(document, name, "")
    if len(values) != length:
        raise Inadmissible("counters_disagree", f"{name} has {len(values)} values, others have {length}")
    return values


def _gaps(document: Mapping[str, Any], length: int) -> list[list[float]]:
    gaps = field(document, "itls", list, "")
    if len(gaps) != length:
        raise Inadmissible("counters_disagree", f"itls has {len(gaps)} values, others have {length}")
    return [numbers({"itls": one}, "itls", f"itls[{index}]") for index, one in enumerate(gaps)]


def _errors(document: Mapping[str, Any], length: int) -> list[Any]:
    errors = field(document, "errors", list, "") if "errors" in document else [""] * length
    if len(errors) != length:
        raise Inadmissible("counters_disagree", f"errors has {len(errors)} values, others have {length}")
    return errors


def _class(error: Any) -> str:
    """The status of an error text; the text itself may hold anything."""
    match = _STATUS.search(error) if isinstance(error, str) else None
    return match[1] if match else "error"
