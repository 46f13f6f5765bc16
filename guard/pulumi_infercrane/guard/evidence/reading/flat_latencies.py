"""Latencies of tools that write one flat object: `median_ttft_ms`, `p95_e2e_latency_ms`."""

import re
from collections.abc import Mapping
from typing import Any

from pulumi_infercrane.guard.evidence.reading.fields import number
from pulumi_infercrane.guard.evidence.records import Latency
from pulumi_infercrane.guard.reasons import Inadmissible

_PERCENTILE = re.compile(r"p(\d{1,2}(?:\.\d{1,3})?)")


def flat_latencies(
    document: Mapping[str, Any], names: Mapping[str, str], suffix: str, per_second: float
) -> dict[str, Latency]:
    """Summaries by figure. `names` maps a figure to its name in the keys; `per_second` values make a second.

    Raises:
        Inadmissible: `bad_value`, or `inconsistent` when `p50` is not `median`.
    """
    found = {
        figure: _latency(document, f"_{name}{suffix}", per_second, figure)
        for figure, name in names.items()
        if f"mean_{name}{suffix}" in document or f"median_{name}{suffix}" in document
    }
    return {figure: latency for figure, latency in found.items() if latency.quantiles or latency.mean is not None}


def _latency(document: Mapping[str, Any], tail: str, per_second: float, figure: str) -> Latency:
    quantiles: dict[float, float] = {}
    for key in document:
        share = _share(key.removesuffix(tail)) if key.endswith(tail) else None
        if share is None:
            continue
        value = number(document, key, "") / per_second
        if abs(quantiles.setdefault(share, value) - value) > 1e-6 * abs(value):
            raise Inadmissible("inconsistent", f"{figure}: p50 and median differ")
    mean = f"mean{tail}"
    return Latency(quantiles, number(document, mean, "") / per_second if mean in document else None)


def _share(word: str) -> float | None:
    if word == "median":
        return 0.5
    match = _PERCENTILE.fullmatch(word)
    return round(float(match[1]) / 100, 9) if match else None
