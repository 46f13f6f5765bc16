"""k6: data of `handleSummary`, and the file of `--summary-export`. The two are told apart by their keys.

Both count failed requests as *passes* of the rate `http_req_failed`. In an export a threshold that was crossed says
true; in handleSummary data one that held does. Times are in milliseconds.
"""

import operator
import re
from collections.abc import Mapping
from typing import Any

from pulumi_infercrane.guard.evidence.envelope import Envelope
from pulumi_infercrane.guard.evidence.reading.checks import checked
from pulumi_infercrane.guard.evidence.reading.documents import check_kind
from pulumi_infercrane.guard.evidence.reading.fields import bad, count, field, number, optional_number
from pulumi_infercrane.guard.evidence.reading.load_runs import reliability_of, share_of
from pulumi_infercrane.guard.evidence.records import Benchmark, Latency, Record
from pulumi_infercrane.guard.reasons import Inadmissible
from pulumi_infercrane.guard.strict_json import parse

VERSIONS: tuple[str, ...] = ()

READS = "The JSON of `handleSummary` data and of `--summary-export`: failures, and the duration of expected responses."
CANNOT_KNOW = (
    "Tokens and the first token; when it ran and against which model; whether the load was open or closed; "
    "the latency of good answers where `http_req_duration{expected_response:true}` is missing."
)

FOR_QUANTILES = "--summary-trend-stats avg,med,p(95),p(99)"

_QUANTILE = re.compile(r"p\((\d{1,2}(?:\.\d+)?)\)")
_THRESHOLD = re.compile(r"(\w+|p\([\d.]+\))\s*(<=|>=|<|>|===|==|!=)\s*(\d+(?:\.\d+)?)")
_OPERATORS = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "===": operator.eq,
    "!=": operator.ne,
}

Metrics = Mapping[str, Mapping[str, Any]]
"""Values of each metric by its name, the same in both layouts."""


def read(parts: Mapping[str, bytes], envelope: Envelope) -> Record:
    """The record of one run.

    Raises:
        Inadmissible: `schema_unknown` for a layout of neither kind, `inconsistent` when a threshold contradicts its
            own metric.
    """
    check_kind(envelope, "benchmark", "reliability")
    document = parse(parts["primary"])
    metrics = _metrics(document)
    _check_thresholds(document["metrics"], metrics)
    run = _run(metrics, _duration(document, metrics))
    return reliability_of(run) if envelope.kind == "reliability" else run


def thresholds_held(metric: Mapping[str, Any]) -> dict[str, bool]:
    """Which thresholds of a metric held, whatever the layout: `{"p(95)<500": True}`.

    Raises:
        Inadmissible: `bad_value`.
    """
    found = metric.get("thresholds", {})
    if not isinstance(found, dict):
        raise bad("thresholds", "not an object")
    return {expression: _held(value, expression) for expression, value in found.items()}


def _held(value: Any, expression: str) -> bool:
    if isinstance(value, dict):
        return field(value, "ok", bool, expression[:40])
    if not isinstance(value, bool):
        raise bad(expression[:40], "not true or false")
    return not value


def _metrics(document: Any) -> Metrics:
    metrics = document.get("metrics") if isinstance(document, dict) else None
    if not isinstance(metrics, dict) or not {"http_reqs", "http_req_failed"} <= metrics.keys():
        raise Inadmissible("schema_unknown", "no metrics http_reqs and http_req_failed: not a summary of k6 1.x")
    if any(not isinstance(metric, dict) for metric in metrics.values()):
        raise Inadmissible("schema_unknown", "a metric is not an object")
    nested = [isinstance(metric.get("values"), dict) for metric in metrics.values()]
    if any(nested) and not all(nested):
        raise Inadmissible("schema_unknown", "metrics of two layouts in one file")
    return {name: metric["values"] if nested[0] else metric for name, metric in metrics.items()}


def _duration(document: Mapping[str, Any], metrics: Metrics) -> float:
    """Seconds. An export does not say; there it is the number of requests over their rate."""
    if isinstance(document.get("state"), dict):
        return number(document["state"], "testRunDurationMs", "state") / 1000
    requests = metrics["http_reqs"]
    rate = number(requests, "rate", "http_reqs")
    if rate <= 0:
        raise bad("http_reqs", f"rate {rate:g} is not positive")
    return count(requests, "count", "http_reqs") / rate


def _run(metrics: Metrics, duration_s: float) -> Benchmark:
    attempted = count(metrics["http_reqs"], "count", "http_reqs")
    failed, succeeded = (count(metrics["http_req_failed"], name, "http_req_failed") for name in ("passes", "fails"))
    if failed + succeeded != attempted:
        raise Inadmissible("counters_disagree", f"{attempted} requests, but {failed} failed and {succeeded} did not")
    latencies = _latencies(metrics) if succeeded else {}
    run = Benchmark(
        attempted=attempted,
        failed=failed,
        errors={"unnamed": failed} if failed else {},
        duration_s=duration_s,
        latencies=latencies,
    )
    return checked(run)


def _latencies(metrics: Metrics) -> dict[str, Latency]:
    """Of expected responses only: `http_req_duration` itself counts fast failures as fast answers."""
    tagged = metrics.get("http_req_duration{expected_response:true}")
    if tagged is None:
        return {}
    names = {"med": 0.5} | {key: share_of(float(match[1])) for key in tagged if (match := _QUANTILE.fullmatch(key))}
    where = "http_req_duration"
    quantiles = {share: number(tagged, key, where) / 1000 for key, share in names.items() if key in tagged}
    mean = optional_number(tagged, "avg", where)
    return {"e2e_s": Latency(quantiles, None if mean is None else mean / 1000)}


def _check_thresholds(raw: Metrics, metrics: Metrics) -> None:
    """A threshold that contradicts the figures beside it was read upside down, by us or by who wrote the file."""
    for name, metric in raw.items():
        for expression, held in thresholds_held(metric).items():
            expected = _evaluated(expression, metrics[name])
            if expected is not None and expected != held:
                said = "held" if held else "crossed"
                raise Inadmissible("inconsistent", f"{name}: {expression[:40]} is said to have been {said}")


def _evaluated(expression: str, values: Mapping[str, Any]) -> bool | None:
    """Whether it holds; None when the file does not keep what it is about. A rate is called `value` in an export."""
    match = _THRESHOLD.fullmatch(expression.strip())
    if match is None:
        return None
    key = "value" if match[1] == "rate" and "passes" in values and "rate" not in values else match[1]
    value = optional_number(values, key, expression)
    return None if value is None else bool(_OPERATORS[match[2]](value, float(match[3])))
