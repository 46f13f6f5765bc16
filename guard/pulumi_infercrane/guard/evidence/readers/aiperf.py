"""aiperf `profile_export_aiperf.json`, and the JSON Lines of its requests as part `details`.

Scalars are blocks too: `{"unit": "requests", "avg": 69.0}`. A counter that is absent is zero.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from pulumi_infercrane.guard.evidence.envelope import Envelope
from pulumi_infercrane.guard.evidence.readers import major_minor
from pulumi_infercrane.guard.evidence.reading.checks import check_latency, checked, schedule_delay, token_doubt
from pulumi_infercrane.guard.evidence.reading.documents import check_kind, child, parse_object
from pulumi_infercrane.guard.evidence.reading.fields import bad, count, field, number, number_or_null
from pulumi_infercrane.guard.evidence.reading.hints import check_model, check_version, check_workload
from pulumi_infercrane.guard.evidence.reading.metric_blocks import block_count, block_latency, block_value, seconds
from pulumi_infercrane.guard.evidence.reading.moments import check_zoneless
from pulumi_infercrane.guard.evidence.reading.rows import Rows
from pulumi_infercrane.guard.evidence.reading.stated import Stated
from pulumi_infercrane.guard.evidence.records import Benchmark, Latency
from pulumi_infercrane.guard.reasons import Inadmissible
from pulumi_infercrane.guard.strict_json import parse, parse_lines

VERSIONS = ("0.11", "0.13")
READS = "The JSON export of `aiperf profile`, with its per-request JSON Lines as part `details`."
CANNOT_KNOW = "The time zone of the run, and how many tokens the server counted where it reports no usage."
FOR_REQUESTS = "--export-level records, added to the envelope as part details"

_SCHEMAS = {"0.11": "1.3", "0.13": "1.4"}
_KEYS = ("aiperf_version", "schema_version", "input_config", "request_count", "request_latency")
_METRICS = {
    "ttft_s": "time_to_first_token",
    "tpot_s": "inter_token_latency",
    "itl_s": "inter_chunk_latency",
    "e2e_s": "request_latency",
}
_OBJECTIVES = {name: figure for figure, name in _METRICS.items()}
_ROW = ("time_to_first_token", "inter_token_latency", "request_latency")
_ROW_LENGTHS = ("input_sequence_length", "output_sequence_length")
_RATE_PERCENT = 0.1
TOLERATED_DISCREPANCIES = 0.05


def read(parts: Mapping[str, bytes], envelope: Envelope) -> Benchmark:
    """The run of one export.

    Raises:
        Inadmissible: with the key, and the line of the details.
    """
    check_kind(envelope, "benchmark")
    document = parse_object(parts["primary"], envelope, _KEYS)
    _check_origin(document, envelope)
    attempted, failed = _counts(document)
    good = attempted - failed
    latencies = _latencies(document, _METRICS) if good else {}
    rows = _rows(parts["details"]) if "details" in parts else None
    load_model, rate, concurrency = _load(document)
    slo = _slo(document)
    record = Benchmark(
        attempted=attempted,
        failed=failed,
        errors=_errors(document, rows),
        load_model=load_model,
        rate=rate,
        concurrency=concurrency,
        streaming=_streaming(document),
        duration_s=_duration(document),
        requests=rows.requests() if rows else None,
        latencies=latencies,
        in_tokens=block_value(document, "input_sequence_length", "tokens"),
        out_tokens=block_value(document, "output_sequence_length", "tokens"),
        out_tokens_per_s=block_value(document, "output_token_throughput", "tokens/sec"),
        good=_good(document, attempted) if slo else None,
        slo=slo,
        token_doubt=_doubt(document, good),
        saturation=_saturation(document, load_model, latencies),
    )
    rps = block_value(document, "request_throughput", "requests/sec")
    record = checked(record, rps=rps, window_s=_window(document))
    return check_workload(replace(record, latencies=_adjusted(document, latencies)), envelope)


def stated(parts: Mapping[str, bytes]) -> Stated:
    """Version. The times have no zone."""
    document = parse(parts["primary"])
    return Stated(str(document.get("aiperf_version") or "") if isinstance(document, dict) else "")


def _check_origin(document: Mapping[str, Any], envelope: Envelope) -> None:
    check_version(document["aiperf_version"], envelope)
    schema = _SCHEMAS[major_minor(document["aiperf_version"])]
    if document["schema_version"] != schema:
        raise Inadmissible("schema_unknown", f"schema_version is not {schema}")
    if document.get("was_cancelled") is True or document.get("is_complete") is False:
        raise Inadmissible("truncated", "the run was cancelled before its end")
    if "start_time" in document:
        check_zoneless(envelope, _local(document, "start_time"))
    models = child(document, "input_config", "").get("models")
    items = models.get("items") if isinstance(models, dict) else None
    for item in items if isinstance(items, list) else []:
        check_model(item.get("name") if isinstance(item, dict) else None, envelope)


# --- counts -----------------------------------------------------------------------------------------------------


def _counts(document: Mapping[str, Any]) -> tuple[int, int]:
    """Attempted and failed. `request_count` are the answered ones; what counts all of them came with 0.13."""
    answered, failed = (block_count(document, name) or 0 for name in ("request_count", "error_request_count"))
    everything = block_count(document, "completed_request_count")
    if everything is not None and everything != answered + failed:
        raise Inadmissible("counters_disagree", f"{answered} answered and {failed} failed of {everything} requests")
    rate = block_value(document, "request_error_rate", "%")
    if rate is not None and answered + failed and abs(rate - 100 * failed / (answered + failed)) > _RATE_PERCENT:
        raise Inadmissible("counters_disagree", f"{failed} of {answered + failed} failed is not {rate:g} %")
    return answered + failed, failed


def _errors(document: Mapping[str, Any], rows: Rows | None) -> dict[str, int]:
    bad_values = rows.errors["bad_value"] if rows else 0
    codes = {"bad_value": bad_values} if bad_values else {}
    summary = [] if document.get("error_summary") is None else field(document, "error_summary", list, "")
    for index, entry in enumerate(summary):
        where = f"error_summary[{index}]"
        if not isinstance(entry, dict):
            raise bad(where, "not an object")
        code = str(child(entry, "error_details", where).get("code") or "error")[:40]
        codes[code] = codes.get(code, 0) + count(entry, "count", where)
    return codes


def _good(document: Mapping[str, Any], attempted: int) -> int:
    """Requests within all objectives. The fraction beside it is of all attempted ones."""
    good = block_count(document, "good_request_count") or 0
    fraction = block_value(document, "good_request_fraction", "ratio")
    if fraction is not None and attempted and abs(fraction - good / attempted) > 1e-3:
        raise Inadmissible("counters_disagree", f"{good} good of {attempted} requests is not {fraction:g}")
    return good


def _slo(document: Mapping[str, Any]) -> dict[str, float]:
    """Objectives in seconds by figure; one that no figure is known for keeps its own name, and equals none."""
    slos = child(document, "input_config", "").get("slos")
    if not isinstance(slos, dict):
        return {}
    found = {_OBJECTIVES.get(name, name): number(slos, name, "slos") / 1e3 for name in map(str, slos)}
    if min(found.values(), default=1) <= 0:
        raise bad("input_config.slos", "an objective is more than 0 ms")
    return found


def _doubt(document: Mapping[str, Any], answered: int) -> str:
    client, server = (block_count(document, name) for name in ("total_osl", "total_usage_completion_tokens"))
    doubt = token_doubt(client, server, "counted by the client against the server's usage")
    discrepancies = block_count(document, "usage_discrepancy_count") or 0
    if doubt or discrepancies <= TOLERATED_DISCREPANCIES * answered:
        return doubt
    return f"client and server count tokens differently in {discrepancies} of {answered} answers"


# --- load and times ---------------------------------------------------------------------------------------------


def _load(document: Mapping[str, Any]) -> tuple[str, float | None, float | None]:
    """Of the profiling phase, which older files keep as `loadgen`."""
    config = child(document, "input_config", "")
    phases = config.get("phases")
    measured = [one for one in phases if _is_profiling(one)] if isinstance(phases, list) else [config.get("loadgen")]
    if len(measured) > 1:
        raise Inadmissible("ambiguous_run", f"{len(measured)} profiling phases are summarised in one file")
    load = measured[0] if measured and isinstance(measured[0], dict) else {}
    rates = [number_or_null(load, name, "input_config") for name in ("rate", "request_rate")]
    rate = next((value for value in rates if value is not None), None)
    concurrency = number_or_null(load, "concurrency", "input_config")
    return "open" if rate else "closed" if concurrency else "", rate, concurrency


def _is_profiling(phase: Any) -> bool:
    return isinstance(phase, dict) and phase.get("kind", phase.get("name")) == "profiling"


def _streaming(document: Mapping[str, Any]) -> bool | None:
    endpoint = child(document, "input_config", "").get("endpoint")
    streaming = endpoint.get("streaming") if isinstance(endpoint, dict) else None
    return streaming if isinstance(streaming, bool) else None


def _duration(document: Mapping[str, Any]) -> float | None:
    if "benchmark_duration" not in document:
        return None
    block = child(document, "benchmark_duration", "")
    return seconds(number(block, "avg", "benchmark_duration"), block, "benchmark_duration")


def _window(document: Mapping[str, Any]) -> float | None:
    """What requests per second were counted over: from 0.13 on the wall clock, before that the benchmark itself."""
    if major_minor(document["aiperf_version"]) == "0.11":
        return _duration(document)
    started, ended = (_local(document, name) for name in ("start_time", "end_time"))
    return (ended - started).total_seconds()


def _local(document: Mapping[str, Any], name: str) -> datetime:
    """Without a zone: good for differences, and for telling the day."""
    try:
        return datetime.fromisoformat(field(document, name, str, "")).replace(tzinfo=None)
    except ValueError as error:
        raise bad("", f"{name} is not a time") from error


def _latencies(document: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Latency]:
    found = {figure: block_latency(document, name) for figure, name in names.items()}
    return {figure: latency for figure, latency in found.items() if latency}


def _adjusted(document: Mapping[str, Any], latencies: Mapping[str, Latency]) -> dict[str, Latency]:
    """Where the tool counts failures as infinitely slow, its quantiles are those; one it leaves out is infinite."""
    result = dict(latencies)
    for figure, adjusted in _latencies(document, {figure: f"adj_{name}" for figure, name in _METRICS.items()}).items():
        if figure in latencies:
            shares = latencies[figure].quantiles
            quantiles = {share: adjusted.quantiles.get(share, math.inf) for share in shares}
            result[figure] = Latency(quantiles, latencies[figure].mean, adjusted=True)
            check_latency(f"adj_{figure}", result[figure])
    return result


def _saturation(document: Mapping[str, Any], load_model: str, latencies: Mapping[str, Latency]) -> str:
    delay = block_latency(document, "credit_to_start_latency")
    if load_model != "open" or delay is None:
        return ""
    ttft = latencies["ttft_s"].quantiles.get(0.5) if "ttft_s" in latencies else None
    return schedule_delay(delay.quantiles.get(0.99), ttft)


# --- requests ---------------------------------------------------------------------------------------------------


def _rows(data: bytes) -> Rows:
    """Of the profiling phase; a failed one holds its error and no figures."""
    rows = Rows()
    for index, line in enumerate(parse_lines(data), start=1):
        where = f"details line {index}"
        metadata = child(line, "metadata", where)
        if metadata.get("benchmark_phase") != "profiling":
            continue
        error = line.get("error")
        if error is not None or metadata.get("was_cancelled") is True:
            rows.fail(str(error.get("code") or "error")[:40] if isinstance(error, dict) else "cancelled")
        else:
            rows.add(_row(child(line, "metrics", where), where))
    return rows


def _row(metrics: Mapping[str, Any], where: str) -> tuple[float, ...]:
    times = [_value(metrics, name, where) for name in _ROW]
    lengths = [number(child(metrics, name, where), "value", where) for name in _ROW_LENGTHS]
    return (*times, *lengths)


def _value(metrics: Mapping[str, Any], name: str, where: str) -> float:
    """An answer of one token has no time per token, one that was not streamed none to the first."""
    if name not in metrics and name != "request_latency":
        return math.nan
    block = child(metrics, name, where)
    return seconds(number(block, "value", where), block, f"{where}: {name}")
