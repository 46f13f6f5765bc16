"""inference-perf: `stage_N_lifecycle_metrics.json` as written in 2025-11 and by 0.7; `validation.json` as a part.

The file holds no version: it is read by its keys. Latencies are in seconds.
"""

import math
import re
from collections.abc import Mapping
from typing import Any

from pulumi_infercrane.guard.evidence.envelope import Envelope
from pulumi_infercrane.guard.evidence.reading.checks import checked, schedule_delay
from pulumi_infercrane.guard.evidence.reading.documents import check_kind
from pulumi_infercrane.guard.evidence.reading.fields import bad, count, field, number, optional_number
from pulumi_infercrane.guard.evidence.reading.hints import check_workload
from pulumi_infercrane.guard.evidence.reading.load_runs import (
    check_parts,
    reliability_of,
    share_of,
    token_time_doubt,
    without_token_times,
)
from pulumi_infercrane.guard.evidence.records import Benchmark, Latency, Record
from pulumi_infercrane.guard.reasons import Inadmissible
from pulumi_infercrane.guard.strict_json import parse

VERSIONS: tuple[str, ...] = ()

READS = "The lifecycle report of one stage (2025-11 and 0.7 layouts), with `validation.json` as part `validation`."
CANNOT_KNOW = (
    "When it ran and which model answered; single requests; how many answers were empty beyond an upper bound; "
    "a report that sums up stages of different rates gives failures only."
)

MIN_ACHIEVED_SHARE = 0.95
TOLERATED_MISCOUNTS = 0.05

_FIGURES = {
    "ttft_s": "time_to_first_token",
    "tpot_s": "time_per_output_token",
    "itl_s": "inter_token_latency",
    "e2e_s": "request_latency",
}
_QUANTILE = re.compile(r"p(\d{1,2}(?:\.\d+)?)")


def read(parts: Mapping[str, bytes], envelope: Envelope) -> Record:
    """The record of one stage; of a report over several stages only its failures.

    Raises:
        Inadmissible: `schema_unknown` for another report of the tool, `not_comparable` for a benchmark of mixed rates.
    """
    check_kind(envelope, "benchmark", "reliability")
    document = parse(parts["primary"])
    if not isinstance(document, dict) or not _is_lifecycle(document):
        raise Inadmissible("schema_unknown", "no load_summary.count: not a lifecycle report of inference-perf")
    rate = optional_number(document["load_summary"], "requested_rate", "load_summary")
    if rate is None and envelope.kind == "benchmark":
        raise Inadmissible(
            "not_comparable", "no requested_rate: a summary mixes stages of different rates; give a stage"
        )
    run = _run(document, rate, _validation_doubt(parts.get("validation")))
    return reliability_of(run) if envelope.kind == "reliability" else check_workload(run, envelope)


def _is_lifecycle(document: Mapping[str, Any]) -> bool:
    sections = [document.get(name) for name in ("load_summary", "successes", "failures")]
    return all(isinstance(section, dict) for section in sections) and "count" in document["load_summary"]


def _run(document: Mapping[str, Any], rate: float | None, doubt: str) -> Benchmark:
    load, successes, failures = (document[name] for name in ("load_summary", "successes", "failures"))
    attempted, failed = count(load, "count", "load_summary"), count(failures, "count", "failures")
    succeeded = count(successes, "count", "successes")
    if succeeded + failed != attempted:
        raise Inadmissible(
            "counters_disagree", f"{attempted} requests, but {succeeded} successes and {failed} failures"
        )
    out_tokens = _mean(successes, "output_len") if succeeded else None
    latencies = _latencies(field(successes, "latency", dict, "successes")) if succeeded else {}
    duration = optional_number(document, "benchmark_time_seconds", "")
    throughput = successes.get("throughput")
    throughput = throughput if isinstance(throughput, dict) else {}
    check_parts(latencies)
    slow_tokens = token_time_doubt(latencies, out_tokens)
    run = Benchmark(
        attempted=attempted,
        failed=failed,
        errors=_errors(failures, failed),
        load_model="open" if rate is not None else "",
        rate=rate,
        rate_achieved=optional_number(load, "achieved_rate", "load_summary"),
        streaming="ttft_s" in latencies or None,
        token_source="client" if out_tokens is not None else "",
        duration_s=duration if duration is not None else number(load, "send_duration", "load_summary"),
        latencies=without_token_times(latencies) if slow_tokens else latencies,
        in_tokens=_mean(successes, "prompt_tokens" if "prompt_tokens" in successes else "prompt_len"),
        out_tokens=out_tokens,
        out_tokens_per_s=optional_number(throughput, "output_tokens_per_sec", "throughput"),
        empty=_empty(successes, succeeded),
        token_doubt=_miscounted(successes, succeeded) or doubt or slow_tokens,
        saturation=_saturation(load, rate, latencies),
    )
    rps = optional_number(throughput, "requests_per_sec", "throughput")
    # files without a duration of their own miss rate times duration by up to 3 %
    return checked(run, rps=None if duration is None else rps, window_s=duration)


def _latencies(section: Mapping[str, Any]) -> dict[str, Latency]:
    found = {figure: section.get(key) for figure, key in _FIGURES.items()}
    return {figure: _latency(one, figure) for figure, one in found.items() if isinstance(one, dict)}


def _latency(section: Mapping[str, Any], where: str) -> Latency:
    return Latency(_quantiles(section, where), number(section, "mean", where))


def _quantiles(section: Mapping[str, Any], where: str) -> dict[float, float]:
    """By share. The order of the keys changed between versions, and `median` stands for p50."""
    names = {"median": 0.5} | {key: share_of(float(match[1])) for key in section if (match := _QUANTILE.fullmatch(key))}
    return {share: number(section, key, where) for key, share in names.items() if key in section}


def _mean(section: Mapping[str, Any], name: str) -> float | None:
    return optional_number(section[name], "mean", name) if isinstance(section.get(name), dict) else None


def _errors(failures: Mapping[str, Any], failed: int) -> dict[str, int]:
    labels = failures.get("by_label")
    if not isinstance(labels, dict):
        return {"unnamed": failed} if failed else {}
    errors = {label: count(one, "count", label) for label, one in labels.items() if isinstance(one, dict)}
    if sum(errors.values()) != failed:
        raise Inadmissible("counters_disagree", f"{failed} failures, but {sum(errors.values())} by label")
    return errors


def _empty(successes: Mapping[str, Any], succeeded: int) -> int | None:
    """At most so many successes have no token: those below the lowest quantile that is above 0."""
    lengths = successes.get("output_len")
    if not isinstance(lengths, dict) or "min" not in lengths:
        return None
    if number(lengths, "min", "output_len") > 0:
        return 0
    above = [share for share, tokens in _quantiles(lengths, "output_len").items() if tokens > 0]
    return math.ceil(min(above, default=1.0) * succeeded)


def _miscounted(successes: Mapping[str, Any], succeeded: int) -> str:
    mismatches = optional_number(successes, "token_count_mismatches", "successes") or 0
    if mismatches <= TOLERATED_MISCOUNTS * succeeded:
        return ""
    return f"client and server count other tokens in {mismatches:g} of {succeeded} answers"


def _saturation(load: Mapping[str, Any], rate: float | None, latencies: Mapping[str, Latency]) -> str:
    achieved = optional_number(load, "achieved_rate", "load_summary")
    if rate and achieved is not None and achieved < MIN_ACHIEVED_SHARE * rate:
        return f"{achieved:.4g} of {rate:.4g} requests per second were sent"
    delay = load.get("schedule_delay")
    late = optional_number(delay, "p99", "schedule_delay") if isinstance(delay, dict) else None
    return schedule_delay(late, latencies.get("ttft_s", Latency()).quantiles.get(0.5))


def _validation_doubt(data: bytes | None) -> str:
    """What the tool's own checks say of its token counts.

    Raises:
        Inadmissible: `inconsistent` when they found an error.
    """
    if data is None:
        return ""
    document = parse(data)
    reports = document.get("reports") if isinstance(document, dict) else None
    if not isinstance(reports, dict):
        raise Inadmissible("schema_unknown", "validation: no reports")
    sections = [*reports.values(), document.get("global") or {}]
    errors, warnings = (_messages(sections, name) for name in ("errors", "warnings"))
    if errors:
        raise Inadmissible("inconsistent", f"the tool's own checks found: {errors[0]}")
    return next((message for message in warnings if "token" in message), "")


def _messages(sections: list[Any], name: str) -> list[str]:
    found = []
    for section in sections:
        if not isinstance(section, dict) or not isinstance(section.get(name, []), list):
            raise bad("validation", f"{name} is not a list")
        found += [str(one.get("message", "")) if isinstance(one, dict) else str(one) for one in section.get(name, [])]
    return [message[:200] for message in found]
