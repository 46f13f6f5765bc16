"""guidellm reports: one JSON file with a benchmark for every rate of a run.

Seconds (`request_latency`, timings) and milliseconds (`*_ms`) stand in one record. Of every distribution only
`successful` is read: `total` counts errors as 0 ms in some versions.
"""

import math
import re
from collections.abc import Mapping
from typing import Any

from pulumi_infercrane.guard.evidence.envelope import Envelope
from pulumi_infercrane.guard.evidence.readers import major_minor
from pulumi_infercrane.guard.evidence.reading.checks import check_total, checked, schedule_delay
from pulumi_infercrane.guard.evidence.reading.documents import check_kind, child, parse_object, selected
from pulumi_infercrane.guard.evidence.reading.fields import bad, count, field, number, number_or_null
from pulumi_infercrane.guard.evidence.reading.hints import check_model, check_revision, check_version, check_workload
from pulumi_infercrane.guard.evidence.reading.moments import check_times
from pulumi_infercrane.guard.evidence.reading.rows import Rows, tpot
from pulumi_infercrane.guard.evidence.reading.stated import Stated, from_epoch
from pulumi_infercrane.guard.evidence.records import Benchmark, Latency, Requests
from pulumi_infercrane.guard.reasons import Inadmissible
from pulumi_infercrane.guard.statistics import quantile
from pulumi_infercrane.guard.strict_json import parse

VERSIONS = ("0.5", "0.6", "0.8")
READS = "The benchmark of a JSON report of guidellm that `select.index` names, with the requests the report keeps."
CANNOT_KNOW = "Requests it generated ahead and never sent; how it judged its own SLO, which is counted again here."
FOR_REQUESTS = "--outputs json without --sample-requests"

_KEYS = ("metadata", "benchmarks")
_LAYOUTS = {"0.5": 1, "0.6": 1, "0.8": 2}
_METRICS = {
    "ttft_s": ("time_to_first_token_ms", 1e3),
    "tpot_s": ("inter_token_latency_ms", 1e3),
    "e2e_s": ("request_latency", 1.0),
}
"""`time_per_output_token_ms` has the first token in it."""
_SHARES = {"p001": 0.001, "p01": 0.01, "p05": 0.05, "p10": 0.1, "p25": 0.25, "p50": 0.5}
_SHARES |= {"p75": 0.75, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999}
_OPEN, _CLOSED = ("constant", "poisson", "async"), ("concurrent", "throughput", "synchronous")
_STATUS = re.compile(r"\b([45]\d\d)\b")


def read(parts: Mapping[str, bytes], envelope: Envelope) -> Benchmark:
    """The benchmark that `select.index`, from 0, names; the only one without it.

    Raises:
        Inadmissible: with the benchmark and key.
    """
    check_kind(envelope, "benchmark")
    document = parse_object(parts["primary"], envelope, _KEYS)
    _check_origin(document, envelope)
    benchmarks = field(document, "benchmarks", list, "")
    index = selected(envelope, "index", 0, len(benchmarks))
    if not isinstance(benchmarks[index], dict):
        raise bad(f"benchmarks[{index}]", "not an object")
    check_times(envelope, *_times(benchmarks[index]))
    return _benchmark(benchmarks[index], f"benchmarks[{index}]", envelope)


def stated(parts: Mapping[str, bytes]) -> Stated:
    """Version; start and end of the only benchmark."""
    document = parse(parts["primary"])
    metadata, benchmarks = (document.get(name) if isinstance(document, dict) else None for name in _KEYS)
    version = metadata.get("guidellm_version") if isinstance(metadata, dict) else None
    only = benchmarks[0] if isinstance(benchmarks, list) and len(benchmarks) == 1 else None
    return Stated(str(version or ""), *(_times(only) if isinstance(only, dict) else ()))


def _times(benchmark: Mapping[str, Any]) -> tuple[str, str]:
    return from_epoch(benchmark.get("start_time")), from_epoch(benchmark.get("end_time"))


def _check_origin(document: Mapping[str, Any], envelope: Envelope) -> None:
    metadata = child(document, "metadata", "")
    check_version(metadata.get("guidellm_version"), envelope)
    layout = _LAYOUTS[major_minor(metadata["guidellm_version"])]
    if metadata.get("version") != layout:
        raise Inadmissible("schema_unknown", f"metadata.version is not {layout}")
    config = document.get("config")
    about = config.get("metadata") if isinstance(config, dict) else None
    labels = about.get("labels") if isinstance(about, dict) else None
    check_revision(labels.get("revision") if isinstance(labels, dict) else None, envelope)


def _benchmark(benchmark: Mapping[str, Any], where: str, envelope: Envelope) -> Benchmark:
    config, metrics = child(benchmark, "config", where), child(benchmark, "metrics", where)
    backend = config.get("backend")
    check_model(backend.get("model") if isinstance(backend, dict) else None, envelope)
    totals = child(metrics, "request_totals", where)
    good = count(totals, "successful", where)
    latencies = _latencies(metrics, where) if good else {}
    load_model, rate, concurrency = _load(config, where)
    requests, errors, late = _requests(benchmark, totals, where)
    duration = number(benchmark, "duration", where)
    record = Benchmark(
        attempted=count(totals, "total", where),
        failed=count(totals, "errored", where),
        incomplete=count(totals, "incomplete", where),
        errors=errors,
        load_model=load_model,
        rate=rate,
        concurrency=concurrency,
        streaming=_streaming(backend),
        duration_s=duration,
        requests=requests,
        latencies=latencies,
        in_tokens=_mean(metrics, "prompt_token_count", where) if good else None,
        out_tokens=_mean(metrics, "output_token_count", where) if good else None,
        out_tokens_per_s=_mean(metrics, "output_tokens_per_second", where) if good else None,
        saturation=_saturation(late, load_model, latencies),
    )
    _check_totals(record, good, where)
    rps = _mean(metrics, "requests_per_second", where) if good else None
    return check_workload(checked(record, rps=rps, window_s=duration), envelope)


def _check_totals(record: Benchmark, good: int, where: str) -> None:
    if record.attempted != good + (record.failed or 0) + record.incomplete:
        raise Inadmissible("counters_disagree", f"{where}: request_totals do not add up to their total")


def _successful(metrics: Mapping[str, Any], name: str, where: str) -> Mapping[str, Any]:
    return child(child(metrics, name, where), "successful", f"{where}.{name}")


def _mean(metrics: Mapping[str, Any], name: str, where: str) -> float:
    return number(_successful(metrics, name, where), "mean", f"{where}.{name}")


def _latencies(metrics: Mapping[str, Any], where: str) -> dict[str, Latency]:
    """Without streaming, or with answers of one token, some distributions are of nothing."""
    found = {}
    for figure, (name, per_second) in _METRICS.items():
        distribution, place = _successful(metrics, name, where), f"{where}.{name}"
        n, mean = count(distribution, "count", place), number(distribution, "mean", place)
        if not n:
            continue
        check_total(figure, mean, n, number(distribution, "total_sum", place))
        percentiles = child(distribution, "percentiles", place)
        shares = {share: number(percentiles, key, place) / per_second for key, share in _SHARES.items()}
        found[figure] = Latency(shares, mean / per_second)
    return found


def _load(config: Mapping[str, Any], where: str) -> tuple[str, float | None, float | None]:
    strategy = child(config, "strategy", where)
    kind = strategy.get("type_", strategy.get("kind"))
    if kind in _OPEN:
        return "open", number(strategy, "rate", where), None
    if kind == "synchronous":
        return "closed", None, 1.0
    if kind in _CLOSED:
        places = (number_or_null(strategy, name, where) for name in ("streams", "max_concurrency"))
        return "closed", None, next((value for value in places if value), None)
    raise Inadmissible("schema_unknown", f"{where}: strategy {kind!r}, known are {', '.join(_OPEN + _CLOSED)}")


def _streaming(backend: Any) -> bool | None:
    streaming = backend.get("stream") if isinstance(backend, dict) else None
    return streaming if isinstance(streaming, bool) else None


def _saturation(late: list[float], load_model: str, latencies: Mapping[str, Latency]) -> str:
    if load_model != "open" or not late:
        return ""
    ttft = latencies["ttft_s"].quantiles.get(0.5) if "ttft_s" in latencies else None
    return schedule_delay(quantile(sorted(late), 0.99), ttft)


# --- requests ---------------------------------------------------------------------------------------------------


def _requests(
    benchmark: Mapping[str, Any], totals: Mapping[str, Any], where: str
) -> tuple[Requests | None, dict[str, int], list[float]]:
    """All of them with their errors, and how late each was sent; None when the report keeps no lists, or samples."""
    kept = child(benchmark, "requests", where)
    answered, failed = (field(kept, name, list, f"{where}.requests") for name in ("successful", "errored"))
    if not answered and not failed:
        return None, {}, []
    for name, entries in (("successful", answered), ("errored", failed)):
        if len(entries) != count(totals, name, where):
            detail = f"{where}: {len(entries)} {name} requests are kept of {totals[name]}"
            raise Inadmissible("counters_disagree", detail)
    rows, late = Rows(), []
    for index, entry in enumerate(answered):
        place = f"{where}.requests.successful[{index}]"
        times = child(child(_object(entry, place), "info", place), "timings", place)
        rows.add(_row(entry, times, place))
        late.append(_lateness(times, place))
    for index, entry in enumerate(failed):
        info = child(_object(entry, f"{where}.requests.errored[{index}]"), "info", where)
        rows.fail(_class(info.get("error")))
    return rows.requests(), dict(rows.errors), [delay for delay in late if delay == delay]


def _object(entry: Any, place: str) -> dict[str, Any]:
    if not isinstance(entry, dict):
        raise bad(place, "not an object")
    return entry


def _row(entry: Mapping[str, Any], times: Mapping[str, Any], place: str) -> tuple[float, ...]:
    started, ended = number(times, "request_start", place), number(times, "request_end", place)
    first, last = (_or_nan(times, name, place) for name in ("first_token_iteration", "last_token_iteration"))
    ins, outs = (_or_nan(entry, name, place) for name in ("prompt_tokens", "output_tokens"))
    return first - started, tpot(first, last, outs), ended - started, ins, outs


def _or_nan(mapping: Mapping[str, Any], name: str, place: str) -> float:
    value = number_or_null(mapping, name, place)
    return math.nan if value is None else value


def _lateness(times: Mapping[str, Any], place: str) -> float:
    return _or_nan(times, "request_start", place) - _or_nan(times, "targeted_start", place)


def _class(error: Any) -> str:
    """The status of an error text; the text itself may hold anything."""
    match = _STATUS.search(error) if isinstance(error, str) else None
    return match[1] if match else "error"
