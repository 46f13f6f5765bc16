"""llm-d Benchmark Report 0.2 (YAML), a neutral layout that llm-d-benchmark writes for several load tools.

Every figure names its unit, and is read by it.
"""

import re
from collections.abc import Mapping
from typing import Any

from pulumi_infercrane.guard.evidence.envelope import Envelope
from pulumi_infercrane.guard.evidence.reading.checks import checked
from pulumi_infercrane.guard.evidence.reading.documents import check_kind
from pulumi_infercrane.guard.evidence.reading.fields import count, field, number, optional_count, optional_number
from pulumi_infercrane.guard.evidence.reading.hints import check_workload
from pulumi_infercrane.guard.evidence.reading.load_runs import (
    check_parts,
    reliability_of,
    share_of,
    token_time_doubt,
    without_token_times,
)
from pulumi_infercrane.guard.evidence.reading.moments import check_window, from_text
from pulumi_infercrane.guard.evidence.records import Benchmark, Latency, Record
from pulumi_infercrane.guard.reasons import Inadmissible
from pulumi_infercrane.guard.strict_yaml import parse_yaml

VERSIONS = ("0.2",)

READS = "Benchmark Report 0.2 (YAML) of llm-d-benchmark and inference-perf: counts, latencies by their units, times."
CANNOT_KNOW = (
    "Single requests; the load model and the rate, which the report of a stage leaves out; who counted tokens."
)

_FIGURES = {
    "ttft_s": "time_to_first_token",
    "tpot_s": "time_per_output_token",
    "itl_s": "inter_token_latency",
    "e2e_s": "request_latency",
}
_PER_SECOND = {"s": 1, "s/token": 1, "ms": 1000, "ms/token": 1000}
_QUANTILE = re.compile(r"p(\d{1,2})(?:p(\d+))?")


def read(parts: Mapping[str, bytes], envelope: Envelope) -> Record:
    """The record of one report.

    Raises:
        Inadmissible: `schema_unknown`, `version_unknown` or `unit_suspect` for what is not known by name.
    """
    check_kind(envelope, "benchmark", "reliability")
    document = parse_yaml(parts["primary"])
    if not parts["primary"].endswith(b"\n"):  # half a YAML file is a YAML file
        raise Inadmissible("not_json", "ends within a line: the file was cut off")
    if not isinstance(document, dict) or not {"version", "run", "results"} <= document.keys():
        raise Inadmissible("schema_unknown", "no version, run and results: not a Benchmark Report")
    version = str(document["version"])
    if not version.startswith("0.2."):
        raise Inadmissible("version_unknown", f"Benchmark Report {version[:20]}: known is 0.2")
    duration_s = _duration(document, envelope)
    performance = field(field(document, "results", dict, ""), "request_performance", dict, "results")
    run = _run(field(performance, "aggregate", dict, "request_performance"), duration_s)
    return reliability_of(run) if envelope.kind == "reliability" else check_workload(run, envelope)


def _duration(document: Mapping[str, Any], envelope: Envelope) -> float:
    times = field(field(document, "run", dict, ""), "time", dict, "run")
    started, ended = (from_text(field(times, name, str, "run.time"), f"run.time.{name}") for name in ("start", "end"))
    check_window(envelope, started, ended)
    return (ended - started).total_seconds()


def _run(aggregate: Mapping[str, Any], duration_s: float) -> Benchmark:
    requests = field(aggregate, "requests", dict, "aggregate")
    attempted, failed = count(requests, "total", "requests"), count(requests, "failures", "requests")
    if failed > attempted:
        raise Inadmissible("counters_disagree", f"{failed} failures of {attempted} requests")
    out_tokens = _length(requests, "output_length")
    latencies = _latencies(field(aggregate, "latency", dict, "aggregate")) if failed < attempted else {}
    check_parts(latencies)
    doubt = token_time_doubt(latencies, out_tokens)
    run = Benchmark(
        attempted=attempted,
        failed=failed,
        incomplete=optional_count(requests, "incomplete", "requests") or 0,
        errors={"unnamed": failed} if failed else {},
        streaming="ttft_s" in latencies or None,
        duration_s=duration_s,
        latencies=without_token_times(latencies) if doubt else latencies,
        in_tokens=_length(requests, "input_length"),
        out_tokens=out_tokens,
        out_tokens_per_s=_output_rate(aggregate),
        token_doubt=doubt,
    )
    return checked(run)


def _length(requests: Mapping[str, Any], name: str) -> float | None:
    section = requests.get(name)
    if not isinstance(section, dict):
        return None
    if section.get("units") != "count":
        raise Inadmissible("unit_suspect", f"{name}: unit {str(section.get('units'))[:20]!r}, known is 'count'")
    return number(section, "mean", name)


def _output_rate(aggregate: Mapping[str, Any]) -> float | None:
    """The throughput ends every report: without it the file was cut off."""
    section = field(aggregate, "throughput", dict, "aggregate").get("output_token_rate")
    if not isinstance(section, dict):
        return None
    if section.get("units") != "tokens/s":
        raise Inadmissible("unit_suspect", "output_token_rate is not in tokens/s")
    return optional_number(section, "mean", "output_token_rate")


def _latencies(section: Mapping[str, Any]) -> dict[str, Latency]:
    found = {figure: section.get(key) for figure, key in _FIGURES.items()}
    return {figure: _latency(one, _FIGURES[figure]) for figure, one in found.items() if isinstance(one, dict)}


def _latency(section: Mapping[str, Any], where: str) -> Latency:
    unit = section.get("units")
    if not isinstance(unit, str) or unit not in _PER_SECOND:
        raise Inadmissible("unit_suspect", f"{where}: unit {str(unit)[:20]!r}, known are {', '.join(_PER_SECOND)}")
    names = {
        key: share_of(float(f"{match[1]}.{match[2] or 0}")) for key in section if (match := _QUANTILE.fullmatch(key))
    }
    quantiles = {share: number(section, key, where) / _PER_SECOND[unit] for key, share in names.items()}
    return Latency(quantiles, number(section, "mean", where) / _PER_SECOND[unit])
