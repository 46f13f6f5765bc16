"""Prometheus: the answer to a range query for a counter of generated tokens.

An answer does not repeat its query, so only a bare counter, which keeps its name, says what it counts. Rates,
quantiles of buckets (which cannot exceed the last finite edge), vectors and scalars do not.
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from pulumi_infercrane.guard.evidence.envelope import Envelope
from pulumi_infercrane.guard.evidence.reading.documents import check_kind
from pulumi_infercrane.guard.evidence.reading.fields import MAX_EXACT, bad, field
from pulumi_infercrane.guard.evidence.reading.moments import check_window, from_epoch
from pulumi_infercrane.guard.evidence.records import Cost, Record
from pulumi_infercrane.guard.reasons import Inadmissible
from pulumi_infercrane.guard.strict_json import parse

VERSIONS: tuple[str, ...] = ()

READS = "The answer to a range query for a bare counter of output tokens, of one revision by its labels."
CANNOT_KNOW = (
    "What was asked, once a function was applied: rates, quantiles and single values are refused; money; "
    "requests; tokens between the last sample before a restart and the restart."
)

OUTPUT_TOKENS = (
    "vllm:generation_tokens_total",
    "sglang:generation_tokens_total",
    "llamacpp:tokens_predicted_total",
    "litellm_output_tokens_metric_total",
)

Sample = tuple[float, float]
"""Time in seconds since 1970, and value."""


def read(parts: Mapping[str, bytes], envelope: Envelope) -> Record:
    """Output tokens of the series that carry every label of `select`; without money, to be added to a cost.

    Raises:
        Inadmissible: `no_evidence` for an empty answer, `non_finite` for NaN, `ambiguous_run` for several series
            without `select`, `counters_disagree` for one that occurs twice, `schema_unknown` for what is no known
            counter over time.
    """
    check_kind(envelope, "cost")
    series = [_samples(one) for one in _selected(_series(parse(parts["primary"])), envelope)]
    started, ended = min(one[0][0] for one in series), max(one[-1][0] for one in series)
    check_window(envelope, from_epoch(started, "values"), from_epoch(ended, "values"))
    tokens = sum(_increase(one) for one in series)
    return Cost(currency="", duration_s=ended - started, gpu_cost=None, output_tokens=round(tokens))


def _series(document: Any) -> list[dict[str, Any]]:
    if not isinstance(document, dict) or "status" not in document:
        raise Inadmissible("schema_unknown", "no status: not an answer of Prometheus")
    if document["status"] != "success":
        raise Inadmissible("no_evidence", f"Prometheus answered: {str(document.get('error'))[:200]}")
    data = field(document, "data", dict, "")
    result = data.get("result")
    if result == []:
        raise Inadmissible("no_evidence", "the answer holds no series")
    if data.get("resultType") != "matrix" or not isinstance(result, list):
        kind = str(data.get("resultType"))[:20]
        raise Inadmissible("schema_unknown", f"a {kind} does not say over what time: ask for a range of the counter")
    return [_labelled(one) for one in result]


def _labelled(series: Any) -> dict[str, Any]:
    metric = series.get("metric") if isinstance(series, dict) else None
    if not isinstance(metric, dict) or not all(isinstance(value, str) for value in metric.values()):
        raise Inadmissible("schema_unknown", "a series without labels")
    return dict(series)


def _selected(series: list[dict[str, Any]], envelope: Envelope) -> list[dict[str, Any]]:
    """By label, never the last one. Replicas of one revision are several series, and add up."""
    select = envelope.primary.select or {}
    found = [one for one in series if all(one["metric"].get(key) == str(value) for key, value in select.items())]
    if not found:
        raise bad("", f"no series has the labels {_shown(select)}")
    if len(found) > 1 and not select:
        raise Inadmissible("ambiguous_run", f"{len(found)} series: name labels in select")
    if len({frozenset(one["metric"].items()) for one in found}) < len(found):
        raise Inadmissible("counters_disagree", "two series have the same labels")
    names = {one["metric"].get("__name__") for one in found}
    if len(names) > 1 or names.isdisjoint(OUTPUT_TOKENS):
        shown = ", ".join(sorted(str(name)[:60] for name in names))
        raise Inadmissible("schema_unknown", f"{shown} is no known counter: ask for one of {', '.join(OUTPUT_TOKENS)}")
    return found


def _shown(select: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(select.items()))[:200]


def _samples(series: Mapping[str, Any]) -> list[Sample]:
    samples = list(_parsed(field(series, "values", list, "series")))
    if len(samples) < 2:
        raise Inadmissible("insufficient_n", "a counter needs two samples at least")
    if any(later[0] <= earlier[0] for earlier, later in pairwise(samples)):
        raise Inadmissible("inconsistent", "the samples are not in order of time")
    return samples


def _parsed(values: list[Any]) -> Iterator[Sample]:
    for value in values:
        if not isinstance(value, list) or len(value) != 2 or not isinstance(value[1], str):
            raise bad("values", "not a pair of a time and a text")
        time, text = value
        if isinstance(time, bool) or not isinstance(time, int | float) or not abs(time) <= MAX_EXACT:
            raise bad("values", "a time is not a number")
        yield float(time), _number(text)


def _number(text: str) -> float:
    """Prometheus writes numbers as text, and NaN where there was nothing; NaN is not 0."""
    try:
        value = float(text)
    except ValueError as error:
        raise bad("values", f"{text[:20]!r} is not a number") from error
    if not abs(value) <= MAX_EXACT:
        raise Inadmissible("non_finite", f"values: {text[:20]} is no count")
    if value < 0:
        raise bad("values", f"a counter is not negative ({text[:20]})")
    return value


def _increase(samples: list[Sample]) -> float:
    """After a restart a counter begins again at 0."""
    values = [value for _, value in samples]
    return sum(later - earlier if later >= earlier else later for earlier, later in pairwise(values))
